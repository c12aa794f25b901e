//! Bringing a reply to its end.
//!
//! A model without sense, such as one with random weights, never closes a list by itself. From some length on its
//! reply is closed for it: of the tokens that the grammar allows, the one that leads out is taken. A string or a
//! number that has begun is left to the model, as half of it would be another value.

use llguidance::toktrie::SimpleVob;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::tokenizer::Tokenizer;

/// Chooses the tokens that lead out of a piece of JSON.
pub(super) struct Closer {
    random: StdRng,
}

impl Closer {
    pub(super) fn new() -> Self {
        Self { random: StdRng::seed_from_u64(0) }
    }

    /// The allowed token that leads out soonest, as far as one can tell without looking ahead. Tokens that are
    /// equally good are drawn, so that no pattern can hold the reply in a circle. To be asked between two values.
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

/// How far a token is from leading out: by its first byte, then by its length, as a long token may lead in again.
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
