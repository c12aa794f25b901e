use std::collections::HashSet;

use haft_core::{model::CallIdFormat, schema::SchemaTarget};
use reqwest::Url;

use super::{PRESETS, Provider, Quirks, UNKNOWN_SERVER_QUIRKS};
use haft_http::model::parse_base_url;

use crate::format::ReasoningField;

#[test]
fn provider_is_recognized_by_its_host() {
    let provider = |url| Provider::of_url(&Url::parse(url).unwrap());
    assert_eq!(provider("https://api.openai.com/v1"), Some(Provider::OpenAi));
    assert_eq!(provider("https://eu.api.openai.com/v1"), Some(Provider::OpenAi));
    assert_eq!(provider("https://notopenai.com/v1"), None);
    assert_eq!(provider("http://localhost:8080/v1"), None);
    assert_eq!(provider("https://mine.openai.azure.com/openai/v1"), Some(Provider::Azure));
    assert_eq!(provider("https://mine.services.ai.azure.com/openai/v1"), Some(Provider::Azure));
    assert_eq!(
        provider("https://mine.cognitiveservices.azure.com/openai/deployments/x"),
        Some(Provider::Azure)
    );
    assert_eq!(provider("https://api.moonshot.cn/v1"), Some(Provider::Moonshot));
    for preset in PRESETS.iter().filter(|preset| !preset.domains.is_empty()) {
        let Some(base_url) = preset.base_url else { continue };
        assert_eq!(provider(base_url), Some(preset.provider), "{base_url}");
    }
}

#[test]
fn every_preset_is_valid() {
    let names: HashSet<_> = Provider::all().map(Provider::name).collect();
    assert_eq!(names.len(), PRESETS.len());
    for provider in Provider::all() {
        assert_eq!(provider.name().parse::<Provider>().unwrap(), provider);
        assert!(!provider.name().contains('/'), "the name is a prefix of model names");
        if let Some(base_url) = provider.base_url() {
            parse_base_url(base_url, "").unwrap();
            let is_local = base_url.starts_with("http://localhost");
            assert_eq!(provider.api_key_variable().is_none(), is_local, "{provider}");
        }
    }
    for (name, provider) in [
        ("Ollama", Provider::Ollama),
        ("llamacpp", Provider::LlamaCpp),
        ("LLAMA-CPP", Provider::LlamaCpp),
        ("lm-studio", Provider::LmStudio),
        ("grok", Provider::Xai),
        ("x-ai", Provider::Xai),
        ("Google", Provider::Gemini),
    ] {
        assert_eq!(name.parse::<Provider>().unwrap(), provider);
    }
    let error = "acme".parse::<Provider>().unwrap_err().to_string();
    assert!(error.starts_with("unknown provider \"acme\": known are openai, azure, gemini,"), "{error}");
}

#[test]
fn quirks_depend_on_the_provider() {
    let quirks = |provider| Provider::quirks(Some(provider));
    assert!(
        quirks(Provider::OpenAi).uses_max_completion_tokens
            && quirks(Provider::Azure).uses_max_completion_tokens
    );
    assert_eq!(quirks(Provider::DeepSeek).reasoning, ReasoningField::Required("reasoning_content"));
    let schemas =
        [Provider::OpenAi, Provider::Azure, Provider::Gemini].map(|provider| quirks(provider).schema_target);
    assert_eq!(schemas, [SchemaTarget::OpenAiStrict, SchemaTarget::OpenAi, SchemaTarget::Gemini]);
    assert_eq!(Provider::quirks(None), UNKNOWN_SERVER_QUIRKS);
}

/// The table of the book's page on models has the row that the quirks of each server imply.
#[test]
fn table_in_the_book_matches_the_quirks() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/models.md");
    let page = std::fs::read_to_string(page).unwrap();
    let servers = Provider::all().map(|provider| (provider.name(), Provider::quirks(Some(provider))));
    for (name, quirks) in servers.chain([("any other", UNKNOWN_SERVER_QUIRKS)]) {
        let row = table_row(name, &quirks);
        assert!(page.contains(&row), "docs/src/models.md lacks the row\n{row}");
    }
}

fn table_row(name: &str, quirks: &Quirks) -> String {
    let schemas = match quirks.schema_target {
        SchemaTarget::OpenAiStrict => "strict, else OpenAI's",
        SchemaTarget::Gemini => "Gemini's",
        SchemaTarget::Moonshot => "Moonshot's",
        _ => "OpenAI's",
    };
    let system = if quirks.has_one_system_message { "one, the first" } else { "any" };
    let ids = match quirks.call_ids {
        CallIdFormat::NineAlphanumerics => "9 letters or digits",
        _ => "40 bytes, Responses 64",
    };
    let calls = if quirks.needs_tools_for_calls { "with placeholders" } else { "as they are" };
    let choice = if quirks.accepts_named_tool_choice { "by name" } else { "the only tool sent" };
    format!("| {name} | {schemas} | {system} | {ids} | {calls} | {choice} |\n")
}
