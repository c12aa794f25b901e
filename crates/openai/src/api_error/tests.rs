use haft_core::model::ModelError;
use serde_json::json;

use super::{ApiError, excerpt};

fn error(status: u16, body: &str) -> ModelError {
    ApiError::of_body(body).into_error(status, None)
}

#[track_caller]
fn check(status: u16, body: &str, text: &str) {
    assert_eq!(error(status, body).to_string(), text);
}

#[test]
fn message_is_found_in_each_form() {
    let text = "the model's server refused the request (status 404): no such model";
    check(404, r#"{"error": {"message": "no such model", "type": "not_found", "code": null}}"#, text);
    check(404, r#"{"error": "no such model"}"#, text);
    check(404, r#"{"message": "no such model"}"#, text);
    check(404, r#"{"detail": "no such model"}"#, text);
    check(404, "no such model\n", text);
}

#[test]
fn body_without_message_is_shown_unchanged() {
    check(
        404,
        r#"{"errors": [1]}"#,
        r#"the model's server refused the request (status 404): {"errors": [1]}"#,
    );
}

#[test]
fn transient_statuses() {
    for status in [408, 409, 425, 429, 498, 500, 502, 503, 504, 529] {
        assert!(error(status, "no").is_transient(), "{status}");
    }
    for status in [301, 400, 401, 402, 403, 404, 405, 413, 422, 501, 505] {
        assert!(!error(status, "no").is_transient(), "{status}");
    }
}

/// A message that mentions the context does not turn an error with status 401 or 429 into a context
/// length error.
#[test]
fn status_takes_precedence_over_the_message() {
    let body = "the context window is full";
    assert!(matches!(error(400, body), ModelError::ContextTooLong(_)));
    assert!(matches!(error(500, body), ModelError::ContextTooLong(_)));
    assert!(matches!(error(401, body), ModelError::Unauthorized(_)));
    assert!(matches!(error(429, body), ModelError::RateLimited { .. }));
}

#[test]
fn in_band_error_may_have_a_status() {
    let limited = ApiError::in_band(&json!({"message": "slow down", "code": 429}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let limited = ApiError::in_band(&json!({"message": "slow down", "code": "429"}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let failed = ApiError::in_band(&json!({"message": "boom", "code": 1}));
    assert!(matches!(failed, ModelError::Server { status: None, .. }));
    assert_eq!(ApiError::in_band(&json!(["boom"])).to_string(), "the model's server failed: boom");
}

/// An error inside a stream has no HTTP status, so the status is derived from OpenAI's `code` or
/// `type`. Without this status, permanent errors would be retried.
#[test]
fn in_band_error_may_be_permanent() {
    let quota = json!({"message": "pay", "type": "insufficient_quota"});
    assert!(matches!(ApiError::in_band(&quota), ModelError::RateLimited { permanent: true, .. }));
    let key = json!({"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"});
    assert!(matches!(ApiError::in_band(&key), ModelError::Unauthorized(_)));
    let request = json!({"message": "no", "type": "invalid_request_error", "code": null});
    assert!(matches!(ApiError::in_band(&request), ModelError::Rejected { status: 400, .. }));
    let length = json!({"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"});
    assert!(matches!(ApiError::in_band(&length), ModelError::ContextTooLong(_)));
}

/// Servers send the code `insufficient_quota` in different fields, with or without a message. Each
/// of these bodies must result in a permanent error.
#[test]
fn exhausted_quota_is_found_in_each_form() {
    for body in [
        r#"{"error": {"message": "pay", "code": "insufficient_quota"}}"#,
        r#"{"error": {"code": "insufficient_quota"}}"#,
        r#"{"error": {"type": "insufficient_quota", "message": null}}"#,
        r#"{"error": "pay", "code": "insufficient_quota"}"#,
        r#"[{"error": {"message": "pay", "code": "insufficient_quota"}}]"#,
    ] {
        assert!(matches!(error(429, body), ModelError::RateLimited { permanent: true, .. }), "{body}");
    }
    check(
        400,
        r#"[{"error": {"code": 400, "message": "Bad tool", "status": "INVALID_ARGUMENT"}}]"#,
        "the model's server refused the request (status 400): Bad tool",
    );
}

#[test]
fn messages_about_context_length_are_recognized() {
    for sentence in [
        "This model's maximum context length is 4096 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        "The prompt is longer than the maximum model length of 4096",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "You passed 4097 input tokens and requested 0 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 4096 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=4097)",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
        "prompt too long; exceeded max context length by 12 tokens",
        "Prompt exceeds max length",
        "Input is too long for requested model.",
        "invalid params, context window exceeds limit (2013)",
        "prompt token count of 130000 exceeds the limit of 128000",
        "Range of input length should be [1, 30720]",
        "too many tokens: the total number of tokens in the prompt exceeds the limit of 4081",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
    ] {
        assert!(matches!(error(400, sentence), ModelError::ContextTooLong(_)), "{sentence}");
    }
}

#[test]
fn codes_for_context_length_are_recognized() {
    for word in
        ["context_length_exceeded", "exceed_context_size_error", "tokens_limit_reached", "request_too_large"]
    {
        for body in [
            json!({"error": {"message": "no", "code": word}}),
            json!({"error": {"message": "no", "type": word}}),
        ] {
            assert!(matches!(error(413, &body.to_string()), ModelError::ContextTooLong(_)), "{body}");
        }
    }
}

/// If a single request exceeds the token limit per minute, the result is a context length error,
/// because only a shorter conversation helps.
#[test]
fn request_above_the_rate_limit_is_too_long() {
    let groq = json!({"error": {"message": "Request too large for model `x` in organization `o` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}});
    let openai = json!({"error": {"message": "Request too large for gpt-4o in organization o on tokens per min (TPM): Limit 30000, Requested 45000. The input or output tokens must be reduced in order to run successfully.", "type": "tokens", "code": "rate_limit_exceeded"}});
    for (status, body) in [(413, &groq), (429, &openai), (429, &groq)] {
        assert!(matches!(error(status, &body.to_string()), ModelError::ContextTooLong(_)), "{status} {body}");
        assert!(matches!(ApiError::in_band(body), ModelError::ContextTooLong(_)), "{body}");
    }
    let busy = json!({"error": {"message": "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 30000, Requested 45. Please try again in 1.2s.", "code": "rate_limit_exceeded"}});
    assert!(matches!(error(429, &busy.to_string()), ModelError::RateLimited { permanent: false, .. }));
}

#[test]
fn excerpt_ends_at_a_character_boundary() {
    let cut = excerpt(&"ü".repeat(1000));
    assert_eq!(cut.len(), 1003);
    assert_eq!(excerpt(&format!("x{}", "ü".repeat(1000))).len(), 1002);
    assert_eq!(excerpt(" x \n"), "x");
}
