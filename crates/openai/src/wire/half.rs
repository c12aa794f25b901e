use std::mem;

use serde_json::Value;

/// Half of a character whose other half has not come yet.
///
/// JavaScript counts text in units of UTF-16. A server that cuts by them cuts a character that takes two of them, and
/// writes each half as an escape: `"\ud83c"` (RFC 8259, section 8.2). The other half comes with the next piece of the text.
#[derive(Debug, Default)]
pub(crate) struct Half(Option<u16>);

/// Where halves are carried through JSON: the last characters there are, all for private use.
const STAND_INS: u32 = 0x10_F800;

impl Half {
    /// Puts a piece of text behind this half. A half that stays alone is told by U+FFFD, and one at the end is kept.
    /// `is_mended` says whether there may be halves in the text.
    pub(crate) fn join(&mut self, text: String, is_mended: bool) -> String {
        if !is_mended && (self.0.is_none() || text.is_empty()) {
            return text;
        }
        let mut joined = String::with_capacity(text.len());
        for character in text.chars() {
            let half = if is_mended { half_of(character) } else { None };
            match (self.0.take(), half) {
                (Some(high), Some(low)) if !is_high(low) => joined.extend(character_of(high, low)),
                (alone, half) => {
                    joined.extend(alone.map(|_| char::REPLACEMENT_CHARACTER));
                    self.0 = half.filter(|half| is_high(*half));
                    let other = if half.is_none() { character } else { char::REPLACEMENT_CHARACTER };
                    joined.extend(Some(other).filter(|_| self.0.is_none()));
                }
            }
        }
        joined
    }

    /// Ends the text: what is left of this half.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.0.take().map(|_| char::REPLACEMENT_CHARACTER.into())
    }

    /// Forgets the half: the text comes once more, and whole.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

/// Reads JSON, and says whether it had to be mended first.
#[cfg(feature = "client")]
pub(crate) fn read<T>(
    json: &[u8],
    read: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> serde_json::Result<(T, bool)> {
    match read(json) {
        Ok(read) => Ok((read, false)),
        Err(error) => match mended(json) {
            Some(mended) => read(mended.as_bytes()).map(|read| (read, true)),
            None => Err(error),
        },
    }
}

/// JSON that can be read where this cannot, since there are halves of characters in it, or bytes that are no text at all.
/// The halves are carried on, for a [`Half`] to be joined.
#[cfg(feature = "client")]
fn mended(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    let (mut mended, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        let next = escape.get(6..).unwrap_or_default();
        let (stand_in, length) = match unit(escape) {
            Some(high)
                if is_high(high) && unit(next).is_some_and(|low| is_surrogate(low) && !is_high(low)) =>
            {
                (None, 12)
            }
            Some(half) if is_surrogate(half) => (char::from_u32(STAND_INS + u32::from(half - 0xD800)), 6),
            Some(_) => (None, 6),
            None => (None, escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at)),
        };
        let (escape, after) = escape.split_at_checked(length)?;
        mended.push_str(before);
        match stand_in {
            Some(stand_in) => mended.push(stand_in),
            None => mended.push_str(escape),
        }
        rest = after;
    }
    mended.push_str(rest);
    (mended.as_bytes() != json).then_some(mended)
}

/// Makes whole the texts of a JSON in which there may be halves.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut half = Half::default();
            *text = half.join(mem::take(text), true);
            text.extend(half.end());
        }
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// The unit of UTF-16 that a text begins with as an escape.
#[cfg(feature = "client")]
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

#[cfg(feature = "client")]
fn is_surrogate(unit: u16) -> bool {
    (0xD800..0xE000).contains(&unit)
}

fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn half_of(stand_in: char) -> Option<u16> {
    u16::try_from(u32::from(stand_in).checked_sub(STAND_INS)? + 0xD800).ok()
}

fn character_of(high: u16, low: u16) -> Option<char> {
    char::decode_utf16([high, low]).next()?.ok()
}
