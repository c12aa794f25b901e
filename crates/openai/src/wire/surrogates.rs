use std::mem;

use haft_core::text::surrogates;
use serde_json::Value;

/// Joins surrogate pairs that a server has divided between two deltas.
///
/// JavaScript strings are UTF-16. A server that divides them by units sends each half of a pair as
/// a lone escape: `"\ud83c"` (RFC 8259, section 8.2). `serde_json` rejects these, so that `read`
/// replaces them by stand-ins.
#[derive(Debug, Default)]
pub(crate) struct SurrogateJoiner {
    /// A high surrogate at the end of the text so far.
    high: Option<u16>,
}

/// First of the characters that stand for lone surrogates: U+10F800 to U+10FFFF are for private
/// use.
const STAND_INS: u32 = 0x10_F800;

impl SurrogateJoiner {
    /// Takes the next piece of a text. A lone surrogate becomes U+FFFD; a high surrogate at the end
    /// is held back.
    ///
    /// Stand-ins are only replaced if `is_mended` is set.
    pub(crate) fn join(&mut self, text: String, is_mended: bool) -> String {
        if !is_mended && (self.high.is_none() || text.is_empty()) {
            return text;
        }
        let mut joined = String::with_capacity(text.len());
        for character in text.chars() {
            let surrogate = if is_mended { surrogate_of(character) } else { None };
            let high = self.high.take();
            let pair = high.zip(surrogate).and_then(|(high, low)| surrogates::join(high, low));
            if let Some(character) = pair {
                joined.push(character);
                continue;
            }
            joined.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
            match surrogate {
                Some(high) if surrogates::is_high(high) => self.high = Some(high),
                Some(_low) => joined.push(char::REPLACEMENT_CHARACTER),
                None => joined.push(character),
            }
        }
        joined
    }

    /// Ends the text. Returns U+FFFD for a held surrogate.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER.into())
    }

    /// Drops a held surrogate. Used when the server repeats the text as a whole.
    pub(crate) fn reset(&mut self) {
        self.high = None;
    }
}

/// Parses JSON, with stand-ins for lone surrogates if it is rejected otherwise. The flag is set if
/// there are any.
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

/// Replaces lone surrogates by stand-ins and invalid UTF-8 by U+FFFD. `None` if there is neither.
#[cfg(feature = "client")]
fn mended(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    let (mut mended, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        let next = escape.get(6..).unwrap_or_default();
        let (stand_in, length) = match unit(escape) {
            Some(high) if surrogates::is_high(high) && unit(next).is_some_and(surrogates::is_low) => {
                (None, 12)
            }
            Some(lone) if surrogates::is_high(lone) || surrogates::is_low(lone) => {
                (char::from_u32(STAND_INS + u32::from(lone - 0xD800)), 6)
            }
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

/// Joins the surrogates in all strings of a JSON value that was read with stand-ins.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut joiner = SurrogateJoiner::default();
            *text = joiner.join(mem::take(text), true);
            text.extend(joiner.end());
        }
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// The unit of a `\uXXXX` escape at the beginning of a text.
#[cfg(feature = "client")]
fn unit(text: &str) -> Option<u16> {
    surrogates::parse_unit(text.strip_prefix("\\u")?)
}

fn surrogate_of(stand_in: char) -> Option<u16> {
    u16::try_from(u32::from(stand_in).checked_sub(STAND_INS)? + 0xD800).ok()
}
