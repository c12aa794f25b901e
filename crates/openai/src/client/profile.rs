#[cfg(test)]
mod tests;

use haft_core::ModelProfile;
use reqwest::Url;

/// What matters of who runs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// OpenAI, which knows `max_completion_tokens` and has models that refuse `max_tokens`.
    OpenAi,
    /// Anybody else: nearly all know `max_tokens`, few the other.
    Compatible,
}

impl Server {
    pub(super) fn at(url: &Url) -> Self {
        let is_openai =
            url.host_str().is_some_and(|host| host == "openai.com" || host.ends_with(".openai.com"));
        if is_openai { Self::OpenAi } else { Self::Compatible }
    }

    pub(super) fn is_openai(self) -> bool {
        self == Self::OpenAi
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
