use std::io;

use expect_test::expect;
use haft_core::{message::AssistantMessage, model::ModelError};
use langchain_rust::{
    language_models::LLMError,
    llm::{AnthropicError, DeepseekError, QwenError},
};

use super::{from_langchain, has_io_source, in_stream};

/// Returns the kind of the error, its retry behaviour and its text, one error per line.
fn convert(errors: impl IntoIterator<Item = LLMError>) -> String {
    let lines = errors.into_iter().map(|error| {
        let error = from_langchain(error);
        let retry = if error.is_transient() { "retry" } else { "fail" };
        format!("{retry}: {error}\n")
    });
    lines.collect()
}

fn busy() -> String {
    "busy".to_owned()
}

/// The error of a LangChain client determines whether a request is repeated.
#[test]
fn error_of_a_client_determines_the_retry() {
    let errors = [
        AnthropicError::OverloadedError(busy()).into(),
        AnthropicError::RateLimitError(busy()).into(),
        AnthropicError::ApiError(busy()).into(),
        AnthropicError::AuthenticationError("bad key".to_owned()).into(),
        AnthropicError::InvalidRequestError("bad role".to_owned()).into(),
        AnthropicError::InvalidRequestError("prompt is too long: 210000 tokens".to_owned()).into(),
        DeepseekError::ServerOverloadedError(busy()).into(),
        DeepseekError::InsufficientBalanceError("empty".to_owned()).into(),
        QwenError::ModelServingError(busy()).into(),
        QwenError::ModelNotFoundError("qwen-9".to_owned()).into(),
        LLMError::IoError(io::Error::other("reset")),
        LLMError::ParsingError("no JSON".to_owned()),
        LLMError::OtherError("odd".to_owned()),
    ];
    expect![[r#"
        retry: the model's server failed (status 529): Anthropic error: Anthropic API error: Overloaded - busy
        retry: the model's server is limiting requests: Anthropic error: Anthropic API error: Rate limit exceeded - busy
        retry: the model's server failed: Anthropic error: Anthropic API error: Internal error - busy
        fail: the model's server refused the key: Anthropic error: Anthropic API error: Authentication failed - bad key
        fail: the model's server refused the request (status 400): Anthropic error: Anthropic API error: Invalid request - bad role
        fail: the conversation is too long for the model: Anthropic error: Anthropic API error: Invalid request - prompt is too long: 210000 tokens
        retry: the model's server failed (status 503): Deepseek error: Deepseek API error: Server Overloaded - busy
        fail: the model's server is limiting requests: Deepseek error: Deepseek API error: Insufficient Balance - empty
        retry: the model's server is limiting requests: Qwen error: Qwen API error: Rate limit exceeded - busy
        fail: the model's server refused the request (status 404): Qwen error: Qwen API error: Model not found - qwen-9
        retry: the model's server at the address of the LangChain client cannot be reached: IO error: reset
        fail: the model's reply cannot be read: Parsing error: no JSON
        fail: the model failed: Error: odd
    "#]]
    .assert_eq(&convert(errors));
}

#[test]
fn lost_connection_after_text_truncates_the_reply() {
    let error = in_stream(LLMError::IoError(io::Error::other("reset")), "It is".into());
    let ModelError::Truncated { partial, .. } = error else { panic!("{error}") };
    assert_eq!(partial.text(), "It is");
    // Ollama's client reports every error of a stream like this.
    let error = in_stream(LLMError::OtherError("Stream error".to_owned()), AssistantMessage::default());
    assert!(matches!(error, ModelError::Truncated { .. }), "{error}");
    let error = in_stream(AnthropicError::OverloadedError(busy()).into(), AssistantMessage::default());
    assert!(matches!(error, ModelError::Server { .. }), "{error}");
}

#[test]
fn io_error_among_the_sources_is_a_lost_connection() {
    #[derive(Debug, thiserror::Error)]
    #[error("Reqwest error")]
    struct Client(#[source] io::Error);
    #[derive(Debug, thiserror::Error)]
    #[error("Ollama error")]
    struct Ollama(#[source] Client);
    assert!(has_io_source(&Ollama(Client(io::Error::other("refused")))));
    assert!(!has_io_source(&LLMError::OtherError("odd".to_owned())));
}

#[test]
fn only_a_rejected_request_is_too_long() {
    let errors = [
        AnthropicError::InvalidRequestError(
            "input length and `max_tokens` exceed context limit: 9".to_owned(),
        )
        .into(),
        LLMError::OtherError("Input is too long for requested model.".to_owned()),
        AnthropicError::RateLimitError("slow down: the context window is shared".to_owned()).into(),
    ];
    let kinds = errors.map(|error| matches!(from_langchain(error), ModelError::ContextTooLong(_)));
    assert_eq!(kinds, [true, true, false]);
}

#[test]
fn long_message_is_cut() {
    let error = from_langchain(LLMError::OtherError("x".repeat(5000)));
    assert!(haft_core::text::ErrorChain(&error).to_string().len() < 1200);
}

/// The cause of an error is found in the text of a client, also inside the error of a gateway.
#[test]
fn cause_is_found_in_the_text_of_an_error() {
    let raw = |code: &str| {
        let raw = format!(r#"{{"error": {{"message": "the reason", "code": "{code}"}}}}"#);
        serde_json::json!({"error": {"message": "Provider returned error", "metadata": {"raw": raw}}})
            .to_string()
    };
    for code in ["context_length_exceeded", "insufficient_quota", "content_filter", "tool_use_failed"] {
        for error in [
            LLMError::OtherError(raw(code)),
            AnthropicError::InvalidRequestError(raw(code)).into(),
            AnthropicError::ApiError(raw(code)).into(),
            DeepseekError::InvalidParametersError(raw(code)).into(),
        ] {
            let error = from_langchain(error);
            let is_expected = match code {
                "context_length_exceeded" => matches!(error, ModelError::ContextTooLong(_)),
                "insufficient_quota" => matches!(error, ModelError::RateLimited { permanent: true, .. }),
                "content_filter" => matches!(error, ModelError::ContentFiltered(_)),
                _ => matches!(error, ModelError::InvalidGeneration { .. }),
            };
            assert!(is_expected && error.to_string().ends_with("the reason"), "{code}: {error:?}");
        }
    }
}
