use haft_http::model::BuildError;

use super::{Api, Gemini, GeminiBuilder, is_version};

fn from_variables(variables: &[(&str, &str)]) -> GeminiBuilder {
    let find =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Gemini::builder("gemini-3-flash").read_variables(find)
}

#[test]
fn google_requires_a_key_in_the_environment() {
    for none in [&[][..], &[("GEMINI_API_KEY", " ")]] {
        let error = from_variables(none).build().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no API key for https://generativelanguage.googleapis.com: set GEMINI_API_KEY"
        );
    }
    for key in ["GEMINI_API_KEY", "GOOGLE_API_KEY"] {
        assert!(from_variables(&[(key, "k")]).build().is_ok(), "{key}");
    }
    assert!(from_variables(&[]).api_key("k").build().is_ok());
    assert!(from_variables(&[("GOOGLE_GEMINI_BASE_URL", "http://localhost:1")]).build().is_ok());
}

#[test]
fn key_variables_have_an_order() {
    use secrecy::ExposeSecret as _;

    let builder = from_variables(&[("GOOGLE_API_KEY", "b"), ("GEMINI_API_KEY", "a")]);
    let key = builder.environment.and_then(|environment| environment.key).unwrap();
    assert_eq!(key.expose_secret(), "a");
}

#[test]
fn invalid_settings_are_rejected() {
    let budget = Gemini::builder("m").api(Api::Interactions).thinking_budget(1).build().unwrap_err();
    assert_eq!(
        budget.to_string(),
        "the setting thinking_budget cannot be 1: the Interactions API has only levels"
    );
    for name in ["", "a?b", "a b", "a:b"] {
        let error = Gemini::builder(name).build().unwrap_err();
        assert!(matches!(error, BuildError::InvalidSetting { .. }), "{name}");
    }
    let error = Gemini::builder("m").extra_field("contents", 1).build().unwrap_err();
    assert!(matches!(error, BuildError::ReservedField { .. }));
    assert!(Gemini::builder("m").base_url("localhost").build().is_err());
}

#[test]
fn versions_are_recognized() {
    assert!(["v1", "v1beta", "v1alpha1"].into_iter().all(is_version));
    assert!(!["", "v", "models", "vertex", "1"].into_iter().any(is_version));
}
