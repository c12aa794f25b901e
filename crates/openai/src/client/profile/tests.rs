use super::{needs_thought_signatures, profile_of};

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
