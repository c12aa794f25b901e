use haft_core::usage::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::{LenientObject, LenientValue};

/// Parses `usage`, the usage object of either API. Returns `None` if it is not an object, or if its
/// numbers are invalid.
pub(crate) fn parse_usage(usage: Value) -> Option<Usage> {
    LenientObject::<WireUsage>::deserialize(usage).ok()?.take()?.into_usage()
}

/// The token counts of a reply, with the field names of both APIs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    prompt_tokens: LenientValue,
    completion_tokens: LenientValue,
    total_tokens: LenientValue,
    prompt_tokens_details: LenientObject<InputDetails>,
    completion_tokens_details: LenientObject<OutputDetails>,
    /// The number of input tokens. This field and the next three fields are from the Responses API.
    input_tokens: LenientValue,
    output_tokens: LenientValue,
    input_tokens_details: LenientObject<InputDetails>,
    output_tokens_details: LenientObject<OutputDetails>,
    /// The number of cached input tokens, as sent by DeepSeek. Moonshot uses the field
    /// `cached_tokens`.
    prompt_cache_hit_tokens: LenientValue,
    cached_tokens: LenientValue,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: LenientValue,
    cache_write_tokens: LenientValue,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: LenientValue,
}

impl WireUsage {
    /// Converts the token counts. Returns `None` if a count is not a non-negative integer. An
    /// invalid `total_tokens` is ignored.
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
            cached_input_tokens: first_count(&cached)?,
            cache_write_tokens: first_count(&[&input.cache_write_tokens])?,
            reasoning_tokens: first_count(&[&output.reasoning_tokens])?,
            ..Usage::one_request(
                first_count(&[&self.prompt_tokens, &self.input_tokens])?,
                first_count(&[&self.completion_tokens, &self.output_tokens])?,
            )
        };
        Some(add_reasoning_tokens(usage, first_count(&[&self.total_tokens]).unwrap_or_default()))
    }
}

/// Adds the reasoning tokens to the output tokens if the server counts them separately, as xAI and
/// gateways to Gemini do. `total` is the total count from the server, or 0.
fn add_reasoning_tokens(usage: Usage, total: u64) -> Usage {
    let Usage { input_tokens, output_tokens, reasoning_tokens, .. } = usage;
    let all = output_tokens.saturating_add(reasoning_tokens);
    let is_beside = reasoning_tokens > output_tokens || total == input_tokens.saturating_add(all);
    Usage { output_tokens: if is_beside { all } else { output_tokens }, ..usage }
}

/// Merges two usage reports of a stream and keeps the larger of each count, because some servers
/// send zeros at the end.
pub(crate) fn merge_usage(before: Option<Usage>, now: Option<Usage>) -> Option<Usage> {
    let (Some(before), Some(now)) = (before, now) else { return now.or(before) };
    Some(Usage {
        input_tokens: before.input_tokens.max(now.input_tokens),
        output_tokens: before.output_tokens.max(now.output_tokens),
        cached_input_tokens: before.cached_input_tokens.max(now.cached_input_tokens),
        cache_write_tokens: before.cache_write_tokens.max(now.cache_write_tokens),
        reasoning_tokens: before.reasoning_tokens.max(now.reasoning_tokens),
        ..now
    })
}

/// Returns the first count in `fields` that is present, or 0 if all are absent. `None` if the first
/// present count is not a non-negative integer.
fn first_count(fields: &[&LenientValue]) -> Option<u64> {
    match fields.iter().find(|field| ***field != LenientValue::Absent) {
        Some(number) => number.to_number()?.try_into().ok(),
        None => Some(0),
    }
}
