//! Early closing of long JSON values.
//!
//! A model with random weights may never close a list. After `GenerationJob::close_after_tokens`
//! tokens, the engine therefore prefers tokens that end the value. Open strings and numbers are an
//! exception: the model finishes them itself, because truncating them would change their value. The
//! list or object ends after them, if the grammar permits.

use llguidance::toktrie::SimpleVob;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::json_state::JsonState;
use crate::tokenizer::Tokenizer;

/// A token selector that closes a JSON value as soon as the grammar permits.
pub(super) struct GrammarCloser {
    random: StdRng,
}

impl GrammarCloser {
    pub(super) fn new() -> Self {
        Self { random: StdRng::seed_from_u64(0) }
    }

    /// Returns an end-of-turn token if `allowed` contains one. Otherwise returns the token with the
    /// lowest [`rank`], or `None` if `allowed` is empty. Ties are broken at random, because a fixed
    /// choice could loop forever.
    ///
    /// Must not be called within a string or a number.
    pub(super) fn choose(&mut self, allowed: &SimpleVob, tokenizer: &Tokenizer) -> Option<u32> {
        let mut best = Vec::new();
        let mut best_rank = (u8::MAX, usize::MAX);
        for token in allowed.iter() {
            let rank = match tokenizer.is_end(token) {
                true => (0, 0),
                false => rank(tokenizer.bytes(token)),
            };
            if rank < best_rank {
                best_rank = rank;
                best.clear();
            }
            if rank == best_rank {
                best.push(token);
            }
        }
        best.choose(&mut self.random).copied()
    }
}

/// Returns the token to write instead of `token`, the choice of the model within a string or
/// number.
///
/// If `token` begins the next item, the string ends without it, or a bracket follows the number.
/// Returns `token` if it does not, or if the grammar requires another item. `state` is the state
/// before the token, and `allowed` has the tokens that the grammar permits.
pub(super) fn without_next_item(
    token: u32,
    state: JsonState,
    allowed: &SimpleVob,
    tokenizer: &Tokenizer,
) -> u32 {
    let bytes = tokenizer.bytes(token);
    let end = state.first_separator(bytes).and_then(|end| bytes.get(..end));
    let ends_item = |other: &u32| match end {
        Some([]) => tokenizer.bytes(*other).starts_with(b"]") || tokenizer.bytes(*other).starts_with(b"}"),
        Some(end) => tokenizer.bytes(*other) == end,
        None => false,
    };
    allowed.iter().find(ends_item).unwrap_or(token)
}

/// Returns the rank of the token with the bytes `bytes`. A token with a lower rank closes the value
/// sooner. Tokens are ranked by their first byte, then by their length: a long token may open
/// another value.
fn rank(bytes: &[u8]) -> (u8, usize) {
    let Some(first) = bytes.first() else { return (u8::MAX, usize::MAX) };
    let rank = match first {
        b'}' | b']' | b'\n' => 1,
        b'"' => 2,
        b'0'..=b'9' => 3,
        b't' | b'f' | b'n' => 4,
        b',' => 5,
        b'[' => 7,
        b'{' => 8,
        _ => 6,
    };
    (rank, bytes.len())
}
