//! Early closing of a grammar, for long replies.
//!
//! Random weights never close a list. From some length on, the tokens for the end of the grammar
//! are preferred. An open string or number is left to the model, because its truncation would be
//! another value.

use llguidance::toktrie::SimpleVob;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::tokenizer::Tokenizer;

/// Chooses the closing tokens of a JSON value.
pub(super) struct CloseGrammar {
    random: StdRng,
}

impl CloseGrammar {
    pub(super) fn new() -> Self {
        Self { random: StdRng::seed_from_u64(0) }
    }

    /// The allowed token with the best rank, without look-ahead. Ties are broken at random to avoid
    /// endless loops. Must be called between two values.
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

/// The rank of a token: by its first byte, then by its length, because a long token may open
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
