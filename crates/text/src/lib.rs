#![doc = include_str!("../README.md")]

mod content_coding;
mod encoding;
mod error_chain;
mod hidden_chars;
mod json_strings;
mod panic_text;
mod secrets;
pub mod surrogates;
mod think_tags;
mod wildcard;

use std::borrow::Cow;

pub use content_coding::compression;
pub use encoding::{DecodeError, decode_utf8, without_byte_order_mark};
pub use error_chain::ErrorChain;
pub use hidden_chars::{escape_hidden_in_json, is_hidden, without_hidden_chars};
pub use json_strings::{JsonStringTracker, StringDecoder};
pub use panic_text::panic_text;
pub use secrets::without_secrets;
pub use think_tags::{CLOSE_TAG, OPEN_TAG, ThinkSplit, ThinkTagParser};
pub use wildcard::matches_wildcard;

/// Returns the longest prefix of `text` that has at most `max_bytes` bytes and ends at a character
/// boundary.
pub fn truncate(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

/// Returns `text`, or its [truncated](truncate) beginning followed by `…` if it is longer than
/// `max_bytes`.
///
/// The ellipsis (3 bytes) is not counted in `max_bytes`.
pub fn truncate_with_ellipsis(text: &str, max_bytes: usize) -> Cow<'_, str> {
    match truncate(text, max_bytes) {
        start if start.len() < text.len() => Cow::Owned(format!("{start}…")),
        whole => Cow::Borrowed(whole),
    }
}
