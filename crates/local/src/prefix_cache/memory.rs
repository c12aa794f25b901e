//! Evaluated prefixes in memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::BLOCK_TOKENS;
use crate::common_prefix_length;

/// The hash of all tokens before a block.
type PrefixHash = [u8; 32];

/// An LRU cache of the keys and values of conversations that are not in the key-value cache of the
/// network.
///
/// Blocks begin at multiples of [`BLOCK_TOKENS`] and are found by the hash of all earlier tokens.
/// Conversations with the same beginning therefore share its blocks.
pub(crate) struct MemoryBlocks {
    blocks: HashMap<PrefixHash, Vec<Block>>,
    bytes: usize,
    max_bytes: usize,
    /// The number of operations so far, as the time of the last use of a block.
    clock: u64,
}

struct Block {
    tokens: Vec<u32>,
    /// The keys and values of `tokens`.
    data: Vec<u8>,
    /// The number of blocks before this one in its conversation.
    index: usize,
    last_used: u64,
}

/// The result of [`MemoryBlocks::take`].
pub(crate) struct TakenBlocks {
    /// The position of the first block in tokens.
    pub(crate) start: usize,
    /// The length of the extended prefix in tokens. It is less than the length of the prompt.
    pub(crate) length: usize,
    /// The keys and values of consecutive blocks. The last block may contain tokens that are not in
    /// the prompt.
    pub(crate) blocks: Vec<Vec<u8>>,
}

impl MemoryBlocks {
    /// Creates an empty cache for at most `max_bytes` bytes of keys and values.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { blocks: HashMap::new(), bytes: 0, max_bytes, clock: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
    }

    /// Stores the blocks of `tokens`, except the blocks that end at or before the token `start`.
    /// `export` returns the keys and values of a range of `tokens`. Removes the least recently used
    /// blocks if the cache is too large.
    pub(crate) fn save<E>(
        &mut self,
        tokens: &[u32],
        start: usize,
        mut export: impl FnMut(Range<usize>) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        if self.max_bytes == 0 {
            return Ok(());
        }
        self.clock += 1;
        let first = start / BLOCK_TOKENS;
        let mut prefix = hash_blocks(tokens, first);
        for (index, part) in tokens.chunks(BLOCK_TOKENS).enumerate().skip(first) {
            let siblings = self.blocks.entry(prefix).or_default();
            prefix = hash_block(&prefix, part);
            if let Some(known) = siblings.iter_mut().find(|block| block.tokens.starts_with(part)) {
                known.last_used = self.clock;
                continue;
            }
            let begin = index * BLOCK_TOKENS;
            let data = export(begin..begin + part.len())?;
            siblings.retain(|block| {
                let is_covered = part.starts_with(&block.tokens);
                self.bytes -= if is_covered { block.data.len() } else { 0 };
                !is_covered
            });
            self.bytes += data.len();
            siblings.push(Block { tokens: part.to_vec(), data, index, last_used: self.clock });
        }
        self.evict();
        Ok(())
    }

    /// Returns the blocks that extend a prefix of `prompt` with `length` tokens.
    ///
    /// A block is removed if all its tokens are in the prompt. They will be in the key-value cache
    /// of the network, and [`save`](Self::save) stores them again before they are removed there.
    pub(crate) fn take(&mut self, prompt: &[u32], length: usize) -> TakenBlocks {
        self.clock += 1;
        let first = length / BLOCK_TOKENS;
        let mut taken = TakenBlocks { start: first * BLOCK_TOKENS, length, blocks: Vec::new() };
        // The logits of the last token are needed, so it is always evaluated.
        let usable = prompt.get(..prompt.len().saturating_sub(1)).unwrap_or_default();
        let mut prefix = hash_blocks(usable, first);
        for (index, part) in usable.chunks(BLOCK_TOKENS).enumerate().skip(first) {
            let Some(siblings) = self.blocks.get_mut(&prefix) else { break };
            let shared = |block: &Block| common_prefix_length(&block.tokens, part);
            let best = siblings.iter().enumerate().max_by_key(|(_, block)| shared(block));
            let Some((place, common)) = best.map(|(place, block)| (place, shared(block))) else { break };
            let Some(block) = siblings.get_mut(place) else { break };
            let end = index * BLOCK_TOKENS + common;
            if end <= taken.length {
                break;
            }
            taken.length = end;
            block.last_used = self.clock;
            if common < block.tokens.len() {
                taken.blocks.push(block.data.clone());
                break;
            }
            let block = siblings.swap_remove(place);
            self.bytes -= block.data.len();
            taken.blocks.push(block.data);
            if common < BLOCK_TOKENS {
                break;
            }
            prefix = hash_block(&prefix, part);
        }
        self.blocks.retain(|_, siblings| !siblings.is_empty());
        taken
    }

    /// Removes the least recently used blocks until the cache has at most `max_bytes` bytes. Of
    /// blocks that were used at the same time, the last block of the conversation is removed first.
    fn evict(&mut self) {
        let mut ages: Vec<_> =
            self.blocks.values().flatten().map(|block| (block.age(), block.data.len())).collect();
        ages.sort_unstable();
        let mut bytes = self.bytes;
        let removed = ages.into_iter().take_while(|(_, size)| {
            let is_too_large = bytes > self.max_bytes;
            bytes -= if is_too_large { *size } else { 0 };
            is_too_large
        });
        let Some((oldest, _)) = removed.last() else { return };
        self.bytes = bytes;
        self.blocks.retain(|_, siblings| {
            siblings.retain(|block| block.age() > oldest);
            !siblings.is_empty()
        });
    }
}

impl Block {
    /// Returns the position of the block in the order of removal, oldest first.
    fn age(&self) -> (u64, Reverse<usize>) {
        (self.last_used, Reverse(self.index))
    }
}

/// Returns the hash of the first `count` blocks of `tokens`.
fn hash_blocks(tokens: &[u32], count: usize) -> PrefixHash {
    tokens.chunks(BLOCK_TOKENS).take(count).fold([0; 32], |prefix, part| hash_block(&prefix, part))
}

fn hash_block(prefix: &PrefixHash, tokens: &[u32]) -> PrefixHash {
    let mut hasher = Sha256::new();
    hasher.update(prefix);
    tokens.iter().for_each(|token| hasher.update(token.to_le_bytes()));
    hasher.finalize().into()
}
