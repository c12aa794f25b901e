//! Detection of text that a model repeats without end.

/// The maximum number of tokens in a repeated block.
const MAX_BLOCK_TOKENS: usize = 128;
/// The minimum number of repetitions of a block. The first occurrence counts.
const MIN_REPETITIONS: usize = 4;
/// The minimum number of tokens in all repetitions together. A list of equal short lines may be
/// what the user asked for.
pub(super) const MIN_REPEATED_TOKENS: usize = 160;

/// The minimum number of tokens in a block with different numbers in each repetition. Tables and
/// counts have shorter blocks.
const MIN_NUMBERED_BLOCK_TOKENS: usize = 24;

/// Returns `true` if `tokens` ends with a block of tokens that is repeated at least
/// [`MIN_REPETITIONS`] times, and the repetitions have at least [`MIN_REPEATED_TOKENS`] tokens.
///
/// A small model that has begun to repeat a sentence continues until the token limit: each
/// repetition makes the next one more probable. In a list, the numbers of the items differ, so
/// numbers in long blocks are ignored. `is_number` returns `true` for the token of a number.
pub(super) fn ends_with_loop(tokens: &[u32], is_number: impl Fn(u32) -> bool) -> bool {
    if repeated_block(tokens).is_some() {
        return true;
    }
    let words: Vec<u32> = tokens.iter().copied().filter(|token| !is_number(*token)).collect();
    repeated_block(&words).is_some_and(|block| block >= MIN_NUMBERED_BLOCK_TOKENS)
}

/// Returns the number of tokens in the shortest repeated block at the end of `tokens`.
fn repeated_block(tokens: &[u32]) -> Option<usize> {
    (1..=MAX_BLOCK_TOKENS).find(|block| {
        let repeated = MIN_REPEATED_TOKENS.max(block * MIN_REPETITIONS).next_multiple_of(*block);
        let Some(end) = tokens.len().checked_sub(repeated).and_then(|start| tokens.get(start..)) else {
            return false;
        };
        // Each token equals the token one block before it.
        end.iter().zip(end.iter().skip(*block)).all(|(earlier, later)| earlier == later)
    })
}

/// Returns `true` if the bytes of a token are digits, possibly with spaces around them.
pub(super) fn is_number(bytes: &[u8]) -> bool {
    let digits = bytes.trim_ascii();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::{ends_with_loop, is_number};

    #[test]
    fn digits_are_a_number() {
        assert!(is_number(b" 40") && is_number(b"7\n"));
        assert!(!is_number(b" ") && !is_number(b"") && !is_number(b"4th"));
    }

    /// Tokens from 1,000 on are numbers.
    fn is_loop(tokens: &[u32]) -> bool {
        ends_with_loop(tokens, |token| token >= 1000)
    }

    fn repeat(block: &[u32], times: usize) -> Vec<u32> {
        [vec![90, 91, 92], block.repeat(times)].concat()
    }

    /// Returns `lines` lines with `words` words each, which begin with a different number.
    fn numbered(words: u32, lines: u32) -> Vec<u32> {
        (0..lines).flat_map(|line| std::iter::once(1000 + line).chain(0..words)).collect()
    }

    #[test]
    fn repeated_block_is_a_loop() {
        let sentence: Vec<u32> = (0..50).collect();
        assert!(!is_loop(&repeat(&sentence, 3)));
        assert!(is_loop(&repeat(&sentence, 4)));
    }

    #[test]
    fn short_block_is_a_loop_after_many_repetitions() {
        assert!(!is_loop(&repeat(&[1], 159)));
        assert!(is_loop(&repeat(&[1], 160)));
        assert!(is_loop(&repeat(&[1, 2, 3], 54)));
    }

    #[test]
    fn numbers_of_equal_long_items_are_ignored() {
        assert!(is_loop(&numbered(40, 4)));
        assert!(!is_loop(&numbered(40, 3)));
    }

    #[test]
    fn short_lines_with_different_numbers_are_no_loop() {
        assert!(!is_loop(&numbered(3, 100)));
    }

    #[test]
    fn text_after_a_repetition_is_no_loop() {
        let tokens = [repeat(&[1, 2, 3, 4], 100), vec![5]].concat();
        assert!(!is_loop(&tokens));
    }
}
