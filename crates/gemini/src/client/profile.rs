#[cfg(test)]
mod tests;

use haft_core::model::ModelProfile;

/// A model family, with its input media and context window.
struct ModelFamily {
    name: &'static str,
    has_media: bool,
    has_tools: bool,
    context_window: Option<u64>,
}

const fn family(name: &'static str, context_window: u64) -> ModelFamily {
    ModelFamily { name, has_media: true, has_tools: true, context_window: Some(context_window) }
}

/// The known families. The first entry whose name is in the name of the model is used, so exceptions
/// precede the general names.
const FAMILIES: &[ModelFamily] = &[
    ModelFamily { has_tools: false, ..family("gemini-2.5-flash-image", 32_768) },
    ModelFamily { has_tools: false, ..family("gemini-2.0-flash-preview-image", 32_768) },
    family("gemini-3-pro-image", 65_536),
    family("gemini-1.5-pro", 2_097_152),
    // All other models since Gemini 1.5, and aliases such as `gemini-flash-latest`.
    family("gemini-", 1_048_576),
    ModelFamily { has_media: false, has_tools: false, ..family("gemma-3-1b", 32_768) },
    ModelFamily { has_tools: false, ..family("gemma-3", 131_072) },
];

const UNKNOWN: ModelFamily =
    ModelFamily { name: "", has_media: false, has_tools: true, context_window: None };

/// Returns the profile of `model` according to its model family. A prefix, as in
/// `models/gemini-2.5-flash`, is ignored. The profile has no hosted tools.
pub(super) fn profile_of(model: &str) -> ModelProfile {
    let name = base_name(model);
    let family = FAMILIES.iter().find(|family| name.contains(family.name)).unwrap_or(&UNKNOWN);
    let is_gemini = name.contains("gemini-");
    ModelProfile {
        supports_native_tools: family.has_tools,
        supports_json_schema: family.has_tools,
        supports_images: family.has_media,
        supports_audio: family.has_media && is_gemini,
        supports_files: family.has_media && is_gemini,
        context_window: family.context_window,
        ..ModelProfile::new(model)
    }
}

/// Returns `true` if `model` rejects calls without a thought signature, and accepts media in
/// results. This applies to Gemini 3 and later, and to aliases without a version such as
/// `gemini-flash-latest`.
pub(super) fn is_gemini_3_or_later(model: &str) -> bool {
    let name = base_name(model);
    let Some((_, version)) = name.split_once("gemini-") else { return false };
    let major: Option<u32> =
        version.split(|c: char| !c.is_ascii_digit()).next().and_then(|it| it.parse().ok());
    major.map_or(name.ends_with("-latest"), |major| major >= 3)
}

fn base_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_lowercase()
}
