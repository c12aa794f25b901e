//! Prevention of a stray space at the beginning of JSON strings.
//!
//! Byte-level vocabularies contain most words twice, as `word` and ` word`. After the opening
//! quotation mark of a JSON string, a small model often chooses the second form: `" Christianity"`.
//! The engine therefore excludes tokens that begin a string with a single space followed by another
//! character.
//!
//! Meaningful leading whitespace is still allowed: strings of spaces only (separators), and an
//! indentation with tabs or with two or more spaces (source code). A stray space is also allowed if
//! the schema requires it, for example `{"const": " x"}`.

use llguidance::toktrie::SimpleVob;

use super::json_state::JsonState;
use crate::tokenizer::Tokenizer;

/// Removes the tokens from `allowed` that would begin a string with a stray space, and returns the
/// remaining tokens. `state` is the state after the generated text. If no token would remain,
/// returns all of `allowed`.
pub(super) fn exclude_stray_spaces(state: JsonState, allowed: SimpleVob, tokenizer: &Tokenizer) -> SimpleVob {
    let candidates = match state {
        JsonState::StringStart => tokenizer.tokens_with_space(),
        _ => tokenizer.tokens_with_quoted_space(),
    };
    let mut bounded = allowed.clone();
    for token in candidates {
        if allowed.is_allowed(*token) && has_stray_space(state, tokenizer.bytes(*token)) {
            bounded.disallow_token(*token);
        }
    }
    if bounded.is_zero() { allowed } else { bounded }
}

/// Returns `true` if `token` begins a string with a single space that is followed by another
/// character. `state` is the state before `token`.
///
/// A space at the end of `token` also counts, because the next token would follow it directly.
fn has_stray_space(mut state: JsonState, token: &[u8]) -> bool {
    for (index, byte) in token.iter().enumerate() {
        if state == JsonState::StringStart && *byte == b' ' {
            let next = token.get(index + 1);
            if next.is_none_or(|next| !matches!(next, b' ' | b'"')) {
                return true;
            }
        }
        state = state.after_byte(*byte);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{JsonState, has_stray_space};

    fn check(state: JsonState, token: &str, expected: bool) {
        assert_eq!(has_stray_space(state, token.as_bytes()), expected, "{token:?}");
    }

    #[test]
    fn single_leading_space_is_stray() {
        for token in [" x", " ", " \\n", " \t"] {
            check(JsonState::StringStart, token, true);
        }
        for token in ["x", "  x", "   ", " \"", "\"", "\\n x"] {
            check(JsonState::StringStart, token, false);
        }
    }

    #[test]
    fn token_that_opens_the_string_is_checked() {
        check(JsonState::InString, "\": \" x", true);
        check(JsonState::InString, "\", \" ", true);
        check(JsonState::Outside, "\"  x", false);
        check(JsonState::InString, "a \", \"b c", false);
        check(JsonState::InEscape, "\" x", false);
    }
}
