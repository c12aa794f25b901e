#[cfg(test)]
mod tests;

use haft_core::{ModelProfile, Value, schema::WireProfile};
use reqwest::Url;
use serde_json::Map;

use crate::format::Reasoning;

/// What most servers call the reasoning.
pub(super) const REASONING_FIELD: &str = "reasoning_content";

/// What matters of who runs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    OpenAi,
    /// OpenAI's models at Azure.
    Azure,
    /// DeepSeek and Moonshot: their models read again what they thought before their calls.
    Reminding,
    /// Google, whose API behind the compatible one refuses keywords that it does not know.
    Gemini,
    /// Anybody else.
    Compatible,
}

/// What differs between servers in what is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Habits {
    /// Whether a limit of tokens is `max_completion_tokens`. OpenAI has models that refuse `max_tokens`; of the others
    /// nearly all know that, few this.
    pub(super) max_completion_tokens: bool,
    /// How the reasoning is sent back beside calls.
    pub(super) reasoning: Reasoning,
    /// What is read of the schemas of tools. Of `strict`, Azure has tighter limits, and others mean something else by it,
    /// or refuse it.
    pub(super) tool_schemas: WireProfile,
    /// How much a model is to think, where that is set.
    pub(super) effort: Option<String>,
    /// What is sent besides.
    pub(super) extra_body: Map<String, Value>,
}

impl Server {
    pub(super) fn at(url: &Url) -> Self {
        const DOMAINS: [(&str, Server); 6] = [
            ("openai.com", Server::OpenAi),
            ("openai.azure.com", Server::Azure),
            ("deepseek.com", Server::Reminding),
            ("moonshot.ai", Server::Reminding),
            ("moonshot.cn", Server::Reminding),
            ("googleapis.com", Server::Gemini),
        ];
        let host = url.host_str().unwrap_or_default();
        let is_within =
            |domain| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let known = DOMAINS.iter().find(|(domain, _)| is_within(domain));
        known.map_or(Self::Compatible, |(_, server)| *server)
    }

    pub(super) fn is_openai(self) -> bool {
        self == Self::OpenAi
    }

    pub(super) fn habits(self) -> Habits {
        Habits {
            max_completion_tokens: matches!(self, Self::OpenAi | Self::Azure),
            reasoning: match self {
                // Without it, also where it is empty, a model that thinks refuses the conversation.
                Self::Reminding => Reasoning::Required(REASONING_FIELD),
                _ => Reasoning::Left,
            },
            effort: None,
            extra_body: Map::new(),
            tool_schemas: match self {
                Self::OpenAi => WireProfile::OpenAiStrict,
                Self::Gemini => WireProfile::Gemini,
                _ => WireProfile::OpenAi,
            },
        }
    }
}

/// Models that read pictures, and how many tokens they take, by a part of their name.
const FAMILIES: [(&str, bool, Option<u64>); 14] = [
    ("gpt-5", true, Some(400_000)),
    ("gpt-4.1", true, Some(1_047_576)),
    ("gpt-4o", true, Some(128_000)),
    ("gpt-4", false, None),
    ("o1", true, Some(200_000)),
    ("o3", true, Some(200_000)),
    ("o4", true, Some(200_000)),
    ("gemini-2", true, Some(1_048_576)),
    ("gemini-3", true, Some(1_048_576)),
    ("pixtral", true, None),
    ("llava", true, None),
    ("-vl", true, None),
    ("vision", true, None),
    ("gemma-3", true, None),
];

/// What is known of a model by its name. A vendor's prefix, as in `openai/gpt-5`, does not matter.
pub(super) fn profile_of(model: &str) -> ModelProfile {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let family = FAMILIES.iter().find(|(part, ..)| match part.strip_prefix('o') {
        // Too short to be looked for inside a name.
        Some(_) => name.starts_with(part),
        None => name.contains(part),
    });
    let (images, context_window) = family.map_or((false, None), |&(_, images, window)| (images, window));
    ModelProfile { images, context_window, ..ModelProfile::new(model) }
}
