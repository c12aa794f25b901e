//! Bringing a reply to its end.
//!
//! A model without sense, such as one with random weights, never closes a string or a list by itself. From some
//! length on its reply is closed for it: of the tokens that the grammar allows, the one that leads out is taken.

use llguidance::toktrie::SimpleVob;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::place::Place;
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
    /// equally good are drawn, so that no pattern can hold the reply in a circle.
    pub(super) fn choose(
        &mut self,
        written: &[u8],
        allowed: &SimpleVob,
        tokenizer: &Tokenizer,
    ) -> Option<u32> {
        let place = Place::behind(written);
        let mut best = Vec::new();
        let mut best_rank = (u8::MAX, usize::MAX);
        for token in allowed.iter() {
            let rank = match tokenizer.is_end(token) {
                true => (0, 0),
                false => rank(place, tokenizer.bytes(token)),
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
fn rank(place: Place, bytes: &[u8]) -> (u8, usize) {
    let Some(first) = bytes.first() else { return (u8::MAX, usize::MAX) };
    let rank = match (place, first) {
        (Place::InString, b'"') => 1,
        (Place::InString, b'\\') => 9,
        (Place::InString, _) => 5,
        (Place::Between, b'}' | b']' | b'\n') => 1,
        (Place::Between, b'"') => 2,
        (Place::Between, b'0'..=b'9') => 3,
        (Place::Between, b't' | b'f' | b'n') => 4,
        (Place::Between, b',') => 5,
        (Place::Between, b'[') => 7,
        (Place::Between, b'{') => 8,
        (Place::Between, _) => 6,
    };
    (rank, bytes.len())
}
