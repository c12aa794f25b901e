//! Lone surrogates in JSON text.

use std::mem;

use serde_json::Value;

use crate::text::surrogates;

/// A joiner for surrogate pairs that a server has split between two deltas.
///
/// JavaScript strings are UTF-16. A server written in JavaScript may split a string inside a
/// surrogate pair. The server then sends each half as a lone escape such as `"\ud83c"` (RFC 8259,
/// section 8.2). `serde_json` rejects these escapes, so `parse_with_stand_ins` replaces each escape
/// with a private-use character (a stand-in).
#[derive(Debug, Default)]
pub struct SurrogateJoiner {
    /// The high surrogate at the end of the text so far. It is held back until the next piece.
    high: Option<u16>,
}

/// The first of the private-use characters that replace lone surrogates. Their range is U+10F800 to
/// U+10FFFF.
const FIRST_STAND_IN: u32 = 0x10_F800;

impl SurrogateJoiner {
    /// Joins the surrogate pairs in `text`, the next piece of a text, and returns the joined text.
    /// A lone surrogate becomes U+FFFD. A high surrogate at the end is held back until the next
    /// piece.
    ///
    /// Private-use characters are interpreted as surrogates only if `has_stand_ins` is `true`.
    pub fn join(&mut self, text: String, has_stand_ins: bool) -> String {
        if !has_stand_ins && (self.high.is_none() || text.is_empty()) {
            return text;
        }
        let mut joined = String::with_capacity(text.len());
        for character in text.chars() {
            let surrogate = if has_stand_ins { surrogate_of(character) } else { None };
            let high = self.high.take();
            let pair = high.zip(surrogate).and_then(|(high, low)| surrogates::decode_pair(high, low));
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

    /// Ends the text. Returns U+FFFD if a surrogate was held back, or else `None`.
    pub fn end(&mut self) -> Option<String> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER.into())
    }

    /// Drops the surrogate that was held back, if any. Called if the server repeats the whole text,
    /// which contains the surrogate again.
    pub fn reset(&mut self) {
        self.high = None;
    }
}

/// Parses `json` with the function `read`. If `read` fails, lone surrogates and invalid UTF-8 are
/// replaced, and `read` is called again. The returned flag is `true` if the second call succeeded.
/// In this case, strings may contain private-use characters.
pub fn parse_with_stand_ins<T>(
    json: &[u8],
    read: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> serde_json::Result<(T, bool)> {
    match read(json) {
        Ok(read) => Ok((read, false)),
        Err(error) => match replace_with_stand_ins(json) {
            Some(with_stand_ins) => read(with_stand_ins.as_bytes()).map(|read| (read, true)),
            None => Err(error),
        },
    }
}

/// Parses `json` as [`parse_with_stand_ins`] does, for types with a
/// [`RawValue`](serde_json::value::RawValue): their strings are parsed later, so `read` does not
/// find the lone surrogates.
///
/// # Errors
///
/// Returns the error of `read`.
pub fn parse_raw_with_stand_ins<T>(
    json: &[u8],
    read: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> serde_json::Result<(T, bool)> {
    // All surrogates begin with the digit D.
    let may_have_surrogates = json.windows(3).any(|window| matches!(window, [b'\\', b'u', b'd' | b'D']));
    let with_stand_ins = may_have_surrogates.then(|| replace_with_stand_ins(json)).flatten();
    match with_stand_ins {
        Some(with_stand_ins) => read(with_stand_ins.as_bytes()).map(|read| (read, true)),
        None => parse_with_stand_ins(json, read),
    }
}

/// Replaces each lone surrogate in `json` with a stand-in (see [`FIRST_STAND_IN`]), and invalid
/// UTF-8 with U+FFFD. Returns `None` if `json` contains neither.
fn replace_with_stand_ins(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    let (mut with_stand_ins, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        let next = escape.get(6..).unwrap_or_default();
        let (stand_in, length) = match parse_unicode_escape(escape) {
            Some(high)
                if surrogates::is_high(high)
                    && parse_unicode_escape(next).is_some_and(surrogates::is_low) =>
            {
                (None, 12)
            }
            Some(lone) if surrogates::is_high(lone) || surrogates::is_low(lone) => {
                (char::from_u32(FIRST_STAND_IN + u32::from(lone - 0xD800)), 6)
            }
            Some(_) => (None, 6),
            None => (None, escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at)),
        };
        let (escape, after) = escape.split_at_checked(length)?;
        with_stand_ins.push_str(before);
        match stand_in {
            Some(stand_in) => with_stand_ins.push(stand_in),
            None => with_stand_ins.push_str(escape),
        }
        rest = after;
    }
    with_stand_ins.push_str(rest);
    (with_stand_ins.as_bytes() != json).then_some(with_stand_ins)
}

/// Joins the surrogate pairs in all strings of `value`. The value must have been parsed with
/// private-use characters in place of lone surrogates.
pub fn join_surrogates(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut joiner = SurrogateJoiner::default();
            *text = joiner.join(mem::take(text), true);
            text.extend(joiner.end());
        }
        Value::Array(list) => list.iter_mut().for_each(join_surrogates),
        Value::Object(map) => map.values_mut().for_each(join_surrogates),
        _ => {}
    }
}

/// Parses the UTF-16 code unit of a `\uXXXX` escape at the beginning of `text`. Returns `None` if
/// there is no such escape.
fn parse_unicode_escape(text: &str) -> Option<u16> {
    surrogates::parse_unit(text.strip_prefix("\\u")?)
}

fn surrogate_of(stand_in: char) -> Option<u16> {
    u16::try_from(u32::from(stand_in).checked_sub(FIRST_STAND_IN)? + 0xD800).ok()
}
