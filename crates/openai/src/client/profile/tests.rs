use haft_core::schema::WireProfile;
use reqwest::Url;

use super::{Server, profile_of};
use crate::format::Reasoning;

#[test]
fn pictures_are_sent_to_models_that_are_known_to_read_them() {
    for model in
        ["gpt-5-mini", "openai/gpt-4o", "o3", "qwen2.5-vl-7b", "google/gemini-2.5-flash", "LLaVA-1.6"]
    {
        assert!(profile_of(model).images, "{model}");
    }
    for model in ["gpt-4", "qwen2.5-coder", "llama-3.3-70b", "deepseek-r1-0528", "phi-o1"] {
        assert!(!profile_of(model).images, "{model}");
    }
    assert_eq!(profile_of("openai/gpt-4o").name, "openai/gpt-4o");
    assert_eq!(profile_of("gpt-4o").context_window, Some(128_000));
}

#[test]
fn who_runs_a_server_is_known_by_its_host() {
    let server = |url| Server::at(&Url::parse(url).unwrap());
    assert_eq!(server("https://api.openai.com/v1"), Server::OpenAi);
    assert_eq!(server("https://eu.api.openai.com/v1"), Server::OpenAi);
    assert_eq!(server("https://notopenai.com/v1"), Server::Compatible);
    assert_eq!(server("http://localhost:8080/v1"), Server::Compatible);
    assert_eq!(server("https://mine.openai.azure.com/openai/v1"), Server::Azure);
    assert_eq!(server("https://api.deepseek.com"), Server::Reminding);
    assert_eq!(server("https://api.moonshot.ai/v1"), Server::Reminding);
    assert_eq!(server("https://generativelanguage.googleapis.com/v1beta/openai/"), Server::Gemini);
}

/// Azure has the models that refuse `max_tokens`, too.
#[test]
fn habits_follow_from_who_runs_a_server() {
    assert!(Server::OpenAi.habits().max_completion_tokens && Server::Azure.habits().max_completion_tokens);
    assert_eq!(Server::Reminding.habits().reasoning, Reasoning::Required("reasoning_content"));
    let schemas = [Server::OpenAi, Server::Azure, Server::Gemini].map(|it| it.habits().tool_schemas);
    assert_eq!(schemas, [WireProfile::OpenAiStrict, WireProfile::OpenAi, WireProfile::Gemini]);
    let other = Server::Compatible.habits();
    assert_eq!((other.max_completion_tokens, other.reasoning), (false, Reasoning::Left));
    assert_eq!(other.tool_schemas, WireProfile::OpenAi);
}
