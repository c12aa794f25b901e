#[cfg(test)]
mod tests;

use haft_core::model::{HostedToolKind, ModelProfile};

/// The properties of the models with one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    context_window: u64,
    /// The default of `max_tokens`, which the API requires.
    pub(super) max_tokens: u32,
    /// The highest `max_tokens`.
    pub(super) highest_max_tokens: u32,
    pub(super) thinking: ThinkingModes,
    /// `true` if the model accepts `temperature` and `top_p`.
    pub(super) has_sampling: bool,
    /// `true` if the model has structured outputs and strict tools.
    has_schemas: bool,
    /// `true` if the model has the search for tools.
    pub(super) has_tool_search: bool,
    has_code_execution: bool,
}

/// The forms of thinking that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingModes {
    None,
    Manual,
    ManualOrAdaptive,
    Adaptive,
    /// The version of the model is unknown, so each form is sent as it is set.
    Unknown,
}

/// The default of `max_tokens` for current models. Replies without streaming are limited to about 10
/// minutes.
const MAX_TOKENS: u32 = 32_000;

const CLAUDE_5: Family = Family {
    context_window: 1_000_000,
    max_tokens: MAX_TOKENS,
    highest_max_tokens: 128_000,
    thinking: ThinkingModes::Adaptive,
    has_sampling: false,
    has_schemas: true,
    has_tool_search: true,
    has_code_execution: true,
};

/// The families by the lowest version, major and minor, newest first. Source: the overview pages of
/// the models.
const FAMILIES: &[((u32, u32), Family)] = &[
    ((4, 7), CLAUDE_5),
    ((4, 6), Family { thinking: ThinkingModes::ManualOrAdaptive, has_sampling: true, ..CLAUDE_5 }),
    ((4, 5), CLAUDE_4),
    ((4, 1), Family { highest_max_tokens: 32_000, has_tool_search: false, ..CLAUDE_4 }),
    ((4, 0), Family { highest_max_tokens: 32_000, has_schemas: false, has_tool_search: false, ..CLAUDE_4 }),
    ((3, 7), Family { has_schemas: false, has_tool_search: false, ..CLAUDE_4 }),
    ((3, 5), Family { max_tokens: 8_192, highest_max_tokens: 8_192, ..CLAUDE_3 }),
    ((0, 0), CLAUDE_3),
];

const CLAUDE_4: Family = Family {
    context_window: 200_000,
    highest_max_tokens: 64_000,
    thinking: ThinkingModes::Manual,
    has_sampling: true,
    ..CLAUDE_5
};

const CLAUDE_3: Family = Family {
    max_tokens: 4_096,
    highest_max_tokens: 4_096,
    thinking: ThinkingModes::None,
    has_schemas: false,
    has_tool_search: false,
    has_code_execution: false,
    ..CLAUDE_4
};

/// A model whose name has no known version. It is assumed to be current.
const UNKNOWN: Family = Family {
    context_window: 200_000,
    max_tokens: 8_192,
    highest_max_tokens: 128_000,
    thinking: ThinkingModes::Unknown,
    has_sampling: true,
    has_tool_search: false,
    ..CLAUDE_5
};

impl Family {
    /// Returns the family of `model`, such as `claude-opus-4-5-20251101`, `claude-3-5-haiku@20241022`
    /// or `anthropic.claude-sonnet-4-6-v1:0`.
    pub(super) fn of(model: &str) -> Self {
        let Some(version) = version_of(&model.to_lowercase()) else { return UNKNOWN };
        let family = FAMILIES.iter().find(|(lowest, _)| version >= *lowest);
        family.map_or(UNKNOWN, |(_, family)| *family)
    }

    /// Returns the profile of the model `name`.
    pub(super) fn profile(self, name: &str) -> ModelProfile {
        let mut hosted_tools = vec![HostedToolKind::WebSearch, HostedToolKind::McpServer];
        if self.has_code_execution {
            hosted_tools.push(HostedToolKind::CodeExecution);
        }
        ModelProfile {
            supports_json_schema: self.has_schemas,
            supports_images: true,
            supports_files: true,
            context_window: Some(self.context_window),
            hosted_tools,
            ..ModelProfile::new(name)
        }
    }
}

/// Returns the version in the name of a model, major and minor.
fn version_of(name: &str) -> Option<(u32, u32)> {
    let (_, name) = name.rsplit_once("claude-")?;
    // A number with more digits is a date.
    let number = |part: &str| Some(part).filter(|part| part.len() <= 2)?.parse::<u32>().ok();
    let mut parts = name.split(['-', '.', '@', ':', '[']).skip_while(|part| number(part).is_none());
    let major = parts.next().and_then(number)?;
    Some((major, parts.next().and_then(number).unwrap_or_default()))
}
