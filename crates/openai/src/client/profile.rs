#[cfg(test)]
mod tests;

use haft_core::{ModelProfile, Value};
use serde_json::Map;

use super::provider::{Provider, Quirks};

/// What is sent of a request, and how: what its server knows, and what the user set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Habits {
    pub(super) provider: Option<Provider>,
    pub(super) quirks: Quirks,
    /// How much a model is to think, where that is set.
    pub(super) effort: Option<String>,
    /// What is sent besides.
    pub(super) extra_body: Map<String, Value>,
}

/// What models read besides text, by a part of their name.
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

/// The first that fits counts.
const FAMILIES: &[Family] = &[
    hearing("gpt-4o-audio"),
    hearing("gpt-4o-mini-audio"),
    hearing("gpt-audio"),
    openai("gpt-5", 400_000),
    openai("gpt-4.1", 1_047_576),
    openai("gpt-4o", 128_000),
    text("gpt-4"),
    openai("o1", 200_000),
    openai("o3", 200_000),
    openai("o4", 200_000),
    gemini("gemini-2"),
    gemini("gemini-3"),
    seeing("pixtral"),
    seeing("llava"),
    seeing("-vl"),
    seeing("vision"),
    seeing("gemma-3"),
];

/// What is known of a model by its name. A vendor's prefix, as in `openai/gpt-5`, does not matter.
pub(super) fn profile_of(model: &str) -> ModelProfile {
    let name = last_name(model);
    let family = FAMILIES.iter().find(|family| match family.name.strip_prefix('o') {
        // Too short to be looked for inside a name.
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

/// Whether a model refuses calls without the signature of what was thought before them: Gemini's, from the third on.
pub(super) fn needs_signatures(model: &str) -> bool {
    last_name(model).starts_with("gemini-3")
}

fn last_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_lowercase()
}
