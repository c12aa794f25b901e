#[cfg(test)]
mod tests;

use haft_core::model::ModelProfile;
use serde_json::Map;
use serde_json::Value;

use super::provider::{Provider, Quirks};

/// Settings that apply to every request: quirks of the server and options of the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestDefaults {
    pub(super) provider: Option<Provider>,
    pub(super) quirks: Quirks,
    /// The `reasoning_effort`, if it is set.
    pub(super) effort: Option<String>,
    /// Additional fields of the body.
    pub(super) extra_body: Map<String, Value>,
}

/// Input media of a model family, found by a part of the name.
struct Family {
    name: &'static str,
    images: bool,
    files: bool,
    audio: bool,
    context_window: Option<u64>,
}

const fn text(name: &'static str) -> Family {
    Family { name, images: false, files: false, audio: false, context_window: None }
}

const fn seeing(name: &'static str) -> Family {
    Family { images: true, ..text(name) }
}

const fn openai(name: &'static str, context_window: u64) -> Family {
    Family { images: true, files: true, context_window: Some(context_window), ..text(name) }
}

const fn gemini(name: &'static str) -> Family {
    Family { images: true, audio: true, context_window: Some(1_048_576), ..text(name) }
}

const fn hearing(name: &'static str) -> Family {
    Family { audio: true, context_window: Some(128_000), ..text(name) }
}

const fn claude(name: &'static str) -> Family {
    Family { context_window: Some(200_000), ..seeing(name) }
}

/// The first match counts.
const FAMILIES: &[Family] = &[
    hearing("gpt-4o-audio"),
    hearing("gpt-4o-mini-audio"),
    hearing("gpt-audio"),
    openai("gpt-5", 400_000),
    openai("gpt-4.1", 1_047_576),
    openai("gpt-4o", 128_000),
    Family { context_window: Some(128_000), ..seeing("gpt-4-turbo") },
    seeing("gpt-4-vision"),
    text("gpt-4"),
    text("o1-mini"),
    text("o1-preview"),
    text("o3-mini"),
    openai("o1", 200_000),
    openai("o3", 200_000),
    openai("o4", 200_000),
    gemini("gemini-2"),
    gemini("gemini-3"),
    gemini("gemini-flash"),
    gemini("gemini-pro-latest"),
    text("claude-2"),
    text("claude-instant"),
    claude("claude-"),
    seeing("grok-4"),
    seeing("llama-4"),
    seeing("llama4"),
    seeing("kimi-k2.5"),
    seeing("pixtral"),
    text("mistral-small-2501"),
    seeing("mistral-small-25"),
    seeing("mistral-small-3."),
    seeing("mistral-small3."),
    seeing("mistral-medium-25"),
    seeing("mistral-medium-3"),
    seeing("llava"),
    seeing("-vl"),
    // As Ollama writes them.
    seeing("qwen2.5vl"),
    seeing("qwen3vl"),
    seeing("glm-4.1v"),
    seeing("glm-4.5v"),
    seeing("glm-4.6v"),
    seeing("vision"),
    // The smallest models read only text.
    text("gemma-3-1b"),
    text("gemma3:1b"),
    text("gemma-3-270m"),
    text("gemma3:270m"),
    seeing("gemma-3-"),
    seeing("gemma3:"),
];

/// The profile of a known model family. A prefix, as in `openai/gpt-5`, is ignored.
pub(crate) fn profile_of(model: &str) -> ModelProfile {
    let name = last_name(model);
    let family = FAMILIES.iter().find(|family| match family.name.strip_prefix('o') {
        // Too short to match inside of a name.
        Some(_) => name.starts_with(family.name),
        None => name.contains(family.name),
    });
    let Family { images, files, audio, context_window, .. } = family.unwrap_or(&const { text("") });
    ModelProfile {
        images: *images,
        files: *files,
        audio: *audio,
        context_window: *context_window,
        ..ModelProfile::new(model)
    }
}

/// Returns `true` if a model rejects calls without a thought signature: Gemini 3 and later.
pub(super) fn needs_signatures(model: &str) -> bool {
    last_name(model).starts_with("gemini-3")
}

fn last_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_lowercase()
}
