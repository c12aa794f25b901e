//! Percent-encoding of values in URLs (RFC 3986).

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The characters that are encoded: all except the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are encoded with `allowReserved`: those that are never allowed in a query,
/// and `&` and `+`, which separate values or stand for a space (OpenAPI 3.1.1, appendix E). `%` is
/// encoded unless it starts an encoded octet.
const RESERVED_IN_QUERY: &AsciiSet = &RESERVED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// The characters that are encoded in a cookie: those that are not `cookie-octet` (RFC 6265,
/// section 4.1.1). Servers do not decode the others, such as `=` in base64.
const NOT_COOKIE_OCTETS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\');

/// Encodes the characters of `text` that a cookie cannot have.
pub(super) fn encode_cookie(text: &str) -> String {
    utf8_percent_encode(text, NOT_COOKIE_OCTETS).to_string()
}

/// Encodes all characters of `text` except the unreserved ones.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes `text` for a query with `allowReserved`. Encoded octets such as `%2F` are kept (RFC
/// 6570, section 3.2.3).
pub(super) fn encode_reserved(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    let mut pieces = text.split('%');
    encoded.push_str(&utf8_percent_encode(pieces.next().unwrap_or_default(), RESERVED_IN_QUERY).to_string());
    for piece in pieces {
        let is_octet = piece.as_bytes().get(..2).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
        encoded.push_str(if is_octet { "%" } else { "%25" });
        encoded.push_str(&utf8_percent_encode(piece, RESERVED_IN_QUERY).to_string());
    }
    encoded
}

/// Returns the text of `value` in a URL, a header or a form. Arrays and objects become JSON text.
pub(super) fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Servers reject `3.0` and `1e20` for an integer. Without the sign of -0.0.
            Some(float) => (float + 0.0).to_string(),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}
