//! Reuse of the evaluated prefix of a prompt.
//!
//! The prefix comes from three places: the key-value cache of the network, which has the previous
//! conversation; the memory, which has the conversations before it; and the folder of the prefix
//! cache, which has the instructions and tool lists of earlier processes.

use tracing::debug;

use super::Engine;
use crate::common_prefix_length;
use crate::prefix_cache::{BLOCK_TOKENS, TakenBlocks};

/// The minimum number of evaluated tokens after which [`Engine::store_prefix`] is useful.
const MIN_EVALUATED_TOKENS: usize = 128;

impl Engine {
    /// Clears the key-value cache and the memory, which may be inconsistent after a panic.
    pub(crate) fn clear_cache(&mut self) {
        self.memory.clear();
        self.truncate_cache(0);
    }

    /// Makes the key-value cache a prefix of `prompt`, as long as possible. Returns its length in
    /// tokens. The prefix never includes the last token of `prompt`, because its logits are needed
    /// and are not cached.
    pub(crate) fn reuse_prefix(&mut self, prompt: &[u32]) -> usize {
        let common = common_prefix_length(&self.cached_tokens, prompt);
        let common = common.min(prompt.len().saturating_sub(1));
        // The blocks are taken before others are saved, so that the others cannot replace them.
        let taken = (prompt.len() > common + 1).then(|| self.memory.take(prompt, common));
        if self.cached_tokens.len() >= common + BLOCK_TOKENS {
            let (network, tokens) = (&self.network, &self.cached_tokens);
            if let Err(error) = self.memory.save(tokens, common, |range| network.export_cache(range)) {
                debug!(%error, "the conversation is not kept in memory");
            }
        }
        self.truncate_cache(common);
        if let Some(taken) = taken {
            self.import_taken(prompt, &taken);
        }
        self.load_from_folder(prompt);
        self.cached_tokens.len()
    }

    /// Returns `true` if many tokens were evaluated since the last call of
    /// [`store_prefix`](Self::store_prefix), and the prefix cache on disk is enabled.
    pub(crate) fn has_prefix_to_store(&self) -> bool {
        self.folder.is_some() && self.evaluated_tokens >= MIN_EVALUATED_TOKENS
    }

    /// Stores the common prefix of the last prompt and `prompt` on disk. `prompt` is `None` if the
    /// last prompt has no prefix to store.
    pub(crate) fn store_prefix(&mut self, prompt: Option<&[u32]>) {
        self.evaluated_tokens = 0;
        let (Some(folder), Some(prompt)) = (&self.folder, prompt) else { return };
        let common = common_prefix_length(&self.cached_tokens, prompt);
        let tokens = self.cached_tokens.get(..common).unwrap_or_default();
        folder.store(tokens, |range| self.network.export_cache(range));
    }

    fn import_taken(&mut self, prompt: &[u32], taken: &TakenBlocks) {
        let mut start = taken.start;
        for block in &taken.blocks {
            if let Err(error) = self.network.import_cache(start, block) {
                debug!(%error, "a conversation in memory cannot be used");
                self.set_cached_tokens(prompt, self.cached_tokens.len().min(start));
                break;
            }
            start += BLOCK_TOKENS;
            let end = taken.length.min(start);
            self.set_cached_tokens(prompt, end);
        }
    }

    fn load_from_folder(&mut self, prompt: &[u32]) {
        let Some(folder) = &self.folder else { return };
        let network = &mut self.network;
        let import = |start, block: &[u8]| network.import_cache(start, block);
        let loaded = folder.load(prompt, self.cached_tokens.len(), import);
        self.set_cached_tokens(prompt, loaded);
    }

    /// Records that the key-value cache begins with the first `length` tokens of `prompt`, and
    /// removes all other tokens from it.
    fn set_cached_tokens(&mut self, prompt: &[u32], length: usize) {
        self.cached_tokens.clear();
        self.cached_tokens.extend(prompt.iter().take(length));
        self.network.truncate_cache(length);
    }

    pub(super) fn truncate_cache(&mut self, length: usize) {
        self.cached_tokens.truncate(length);
        self.network.truncate_cache(length);
    }
}
