use super::{is_gemini_3_or_later, profile_of};

#[test]
fn profile_is_that_of_the_family() {
    let profile = profile_of("models/gemini-2.5-flash");
    assert!(profile.supports_images && profile.supports_audio && profile.supports_files);
    assert_eq!((profile.context_window, &*profile.name), (Some(1_048_576), "models/gemini-2.5-flash"));
    let image = profile_of("gemini-2.5-flash-image");
    assert!(!image.supports_native_tools && image.context_window == Some(32_768));
    let unknown = profile_of("my-tuned-model");
    assert!(unknown.supports_native_tools && !unknown.supports_images && unknown.context_window.is_none());
    let gemma = profile_of("gemma-3-27b-it");
    assert!(gemma.supports_images && !gemma.supports_audio && !gemma.supports_native_tools);
}

#[test]
fn versions_since_3_need_signatures() {
    for name in ["gemini-3-pro-preview", "models/gemini-3.1-flash", "gemini-4-pro", "gemini-flash-latest"] {
        assert!(is_gemini_3_or_later(name), "{name}");
    }
    for name in ["gemini-2.5-pro", "gemini-pro", "gemma-3-27b-it", "other-latest"] {
        assert!(!is_gemini_3_or_later(name), "{name}");
    }
}
