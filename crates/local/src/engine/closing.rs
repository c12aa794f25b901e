//! Bringing a reply to its end.
//!
//! A model without sense, such as one with random weights, never closes a string or a list by itself. From some
//! length on its reply is closed for it: of the tokens that the grammar allows, the one that leads out is taken.

use llguidance::toktrie::SimpleVob;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::SeedableRng;

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
    pub(super) fn choose(&mut self, written: &[u8], allowed: &SimpleVob, tokenizer: &Tokenizer) -> Option<u32> {
        let place = Place::behind(written);
        let mut best = Vec::new();
        let mut best_rank = (u8::MAX, usize::MAX);
        for token in allowed.iter() {
            let rank = match tokenizer.is_end(token) {
                true => (0, 0),
                false => place.rank(tokenizer.bytes(token)),
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

/// Where in its JSON a reply is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    InString,
    Between,
}

impl Place {
    /// The place behind the last byte. JSON is written on one line: what stands on earlier ones is prose.
    fn behind(written: &[u8]) -> Self {
        let line = written.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut place = Self::Between;
        let mut escaped = false;
        for byte in line {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = place == Self::InString,
                b'"' if place == Self::InString => place = Self::Between,
                b'"' => place = Self::InString,
                _ => {}
            }
        }
        place
    }

    /// How far a token is from leading out: by its first byte, then by its length, as a long token may lead in
    /// again.
    fn rank(self, bytes: &[u8]) -> (u8, usize) {
        let Some(first) = bytes.first() else { return (u8::MAX, usize::MAX) };
        let rank = match (self, first) {
            (Self::InString, b'"') => 1,
            (Self::InString, b'\\') => 9,
            (Self::InString, _) => 5,
            (Self::Between, b'}' | b']' | b'\n') => 1,
            (Self::Between, b'"') => 2,
            (Self::Between, b'0'..=b'9') => 3,
            (Self::Between, b't' | b'f' | b'n') => 4,
            (Self::Between, b',') => 5,
            (Self::Between, b'[') => 7,
            (Self::Between, b'{') => 8,
            (Self::Between, _) => 6,
        };
        (rank, bytes.len())
    }
}
