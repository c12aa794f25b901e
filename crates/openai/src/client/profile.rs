#[cfg(test)]
mod tests;

use haft_core::model::ModelProfile;
use serde_json::Map;
use serde_json::Value;

use super::provider::{Provider, Quirks};

/// Settings that apply to every request: the quirks of the server and the options of the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestDefaults {
    pub(super) provider: Option<Provider>,
    pub(super) quirks: Quirks,
    /// The value of the request field `reasoning_effort`. `None` omits the field.
    pub(super) effort: Option<String>,
    /// Additional fields of the request body.
    pub(super) extra_body: Map<String, Value>,
}

/// A model family, with its input media and context window. A model belongs to a family if its name
/// contains the name of the family.
struct Family {
    name: &'static str,
    images: bool,
    files: bool,
    audio: bool,
    context_window: Option<u64>,
}

const fn text_only(name: &'static str) -> Family {
    Family { name, images: false, files: false, audio: false, context_window: None }
}

const fn with_images(name: &'static str) -> Family {
    Family { images: true, ..text_only(name) }
}

const fn openai(name: &'static str, context_window: u64) -> Family {
    Family { images: true, files: true, context_window: Some(context_window), ..text_only(name) }
}

const fn gemini(name: &'static str) -> Family {
    Family { images: true, audio: true, context_window: Some(1_048_576), ..text_only(name) }
}

const fn with_audio(name: &'static str) -> Family {
    Family { audio: true, context_window: Some(128_000), ..text_only(name) }
}

const fn claude(name: &'static str) -> Family {
    Family { context_window: Some(200_000), ..with_images(name) }
}

/// The known families. The first entry that matches is used, so exceptions precede the general
/// names.
const FAMILIES: &[Family] = &[
    with_audio("gpt-4o-audio"),
    with_audio("gpt-4o-mini-audio"),
    with_audio("gpt-audio"),
    openai("gpt-5", 400_000),
    openai("gpt-4.1", 1_047_576),
    openai("gpt-4o", 128_000),
    Family { context_window: Some(128_000), ..with_images("gpt-4-turbo") },
    with_images("gpt-4-vision"),
    text_only("gpt-4"),
    text_only("o1-mini"),
    text_only("o1-preview"),
    text_only("o3-mini"),
    openai("o1", 200_000),
    openai("o3", 200_000),
    openai("o4", 200_000),
    // Aliases of the latest version. Names with a version are in `GEMINI`.
    gemini("gemini-flash"),
    gemini("gemini-pro-latest"),
    text_only("claude-2"),
    text_only("claude-instant"),
    claude("claude-"),
    with_images("grok-4"),
    with_images("llama-4"),
    with_images("llama4"),
    with_images("kimi-k2.5"),
    with_images("pixtral"),
    text_only("mistral-small-2501"),
    with_images("mistral-small-25"),
    with_images("mistral-small-3."),
    with_images("mistral-small3."),
    with_images("mistral-medium-25"),
    with_images("mistral-medium-3"),
    with_images("llava"),
    with_images("-vl"),
    // Ollama spells these names without a hyphen.
    with_images("qwen2.5vl"),
    with_images("qwen3vl"),
    with_images("glm-4.1v"),
    with_images("glm-4.5v"),
    with_images("glm-4.6v"),
    with_images("vision"),
    // The smallest Gemma models read only text.
    text_only("gemma-3-1b"),
    text_only("gemma3:1b"),
    text_only("gemma-3-270m"),
    text_only("gemma3:270m"),
    with_images("gemma-3-"),
    with_images("gemma3:"),
];

/// The family of Gemini 2 and all later versions.
const GEMINI: Family = gemini("gemini-");

/// Returns the profile of `model` according to its model family. A provider prefix, as in
/// `openai/gpt-5`, is ignored.
pub(crate) fn profile_of(model: &str) -> ModelProfile {
    let family = family_of(&name_without_prefix(model)).unwrap_or(&const { text_only("") });
    let Family { images, files, audio, context_window, .. } = *family;
    ModelProfile { images, files, audio, context_window, ..ModelProfile::new(model) }
}

fn family_of(name: &str) -> Option<&'static Family> {
    if gemini_major(name) >= Some(2) {
        return Some(&GEMINI);
    }
    FAMILIES.iter().find(|family| match family.name.strip_prefix('o') {
        // A short name such as `o1` may occur inside an unrelated name, so it is matched only at
        // the beginning.
        Some(_) => name.starts_with(family.name),
        None => name.contains(family.name),
    })
}

/// Returns `true` if `model` rejects tool calls without a thought signature. This applies to
/// Gemini 3 and later, and to aliases without a version such as `gemini-flash-latest`.
pub(super) fn needs_signatures(model: &str) -> bool {
    let name = name_without_prefix(model);
    let is_alias = name.contains("gemini-") && name.ends_with("-latest");
    gemini_major(&name).map_or(is_alias, |major| major >= 3)
}

/// Returns the major version in the name of a Gemini model, for example 2 for `gemini-2.5-flash`.
/// `None` if `name` has no version, or is not the name of a Gemini model.
fn gemini_major(name: &str) -> Option<u32> {
    let (_, version) = name.split_once("gemini-")?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn name_without_prefix(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_lowercase()
}
