//! Parsing of UTF-16 surrogates in JSON escapes such as `"\ud83c\udf0d"` (RFC 8259, section 7).

/// Returns `true` if `unit` is a high surrogate, the first half of a pair.
pub fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

/// Returns `true` if `unit` is a low surrogate, the second half of a pair.
pub fn is_low(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// Joins a surrogate pair into a character. Returns `None` unless `high` is a high surrogate and
/// `low` is a low surrogate.
///
/// # Examples
///
/// ```
/// use haft_text::surrogates::decode_pair;
///
/// assert_eq!(decode_pair(0xD83C, 0xDF0D), Some('🌍'));
/// assert_eq!(decode_pair(0xDF0D, 0xD83C), None);
/// ```
pub fn decode_pair(high: u16, low: u16) -> Option<char> {
    let is_pair = is_high(high) && is_low(low);
    char::decode_utf16([high, low]).next().filter(|_| is_pair)?.ok()
}

/// Parses the four hex digits of a `\uXXXX` escape at the beginning of `digits`. Returns `None` if
/// `digits` does not begin with four hex digits.
///
/// # Examples
///
/// ```
/// use haft_text::surrogates::parse_unit;
///
/// assert_eq!(parse_unit("d83c\\udf0d"), Some(0xD83C));
/// assert_eq!(parse_unit("+123"), None);
/// ```
pub fn parse_unit(digits: &str) -> Option<u16> {
    let digits = digits.get(..4)?;
    // `from_str_radix` would accept a sign.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}
