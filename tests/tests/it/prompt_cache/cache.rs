//! A simulated prompt cache. A token is a byte here, because only proportions matter.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// A request as the provider sees it: the blocks in the order of the prompt.
pub(crate) type Prompt = Vec<Block>;

/// A part of a prompt that is cached as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// The JSON of the block without its mark.
    pub(crate) text: String,
    /// `true` if the block ends with a cache breakpoint.
    pub(crate) is_marked: bool,
}

/// The rules of a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CacheRules {
    /// At most four breakpoints. Each of them finds an entry at most 20 blocks before it. Source:
    /// Anthropic's guide to prompt caching.
    Anthropic,
    /// The last three breakpoints and the end of the prompt are written. The last 80 breakpoints
    /// are compared. Source: OpenAI's API reference, `prompt_cache_options`.
    OpenAi,
}

/// The tokens of a run that were read from the cache.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    read: usize,
    /// The tokens that a perfect cache would have read: those of the longest common prefix with an
    /// earlier request.
    possible: usize,
    all: usize,
}

impl Hits {
    /// Returns the proportion of the possible tokens that were read.
    pub(crate) fn share(&self) -> f64 {
        self.read as f64 / self.possible.max(1) as f64
    }

    /// Returns the proportion of all input tokens that were read.
    pub(crate) fn share_of_all(&self) -> f64 {
        self.read as f64 / self.all.max(1) as f64
    }
}

pub(crate) fn simulate(prompts: &[Prompt], rules: CacheRules) -> Hits {
    let mut hits = Hits::default();
    let mut entries = HashSet::new();
    for (index, prompt) in prompts.iter().enumerate() {
        let prefixes = prefixes(prompt);
        let ends: Vec<_> = (0..prompt.len()).filter(|block| prompt[*block].is_marked).collect();
        let is_known = |block: &usize| entries.contains(&prefixes[*block].0);
        let found = match rules {
            CacheRules::Anthropic => {
                assert!(ends.len() <= 4, "{} breakpoints", ends.len());
                let lookback = ends.iter().flat_map(|end| (end.saturating_sub(19)..=*end).rev());
                lookback.filter(is_known).max()
            }
            CacheRules::OpenAi => {
                let eligible = ends.iter().rev().take(80).copied().chain([prompt.len() - 1]);
                eligible.filter(is_known).max()
            }
        };
        hits.read += found.map_or(0, |block| prefixes[block].1);
        hits.all += prefixes.last().map_or(0, |(_, length)| *length);
        let common = prompts[..index].iter().map(|earlier| common_prefix(earlier, prompt)).max();
        hits.possible += common.unwrap_or(0);
        let written = match rules {
            CacheRules::Anthropic => ends,
            CacheRules::OpenAi => ends.into_iter().rev().take(3).chain([prompt.len() - 1]).collect(),
        };
        entries.extend(written.into_iter().map(|block| prefixes[block].0));
    }
    hits
}

/// Returns the hash and the length of the prefix that ends with each block.
fn prefixes(prompt: &[Block]) -> Vec<(u64, usize)> {
    let mut hasher = DefaultHasher::new();
    let mut length = 0;
    let add = |block: &Block| {
        block.text.hash(&mut hasher);
        length += block.text.len();
        (hasher.finish(), length)
    };
    prompt.iter().map(add).collect()
}

fn common_prefix(one: &[Block], other: &[Block]) -> usize {
    let equal = one.iter().zip(other).take_while(|(one, other)| one.text == other.text);
    equal.map(|(block, _)| block.text.len()).sum()
}
