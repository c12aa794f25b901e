use haft_core::model::{
    ModelProfile,
    catalogue::{self, ModelCard},
};

use super::{
    accepts_cache_breakpoints, claude_version, gpt_version, has_tool_search, needs_thought_signatures,
    profile_of,
};

#[test]
fn profiles_of_known_models_have_images() {
    for model in [
        "gpt-5-mini",
        "openai/gpt-4o",
        "gpt-4-turbo",
        "o3",
        "qwen2.5-vl-7b",
        "qwen2.5vl:7b",
        "gemma3:12b",
        "google/gemini-2.5-flash",
        "gemini-flash-latest",
        "gemini-3-pro-preview",
        "gemini-4-pro",
        "anthropic/claude-sonnet-4",
        "meta-llama/Llama-4-Scout",
        "mistral-small-2506",
        "grok-4-fast",
        "LLaVA-1.6",
        "gpt-6-sol",
        "kimi-k3",
        "mistral-large-2512",
        "mistral-medium-latest",
        "ministral-3:8b",
        "gemma4:12b",
    ] {
        assert!(profile_of(model).supports_images, "{model}");
    }
    for model in [
        "gpt-4",
        "o3-mini",
        "o1-mini",
        "qwen2.5-coder",
        "llama-3.3-70b",
        "deepseek-r1-0528",
        "phi-o1",
        "gemma3:1b",
        "mistral-small-2501",
        "grok-3",
        "mistral-large-2411",
        "ministral-3b-2410",
        "ministral-8b-2410",
    ] {
        assert!(!profile_of(model).supports_images, "{model}");
    }
    assert_eq!(profile_of("openai/gpt-4o").name, "openai/gpt-4o");
    assert_eq!(profile_of("gpt-4o").context_window, Some(128_000));
}

#[test]
fn profiles_of_known_models_have_audio_and_files() {
    let media = |model| {
        let profile = profile_of(model);
        (profile.supports_audio, profile.supports_files)
    };
    assert_eq!(media("gpt-4o-audio-preview"), (true, false));
    assert_eq!(media("gpt-4o"), (false, true));
    assert_eq!(media("gemini-2.5-flash"), (true, false));
    assert_eq!(media("qwen2.5-coder"), (false, false));
}

/// The version in a name determines the result. A name that ends with `-latest` is an alias of the
/// latest version only if it contains no version.
#[test]
fn gemini_3_and_later_require_signatures() {
    for model in [
        "google/gemini-3-pro-preview",
        "gemini-3.1-flash",
        "gemini-4-pro",
        "gemini-3-pro-latest",
        "gemini-flash-latest",
    ] {
        assert!(needs_thought_signatures(model), "{model}");
    }
    for model in
        ["gemini-2.5-flash", "gemini-1.5-pro-latest", "gemini-2.5-flash-latest", "gemini-pro-vision", "gpt-5"]
    {
        assert!(!needs_thought_signatures(model), "{model}");
    }
}

#[test]
fn windows_of_gpt_and_claude_depend_on_the_version() {
    for (model, window) in [
        ("gpt-5-mini", 400_000),
        ("gpt-5.3-codex", 400_000),
        ("gpt-5.4-mini-2026-03-17", 400_000),
        ("openai/gpt-5.4", 1_050_000),
        ("gpt-5.6-sol", 1_050_000),
        ("gpt-6.1-terra", 1_050_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-mythos-preview", 200_000),
        ("claude-opus-4-6-20260205", 1_000_000),
        ("anthropic/claude-opus-4.6", 1_000_000),
        ("anthropic.claude-opus-4-6-v1", 1_000_000),
        ("claude-haiku-5-5", 1_000_000),
        ("claude-sonnet-5-20260630", 1_000_000),
    ] {
        assert_eq!(profile_of(model).context_window, Some(window), "{model}");
    }
}

#[test]
fn features_of_gpt_depend_on_the_version() {
    let features = |model| (accepts_cache_breakpoints(model), has_tool_search(model));
    for model in ["gpt-5.6", "gpt-5.6-luna", "gpt-6-astra", "openai/gpt-6.1-sol", "gpt-6-cyber"] {
        assert_eq!(features(model), (true, true), "{model}");
    }
    for model in ["gpt-5.4", "gpt-5.4-mini-2026-03-17", "gpt-5.4-pro", "gpt-5.5-2026-04-23"] {
        assert_eq!(features(model), (false, true), "{model}");
    }
    assert_eq!(features("gpt-5.6-cyber"), (true, false));
    for model in
        ["gpt-5", "gpt-5-2025-08-07", "gpt-5.3-codex", "gpt-5.4-nano", "gpt-4o", "gpt-audio-1.5", "o3"]
    {
        assert_eq!(features(model), (false, false), "{model}");
    }
}

/// A model of the catalogue, and its profile in this crate.
fn profiles() -> impl Iterator<Item = (&'static ModelCard, ModelProfile)> {
    catalogue::all().iter().map(|card| (card, profile_of(&card.name)))
}

/// A profile with an ability that the model lacks, or with a window that is too large, causes
/// rejected requests.
#[test]
fn profiles_claim_no_more_than_the_catalogue() {
    for (card, profile) in profiles() {
        assert!(card.supports_images || !profile.supports_images, "images: {card:?}");
        assert!(card.supports_audio || !profile.supports_audio, "audio: {card:?}");
        assert!(card.supports_files || !profile.supports_files, "files: {card:?}");
        let window = profile.context_window;
        assert!(window.is_none_or(|window| window <= card.context_window), "{window:?}: {card:?}");
    }
}

/// A new version of GPT or Claude in the catalogue needs a family here if its window differs.
#[test]
fn profiles_of_gpt_and_claude_agree_with_the_catalogue() {
    let has_version = |name: &str| gpt_version(name).or_else(|| claude_version(name)).is_some();
    for (card, profile) in profiles().filter(|(card, _)| has_version(&card.name)) {
        assert_eq!(profile.supports_images, card.supports_images, "{card:?}");
        assert_eq!(profile.supports_audio, card.supports_audio, "{card:?}");
        assert_eq!(profile.context_window, Some(card.context_window), "{card:?}");
    }
}
