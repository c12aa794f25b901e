#[cfg(test)]
mod tests;

use haft_core::{model::ModelProfile, schema::SchemaTarget};

/// A model family, with its input media and context window. [`family_of`] returns the family of a
/// model.
struct ModelFamily {
    name: &'static str,
    images: bool,
    files: bool,
    audio: bool,
    context_window: Option<u64>,
}

const fn text_family(name: &'static str) -> ModelFamily {
    ModelFamily { name, images: false, files: false, audio: false, context_window: None }
}

const fn image_family(name: &'static str) -> ModelFamily {
    ModelFamily { images: true, ..text_family(name) }
}

const fn openai(name: &'static str, context_window: u64) -> ModelFamily {
    ModelFamily { images: true, files: true, context_window: Some(context_window), ..text_family(name) }
}

const fn gemini(name: &'static str) -> ModelFamily {
    ModelFamily { images: true, audio: true, context_window: Some(1_048_576), ..text_family(name) }
}

const fn audio_family(name: &'static str) -> ModelFamily {
    ModelFamily { audio: true, context_window: Some(128_000), ..text_family(name) }
}

const fn claude(name: &'static str) -> ModelFamily {
    ModelFamily { context_window: Some(200_000), ..image_family(name) }
}

/// The known families except [`GEMINI`] and [`CLAUDE`]. The first entry that matches is used, so exceptions
/// precede the general names.
const FAMILIES: &[ModelFamily] = &[
    audio_family("gpt-4o-audio"),
    audio_family("gpt-4o-mini-audio"),
    audio_family("gpt-audio"),
    openai("gpt-5.4-mini", 400_000),
    openai("gpt-5.4-nano", 400_000),
    openai("gpt-5.4", 1_050_000),
    openai("gpt-5.5-cyber", 400_000),
    openai("gpt-5.5", 1_050_000),
    openai("gpt-5.6-cyber", 400_000),
    openai("gpt-5.6", 1_050_000),
    openai("gpt-5", 400_000),
    openai("gpt-6", 1_050_000),
    openai("gpt-4.1", 1_047_576),
    openai("gpt-4o", 128_000),
    ModelFamily { context_window: Some(128_000), ..image_family("gpt-4-turbo") },
    image_family("gpt-4-vision"),
    text_family("gpt-4"),
    text_family("o1-mini"),
    text_family("o1-preview"),
    text_family("o3-mini"),
    openai("o1", 200_000),
    openai("o3", 200_000),
    openai("o4", 200_000),
    // Aliases of the latest version. Names with version 2 or later belong to the family `GEMINI`.
    gemini("gemini-flash"),
    gemini("gemini-pro-latest"),
    text_family("claude-2"),
    text_family("claude-instant"),
    claude("claude-"),
    image_family("grok-4"),
    image_family("llama-4"),
    image_family("llama4"),
    image_family("kimi-k2.5"),
    image_family("kimi-k2.6"),
    image_family("kimi-k2.7"),
    image_family("kimi-k3"),
    image_family("pixtral"),
    text_family("mistral-small-2501"),
    image_family("mistral-small-25"),
    image_family("mistral-small-26"),
    image_family("mistral-small-latest"),
    image_family("mistral-small-3."),
    image_family("mistral-small3."),
    image_family("mistral-medium"),
    // Mistral Large 2, such as `mistral-large-2411`, reads only text.
    image_family("mistral-large-2512"),
    image_family("mistral-large-3"),
    image_family("mistral-large-4"),
    image_family("mistral-large-latest"),
    // The models of the first generation, such as `ministral-8b-2410`, read only text.
    image_family("ministral-3-"),
    image_family("ministral-3:"),
    image_family("ministral-14b"),
    image_family("ministral-3b-2512"),
    image_family("ministral-8b-2512"),
    image_family("ministral-3b-latest"),
    image_family("ministral-8b-latest"),
    image_family("magistral-medium-latest"),
    image_family("magistral-small-latest"),
    image_family("llava"),
    image_family("-vl"),
    // Ollama spells these names without a hyphen.
    image_family("qwen2.5vl"),
    image_family("qwen3vl"),
    image_family("glm-4.1v"),
    image_family("glm-4.5v"),
    image_family("glm-4.6v"),
    image_family("vision"),
    // The smallest Gemma models read only text.
    text_family("gemma-3-1b"),
    text_family("gemma3:1b"),
    text_family("gemma-3-270m"),
    text_family("gemma3:270m"),
    image_family("gemma-3-"),
    image_family("gemma3:"),
    image_family("gemma-4-"),
    image_family("gemma4:"),
];

/// The family of Gemini 2 and all later versions.
const GEMINI: ModelFamily = gemini("gemini-");

/// The family of Claude 4.6 and all later versions.
const CLAUDE: ModelFamily = ModelFamily { context_window: Some(1_000_000), ..claude("claude-") };

/// Returns the profile of `model` according to its model family. A provider prefix, as in
/// `openai/gpt-5`, is ignored.
pub(crate) fn profile_of(model: &str) -> ModelProfile {
    let family = family_of(&normalized_name(model)).unwrap_or(&const { text_family("") });
    let ModelFamily { images, files, audio, context_window, .. } = *family;
    ModelProfile {
        supports_images: images,
        supports_files: files,
        supports_audio: audio,
        context_window,
        ..ModelProfile::new(model)
    }
}

fn family_of(name: &str) -> Option<&'static ModelFamily> {
    if gemini_major(name) >= Some(2) {
        return Some(&GEMINI);
    }
    if claude_version(name) >= Some((4, 6)) {
        return Some(&CLAUDE);
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
pub(super) fn needs_thought_signatures(model: &str) -> bool {
    let name = normalized_name(model);
    let is_alias = name.contains("gemini-") && name.ends_with("-latest");
    gemini_major(&name).map_or(is_alias, |major| major >= 3)
}

/// Returns the JSON Schema subset of the provider of `model`, or `None` if it has no subset of its
/// own.
pub(super) fn schema_target_of(model: &str) -> Option<SchemaTarget> {
    let name = normalized_name(model);
    if name.contains("gemini-") {
        return Some(SchemaTarget::Gemini);
    }
    name.contains("kimi-").then_some(SchemaTarget::Moonshot)
}

/// Returns `true` if `model` is the name of a model of Anthropic.
pub(super) fn is_of_anthropic(model: &str) -> bool {
    normalized_name(model).contains("claude-")
}

/// Returns `true` if `model` accepts cache breakpoints: GPT-5.6 and later. Earlier models find the
/// longest cached prefix by themselves.
pub(super) fn accepts_cache_breakpoints(model: &str) -> bool {
    gpt_version(model) >= Some((5, 6))
}

/// Returns `true` if `model` can search in tools that are not loaded: GPT-5.4 and later, without
/// the nano and cyber models of GPT-5.
pub(super) fn has_tool_search(model: &str) -> bool {
    let version = gpt_version(model);
    let is_exception = ["-nano", "-cyber"].iter().any(|part| normalized_name(model).contains(part));
    version >= Some((5, 4)) && (!is_exception || version >= Some((6, 0)))
}

/// Returns the version in the name of a GPT model, for example (5, 6) for `gpt-5.6-mini`.
fn gpt_version(model: &str) -> Option<(u32, u32)> {
    let name = normalized_name(model);
    let mut numbers =
        name.strip_prefix("gpt-")?.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.split('.');
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

/// Returns the version in the name of a Claude model, for example (4, 6) for `claude-opus-4-6` and
/// `claude-opus-4.6`, and (4, 0) for `claude-sonnet-4-20250514`.
fn claude_version(name: &str) -> Option<(u32, u32)> {
    let (_, words) = name.split_once("claude-")?;
    // A number of more than two digits is a date.
    let number = |word: &str| word.parse().ok().filter(|number| *number < 100);
    let mut words = words.split(['-', '.']).skip_while(|word| number(word).is_none());
    let major = number(words.next()?)?;
    Some((major, words.next().and_then(number).unwrap_or(0)))
}

/// Returns the major version in the name of a Gemini model, for example 2 for `gemini-2.5-flash`.
/// `None` if `name` has no version, or is not the name of a Gemini model.
fn gemini_major(name: &str) -> Option<u32> {
    let (_, version) = name.split_once("gemini-")?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn normalized_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_lowercase()
}
