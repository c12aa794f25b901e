use std::{error::Error, fmt};

/// The byte order mark as a character.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns `text` without a byte order mark at its beginning. A reader may ignore the mark (RFC
/// 8259, section 8.1).
///
/// # Examples
///
/// ```
/// assert_eq!(haft_text::without_byte_order_mark("\u{feff}{}"), "{}");
/// ```
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Decodes `bytes`, the content of a text file, as UTF-8. One byte order mark at the beginning is
/// removed: editors on Windows write it.
///
/// # Errors
///
/// Fails if `bytes` are not UTF-8. The error names UTF-16 and UTF-32, and contains no content.
///
/// # Examples
///
/// ```
/// use haft_text::decode_utf8;
///
/// assert_eq!(decode_utf8(b"\xef\xbb\xbf{}".to_vec()).as_deref(), Ok("{}"));
/// let error = decode_utf8(b"\xff\xfe{\0}\0".to_vec()).unwrap_err();
/// assert_eq!(error.to_string(), "the encoding is UTF-16: save the file as UTF-8");
/// ```
pub fn decode_utf8(bytes: Vec<u8>) -> Result<String, DecodeError> {
    if let Some(encoding) = other_unicode(&bytes) {
        return Err(DecodeError(Fault::OtherEncoding(encoding)));
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|error| DecodeError(Fault::InvalidByte(error.utf8_error().valid_up_to())))?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Returns the name of the encoding of `bytes` if it is UTF-16 or UTF-32, with or without a byte
/// order mark. Without a mark, the first character is ASCII in the texts that haft reads.
fn other_unicode(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [first, second, third, fourth, ..] => match [first, second, third, fourth].map(|byte| *byte == 0) {
            [false, true, true, true] | [true, true, true, false] => Some("UTF-32"),
            [false, true, false, true] | [true, false, true, false] => Some("UTF-16"),
            _ => None,
        },
        _ => None,
    }
}

/// The error for a text that is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    OtherEncoding(&'static str),
    /// The position of the first invalid byte.
    InvalidByte(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::OtherEncoding(encoding) => {
                write!(f, "the encoding is {encoding}: save the file as UTF-8")
            }
            Fault::InvalidByte(position) => {
                write!(f, "the encoding is not UTF-8, at byte {position}: save the file as UTF-8")
            }
        }
    }
}

impl Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::decode_utf8;

    #[test]
    fn byte_order_mark_is_removed_once() {
        for (bytes, text) in [
            (&b"{}"[..], "{}"),
            (b"\xef\xbb\xbf{}", "{}"),
            (b"\xef\xbb\xbf\xef\xbb\xbf{}", "\u{feff}{}"),
            (b" \xef\xbb\xbf", " \u{feff}"),
            (b"\xef\xbb\xbf", ""),
            (b"", ""),
            (b"a\0b", "a\0b"),
        ] {
            assert_eq!(decode_utf8(bytes.to_vec()).as_deref(), Ok(text), "{bytes:?}");
        }
    }

    #[test]
    fn other_encoding_is_named() {
        let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect();
        let utf32 = |text: &str| text.chars().flat_map(|it| u32::from(it).to_le_bytes()).collect();
        let cases: [(Vec<u8>, &str); 7] = [
            (utf16("\u{feff}{}", u16::to_le_bytes), "UTF-16"),
            (utf16("\u{feff}{}", u16::to_be_bytes), "UTF-16"),
            (utf16("{}", u16::to_le_bytes), "UTF-16"),
            (utf16("{}", u16::to_be_bytes), "UTF-16"),
            (utf32("\u{feff}{}"), "UTF-32"),
            (utf32("{}"), "UTF-32"),
            (b"{\"a\": \"\xe4\"}".to_vec(), "not UTF-8, at byte 7"),
        ];
        for (bytes, expected) in cases {
            let error = decode_utf8(bytes.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
