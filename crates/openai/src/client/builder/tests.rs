use expect_test::{Expect, expect};
use haft_core::schema::SchemaTarget;
use haft_http::model::{BuildError as HttpError, KeyHeader};
use secrecy::ExposeSecret as _;

use super::{BuildError, server::Server};
use crate::{ChatCompletions, ChatCompletionsBuilder, Provider};

fn builder(base_url: &str) -> ChatCompletionsBuilder {
    ChatCompletions::builder("m").base_url(base_url)
}

fn server(builder: &ChatCompletionsBuilder) -> Server {
    builder.clone().resolve_server().unwrap()
}

#[test]
fn path_after_the_version_is_removed_from_the_base_url() {
    for base_url in [
        "http://localhost:8080/v1",
        "http://localhost:8080/v1/",
        " http://localhost:8080/v1// ",
        "http://localhost:8080/v1/chat/completions",
        "http://localhost:8080/v1/chat/completions/",
    ] {
        assert_eq!(server(&builder(base_url)).url.as_str(), "http://localhost:8080/v1");
    }
}

#[test]
fn invalid_base_url_is_rejected_with_an_example() {
    for base_url in ["localhost:8080/v1", "", "ftp://localhost/v1", "http://", "http://localhost/v1#top"] {
        let error = builder(base_url).build().unwrap_err();
        assert!(matches!(error, BuildError::Http(HttpError::InvalidBaseUrl { .. })));
        assert!(error.to_string().contains(r#"give one such as "http://localhost:8080/v1""#), "{error}");
    }
}

fn from_variables(model: &str, variables: &[(&str, &str)]) -> ChatCompletionsBuilder {
    let find =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    ChatCompletions::builder(model).read_variables(find)
}

#[test]
fn openai_requires_a_key_in_the_environment() {
    let none: [&[(&str, &str)]; 2] = [&[], &[("OPENAI_API_KEY", " "), ("OPENAI_BASE_URL", "")]];
    for none in none {
        let error = from_variables("m", none).build().unwrap_err();
        assert!(error.to_string().contains("set OPENAI_API_KEY"), "{error}");
    }
    assert!(from_variables("m", &[("OPENAI_API_KEY", "sk-1")]).build().is_ok());
}

/// With an explicit empty key, no `Authorization` header is sent, and no key is required in the
/// environment. This supports gateways that add the key themselves.
#[test]
fn empty_key_means_no_key() {
    let builder = from_variables("m", &[]).base_url("https://api.groq.com/openai/v1").api_key("");
    assert_eq!(server(&builder).key.expose_secret(), "");
}

#[test]
fn other_server_in_the_environment_needs_no_key() {
    let server = server(&from_variables("m", &[("OPENAI_BASE_URL", "http://localhost:1234/v1")]));
    assert_eq!((server.url.as_str(), server.key.expose_secret()), ("http://localhost:1234/v1", ""));
}

/// Compares the model name, URL, provider and API key that `builder` selects with the snapshot
/// `expect`.
#[track_caller]
fn check(mut builder: ChatCompletionsBuilder, expect: Expect) {
    let target = builder.resolve_server().unwrap();
    let provider = target.provider.map_or("unknown", Provider::name);
    expect.assert_eq(&format!(
        "{} at {} ({provider}), {:?}",
        builder.model,
        target.url,
        target.key.expose_secret()
    ));
}

#[test]
fn model_prefix_selects_the_provider() {
    let keys = [("OPENAI_API_KEY", "sk-1"), ("GROQ_API_KEY", "gsk-2")];
    check(
        from_variables("groq/llama-3.3", &keys),
        expect![[r#"llama-3.3 at https://api.groq.com/openai/v1 (groq), "gsk-2""#]],
    );
    check(
        from_variables("openai/gpt-5", &keys),
        expect![[r#"gpt-5 at https://api.openai.com/v1 (openai), "sk-1""#]],
    );
    check(
        from_variables("ollama/qwen3:8b", &keys),
        expect![[r#"qwen3:8b at http://localhost:11434/v1 (ollama), """#]],
    );
    check(
        from_variables("LlamaCpp/qwen", &keys),
        expect![[r#"qwen at http://localhost:8080/v1 (llama.cpp), """#]],
    );
    // `meta-llama` is not a provider, so the name is rejected. With `OPENAI_BASE_URL`, a prefix is
    // part of the model name.
    let error = from_variables("meta-llama/x", &keys).build().unwrap_err().to_string();
    assert!(error.starts_with(r#"unknown provider "meta-llama": known are openai, azure,"#), "{error}");
    assert!(error.ends_with("; set OPENAI_BASE_URL for another server"), "{error}");
    let mine = [("OPENAI_BASE_URL", "http://localhost:1/v1"), ("OPENAI_API_KEY", "sk-1")];
    check(
        from_variables("mistral/small", &mine),
        expect![[r#"mistral/small at http://localhost:1/v1 (unknown), "sk-1""#]],
    );
    let router = from_variables("openai/gpt-5", &[("OPENROUTER_API_KEY", "or-1")]);
    check(
        router.base_url("https://openrouter.ai/api/v1"),
        expect![[r#"openai/gpt-5 at https://openrouter.ai/api/v1 (openrouter), "or-1""#]],
    );
    let error = from_variables("mistral/small", &keys).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no API key for https://api.mistral.ai/v1: set MISTRAL_API_KEY, or OPENAI_BASE_URL for another server"
    );
}

#[test]
fn provider_has_a_default_base_url() {
    let at = |provider| ChatCompletions::builder("m").provider(provider);
    check(at(Provider::LmStudio), expect![[r#"m at http://localhost:1234/v1 (lmstudio), """#]]);
    check(at(Provider::Vllm).base_url("http://gpu:9/v1"), expect![[r#"m at http://gpu:9/v1 (vllm), """#]]);
    let other_keys = from_variables("m", &[("OPENAI_API_KEY", "sk-1")]).provider(Provider::Ollama);
    check(other_keys, expect![[r#"m at http://localhost:11434/v1 (ollama), """#]]);
    let error = at(Provider::Azure).build().unwrap_err();
    assert_eq!(error.to_string(), "azure has a base URL per user: set yours");
}

/// Azure requires keys in the header `api-key`, but Entra tokens in `authorization`.
#[test]
fn azure_is_detected_and_gets_its_key_header() {
    let variables =
        [("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/"), ("AZURE_OPENAI_API_KEY", "azure-key")];
    check(
        from_variables("azure/gpt-4o", &variables),
        expect![[r#"gpt-4o at https://me.openai.azure.com/openai/v1 (azure), "azure-key""#]],
    );
    let deployment = "https://me.cognitiveservices.azure.com/openai/deployments/x?api-version=preview";
    for (base_url, key, header) in [
        ("https://me.openai.azure.com", "azure-key", KeyHeader::Named("api-key")),
        (deployment, "azure-key", KeyHeader::Named("api-key")),
        (deployment, "eyJa.b.c", KeyHeader::Bearer),
        ("https://api.openai.com/v1", "sk-1", KeyHeader::Bearer),
    ] {
        let server = server(&builder(base_url).api_key(key));
        assert_eq!((server.key_header(), server.key.expose_secret()), (header, key), "{base_url}");
    }
}

#[test]
fn tools_are_strict_for_openai_or_by_option() {
    use SchemaTarget::{OpenAi, OpenAiStrict, SmallModel};
    let schemas = |mut builder: ChatCompletionsBuilder| {
        let provider = builder.resolve_server().unwrap().provider;
        builder.client_settings(provider).quirks.schema_target
    };
    let openai = || ChatCompletions::builder("gpt-5");
    assert_eq!(schemas(openai()), OpenAiStrict);
    assert_eq!(schemas(openai().tool_schema_target(OpenAi)), OpenAi);
    assert_eq!(schemas(ChatCompletions::builder("ft:gpt-4o:me::1")), OpenAi);
    let other = || builder("http://localhost:8080/v1");
    assert_eq!(schemas(other()), OpenAi);
    assert_eq!(schemas(other().tool_schema_target(SmallModel)), SmallModel);
}
