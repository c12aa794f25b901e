use haft_core::usage::Usage;
use serde::Deserialize as _;
use serde_json::Value;

use super::{Loose, Object, fields::object};

/// What a reply cost, in the words of either API; `None` where the numbers make no sense.
pub(crate) fn usage_of(usage: Value) -> Option<Usage> {
    Object::<WireUsage>::deserialize(usage).ok()?.take()?.into_usage()
}

object! {
    /// What a server says of the cost.
    pub(crate) struct WireUsage {
        prompt_tokens: Loose,
        completion_tokens: Loose,
        total_tokens: Loose,
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
}

object! {
    struct InputDetails {
        cached_tokens: Loose,
    }
}

object! {
    struct OutputDetails {
        reasoning_tokens: Loose,
    }
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
        let usage = Usage {
            cached_input_tokens: first_of(&cached)?,
            reasoning_tokens: first_of(&[&output.reasoning_tokens])?,
            ..Usage::of_request(
                first_of(&[&self.prompt_tokens, &self.input_tokens])?,
                first_of(&[&self.completion_tokens, &self.output_tokens])?,
            )
        };
        Some(with_reasoning(usage, first_of(&[&self.total_tokens]).unwrap_or_default()))
    }
}

/// Counts the reasoning as output where a server counts it beside that, as xAI does and gateways to Gemini.
fn with_reasoning(usage: Usage, total: u64) -> Usage {
    let Usage { input_tokens, output_tokens, reasoning_tokens, .. } = usage;
    let all = output_tokens.saturating_add(reasoning_tokens);
    let is_beside = reasoning_tokens > output_tokens || total == input_tokens.saturating_add(all);
    Usage { output_tokens: if is_beside { all } else { output_tokens }, ..usage }
}

/// What is known after more was said: numbers grow, and some servers end with zeros.
pub(crate) fn later(before: Option<Usage>, now: Option<Usage>) -> Option<Usage> {
    let (Some(before), Some(now)) = (before, now) else { return now.or(before) };
    Some(Usage {
        input_tokens: before.input_tokens.max(now.input_tokens),
        output_tokens: before.output_tokens.max(now.output_tokens),
        cached_input_tokens: before.cached_input_tokens.max(now.cached_input_tokens),
        reasoning_tokens: before.reasoning_tokens.max(now.reasoning_tokens),
        ..now
    })
}

/// The number of tokens that one of the fields says, or none; `None` for what is no number.
fn first_of(fields: &[&Loose]) -> Option<u64> {
    match fields.iter().find(|field| ***field != Loose::Absent) {
        Some(number) => number.to_number()?.try_into().ok(),
        None => Some(0),
    }
}
