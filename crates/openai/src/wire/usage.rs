use haft_core::{Usage, Value};
use serde::Deserialize;

use super::{Loose, Object};

/// What a reply cost, in the words of either API; `None` where the numbers make no sense.
pub(crate) fn usage_of(usage: Value) -> Option<Usage> {
    Object::<WireUsage>::deserialize(usage).ok()?.take()?.into_usage()
}

/// What a server says of the cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    prompt_tokens: Loose,
    completion_tokens: Loose,
    prompt_tokens_details: Object<InputDetails>,
    completion_tokens_details: Object<OutputDetails>,
    /// The words of the Responses API.
    input_tokens: Loose,
    output_tokens: Loose,
    input_tokens_details: Object<InputDetails>,
    output_tokens_details: Object<OutputDetails>,
    /// Where DeepSeek and Moonshot say what came from a cache.
    prompt_cache_hit_tokens: Loose,
    cached_tokens: Loose,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Loose,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Loose,
}

impl WireUsage {
    /// What it says; `None` where the numbers make no sense.
    pub(super) fn into_usage(mut self) -> Option<Usage> {
        let input = self
            .prompt_tokens_details
            .take()
            .or_else(|| self.input_tokens_details.take())
            .unwrap_or_default();
        let output = self
            .completion_tokens_details
            .take()
            .or_else(|| self.output_tokens_details.take())
            .unwrap_or_default();
        let cached = [&input.cached_tokens, &self.prompt_cache_hit_tokens, &self.cached_tokens];
        Some(Usage {
            cached_input_tokens: first_of(&cached)?,
            reasoning_tokens: first_of(&[&output.reasoning_tokens])?,
            ..Usage::of_request(
                first_of(&[&self.prompt_tokens, &self.input_tokens])?,
                first_of(&[&self.completion_tokens, &self.output_tokens])?,
            )
        })
    }
}

/// The number of tokens that one of the fields says, or none; `None` for what is no number.
fn first_of(fields: &[&Loose]) -> Option<u64> {
    match fields.iter().find(|field| ***field != Loose::Absent) {
        Some(number) => number.to_number()?.try_into().ok(),
        None => Some(0),
    }
}
