use haft_core::usage::Usage;
use serde::Deserialize;

/// The usage of an interaction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InteractionUsage {
    total_input_tokens: Option<u64>,
    total_tool_use_tokens: Option<u64>,
    total_output_tokens: Option<u64>,
    total_thought_tokens: Option<u64>,
    total_cached_tokens: Option<u64>,
    grounding_tool_count: Option<Vec<ToolCount>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ToolCount {
    count: Option<u64>,
}

impl From<InteractionUsage> for Usage {
    /// The tokens of the thoughts are not in `total_output_tokens`, and those of the results of
    /// hosted tools are not in `total_input_tokens`.
    fn from(usage: InteractionUsage) -> Self {
        let count = Option::unwrap_or_default;
        let input = count(usage.total_input_tokens).saturating_add(count(usage.total_tool_use_tokens));
        let thoughts = count(usage.total_thought_tokens);
        let output = count(usage.total_output_tokens).saturating_add(thoughts);
        let searches = usage.grounding_tool_count.into_iter().flatten().filter_map(|tool| tool.count);
        Self {
            cached_input_tokens: count(usage.total_cached_tokens),
            reasoning_tokens: thoughts,
            hosted_tool_requests: searches.fold(0, u64::saturating_add),
            ..Self::one_request(input, output)
        }
    }
}
