//! Removal of secrets from texts, also of encoded ones.

use std::ops::Range;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use haft_core::text;
use secrecy::{ExposeSecret, SecretString};

/// The minimum length of a secret, in bytes. Shorter ones may occur inside other words.
const MIN_BYTES: usize = 4;
/// The minimum length of a part of a base64 text, in bytes.
const MIN_BASE64_BYTES: usize = 6;
const REPLACEMENT: &str = "[redacted]";

/// Decodes the start of a text. Returns the decoded bytes and the length of their encoded form.
type Decoder = fn(&[u8]) -> (Vec<u8>, usize);

/// Returns `text` without the `secrets` of at least 4 bytes, as they are and in base64,
/// hexadecimal, percent-encoded, or escaped for JSON or HTML.
pub(crate) fn without_secrets(text: &str, secrets: &[SecretString]) -> String {
    let secrets: Vec<_> =
        secrets.iter().map(ExposeSecret::expose_secret).filter(|it| it.len() >= MIN_BYTES).collect();
    let encoded: Vec<_> = secrets.iter().flat_map(|secret| encoded_forms(secret.as_bytes())).collect();
    let all = secrets.iter().copied().chain(encoded.iter().map(String::as_str));
    let text = text::without_secrets(text, all, REPLACEMENT).into_owned();
    [decode_percent as Decoder, decode_form, decode_escape]
        .into_iter()
        .fold(text, |text, decoder| without_escaped(text, &secrets, decoder))
}

/// Returns `secret` in hexadecimal and in base64, alone and inside of a longer base64 text.
fn encoded_forms(secret: &[u8]) -> Vec<String> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![hex.to_uppercase(), hex];
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        forms.push(engine.encode(secret));
    }
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        // A secret starts at one of three positions in a group of three bytes. The characters at
        // its ends depend on the bytes around it.
        for (shift, start) in [(0, 0), (1, 2), (2, 3)] {
            let bytes: Vec<_> = std::iter::repeat_n(0, shift).chain(secret.iter().copied()).collect();
            let end = bytes.len() * 8 / 6;
            let inner = engine.encode(&bytes).get(start..end).map(str::to_owned);
            forms.extend(inner.filter(|inner| inner.len() >= MIN_BASE64_BYTES));
        }
    }
    forms
}

/// Replaces `secrets` in the decoded form of `text`.
fn without_escaped(text: String, secrets: &[&str], decoder: Decoder) -> String {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (decoded, length) = decoder(rest);
        places.extend(std::iter::repeat_n(text.len() - rest.len(), decoded.len()));
        bytes.extend(decoded);
        rest = rest.get(length.max(1)..).unwrap_or_default();
    }
    places.push(text.len());
    let mut found: Vec<Range<usize>> = Vec::new();
    for secret in secrets {
        let matches = bytes.windows(secret.len()).enumerate().filter(|(_, it)| *it == secret.as_bytes());
        found.extend(
            matches.filter_map(|(start, it)| Some(*places.get(start)?..*places.get(start + it.len())?)),
        );
    }
    if found.is_empty() {
        return text;
    }
    found.sort_unstable_by_key(|range| range.start);
    let (mut clean, mut end) = (String::new(), 0);
    for range in found {
        if range.start >= end {
            clean.push_str(text.get(end..range.start).unwrap_or_default());
            clean.push_str(REPLACEMENT);
        }
        end = end.max(range.end);
    }
    clean.push_str(text.get(end..).unwrap_or_default());
    clean
}

/// Decodes an octet such as `%2F`.
fn decode_percent(text: &[u8]) -> (Vec<u8>, usize) {
    match text {
        [b'%', high, low, ..] => {
            let octet = str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
            octet.map_or_else(|| (vec![b'%'], 1), |octet| (vec![octet], 3))
        }
        [first, ..] => (vec![*first], 1),
        [] => (Vec::new(), 0),
    }
}

/// Decodes an octet, or the space of a form.
fn decode_form(text: &[u8]) -> (Vec<u8>, usize) {
    if text.first() == Some(&b'+') { (vec![b' '], 1) } else { decode_percent(text) }
}

/// Decodes an escape sequence of JSON or a character reference of HTML.
fn decode_escape(text: &[u8]) -> (Vec<u8>, usize) {
    let character = |code: &str, radix| char::from_u32(u32::from_str_radix(code, radix).ok()?);
    let ascii = |range: Range<usize>| str::from_utf8(text.get(range)?).ok();
    let decoded = match text {
        [b'\\', b'u', ..] => ascii(2..6).and_then(|code| Some((character(code, 16)?, 6))),
        [b'\\', escaped @ (b'"' | b'\\' | b'/'), ..] => Some((char::from(*escaped), 2)),
        [b'&', ..] => {
            let length = text.iter().take(10).position(|byte| *byte == b';');
            length.and_then(|length| {
                let decoded = match ascii(1..length)? {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    "apos" => '\'',
                    name => match (name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")), name) {
                        (Some(code), _) => character(code, 16)?,
                        (None, name) => character(name.strip_prefix('#')?, 10)?,
                    },
                };
                Some((decoded, length + 1))
            })
        }
        _ => None,
    };
    match (decoded, text) {
        (Some((character, length)), _) => (character.to_string().into_bytes(), length),
        (None, [first, ..]) => (vec![*first], 1),
        (None, []) => (Vec::new(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn encoded_secrets_are_removed() {
        let secrets = ["p+s/w\"rd &1".to_owned().into(), "abc".to_owned().into()];
        for text in [
            "key p+s/w\"rd &1.",
            "key p%2Bs%2Fw%22rd%20%261.",
            "key p%2bs/w%22rd+%261.",
            "key p%2Bs%2fw\"rd%20&1.",
            r#"key p+s/w\"rd &1."#,
            r#"key p\u002bs\/w\u0022rd \u00261."#,
            "key p+s/w&quot;rd &amp;1.",
            "key p&#43;s&#x2F;w&#34;rd &1.",
            "key cCtzL3cicmQgJjE=.",
            "key cCtzL3cicmQgJjE.",
            "key 702b732f772272642026 31.".replace(' ', "").replacen("key", "key ", 1).as_str(),
            "key 702B732F77227264202631.",
        ] {
            assert_eq!(without_secrets(text, &secrets), "key [redacted].", "{text}");
        }
        // The base64 text of a longer text has the secret inside.
        for outer in ["Bearer s3cret-token-77", "xBearer s3cret-token-77 y", "xyBearer s3cret-token-77"] {
            let encoded = base64::Engine::encode(&super::STANDARD, outer);
            let clean = without_secrets(&encoded, &["s3cret-token-77".to_owned().into()]);
            assert!(clean.contains("[redacted]"), "{clean}");
        }
        assert_eq!(without_secrets("abc 100%zz &; \\u12", &secrets), "abc 100%zz &; \\u12");
    }
}
