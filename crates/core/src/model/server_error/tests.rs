use serde_json::{Value, json};

use super::{ServerError, excerpt};
use crate::model::ModelError;

fn error(status: u16, body: &str) -> ModelError {
    ServerError::parse(body).into_model_error(Some(status), None)
}

/// Converts an error in a stream, or in a response with status 200.
fn in_band(body: &Value) -> ModelError {
    ServerError::from_json(body).unwrap().into_model_error(None, None)
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
    let limited = in_band(&json!({"message": "slow down", "code": 429}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let limited = in_band(&json!({"message": "slow down", "code": "429"}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let failed = in_band(&json!({"message": "boom", "code": 1}));
    assert!(matches!(failed, ModelError::Server { status: None, .. }));
    assert_eq!(in_band(&json!(["boom"])).to_string(), "the model's server failed: boom");
}

/// An error inside a stream has no HTTP status, so the status is derived from OpenAI's `code` or
/// `type`. Without this status, permanent errors would be retried.
#[test]
fn in_band_error_may_be_permanent() {
    let quota = json!({"message": "pay", "type": "insufficient_quota"});
    assert!(matches!(in_band(&quota), ModelError::RateLimited { permanent: true, .. }));
    let key = json!({"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"});
    assert!(matches!(in_band(&key), ModelError::Unauthorized(_)));
    let request = json!({"message": "no", "type": "invalid_request_error", "code": null});
    assert!(matches!(in_band(&request), ModelError::Rejected { status: 400, .. }));
    let length = json!({"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"});
    assert!(matches!(in_band(&length), ModelError::ContextTooLong(_)));
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
        assert!(matches!(in_band(body), ModelError::ContextTooLong(_)), "{body}");
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

/// The ways in which gateways wrap the error `error` of their provider.
fn wrappers(error: &Value) -> Vec<(&'static str, Value)> {
    let body = json!({"error": error});
    let text = body.to_string();
    let raw = |raw: Value| json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Acme"}}, "user_id": "u"});
    let python = format!(
        "{{'error': {{'message': \"{}\", 'code': '{}', 'param': None}}}}",
        error["message"].as_str().unwrap_or_default(),
        error["code"].as_str().unwrap_or_default(),
    );
    vec![
        ("none", body.clone()),
        ("list", json!([body])),
        ("raw as text", raw(json!(text))),
        ("raw as an object", raw(body.clone())),
        ("raw as the error", raw(error.clone())),
        ("raw as text in text", raw(json!(json!(text).to_string()))),
        (
            "LiteLLM",
            json!({"error": {"message": format!("litellm.BadRequestError: AcmeException - {text}"), "type": null, "param": null, "code": "400"}}),
        ),
        ("Python literal", json!({"error": {"message": format!("Error code: 400 - {python}"), "code": 400}})),
        (
            "Databricks",
            json!({"error_code": "BAD_REQUEST", "message": "Bad request from the external model", "external_model_provider": "acme", "external_model_error": body}),
        ),
        (
            "Databricks as text",
            json!({"error_code": "BAD_REQUEST", "message": json!({"external_model_provider": "acme", "external_model_error": body}).to_string()}),
        ),
        ("Databricks message", json!({"error": "Received error from acme", "external_model_message": error})),
        (
            "Vercel",
            json!({"error": {"message": "Bad Request", "type": "invalid_request_error", "param": {"statusCode": 400, "responseBody": text}}, "generationId": "g"}),
        ),
        (
            "attempts",
            json!({"error": {"message": "All providers failed", "code": 400}, "providerMetadata": {"gateway": {"routing": {"attempts": [
                {"provider": "a", "error": {"message": "busy", "code": "x"}}, {"provider": "b", "error": error}
            ]}}}}),
        ),
        (
            "unknown",
            json!({"status": 400, "title": "Upstream failure", "data": {"upstream": {"answer": body}}}),
        ),
        ("cause", json!({"message": "upstream failed", "cause": {"name": "APIError", "cause": error}})),
    ]
}

/// The name of the variant, its text and whether it is permanent.
fn kind(error: &ModelError) -> &'static str {
    match error {
        ModelError::ContextTooLong(_) => "overflow",
        ModelError::RateLimited { permanent: true, .. } => "quota",
        ModelError::ContentFiltered(_) => "filter",
        ModelError::Rejected { status: 400, .. } => "rejected",
        ModelError::InvalidGeneration { .. } => "generation",
        ModelError::Unauthorized(_) => "key",
        _ => "other",
    }
}

/// A cause has one variant and one message, whatever gateway wraps it, with and without a status.
#[test]
fn cause_is_found_in_each_wrapper() {
    let causes = [
        ("overflow", json!({"message": "prompt of 9000 tokens", "code": "context_length_exceeded"})),
        ("overflow", json!({"message": "The maximum context length is 8192 tokens.", "code": "bad"})),
        ("quota", json!({"message": "Please add credits.", "code": "insufficient_quota"})),
        ("quota", json!({"message": "Your credit balance is too low for this request.", "code": "x"})),
        ("filter", json!({"message": "The prompt was blocked.", "code": "content_filter"})),
        ("filter", json!({"message": "Filtered by our content management policy.", "code": "x"})),
        ("rejected", json!({"message": "Unsupported parameter: stop", "code": "unsupported_parameter"})),
        ("generation", json!({"message": "The call could not be read.", "code": "tool_use_failed"})),
        ("generation", json!({"message": "error parsing tool call: no object", "code": "x"})),
    ];
    for (expected, cause) in &causes {
        for (wrapper, body) in wrappers(cause) {
            let message = cause["message"].as_str().unwrap();
            for status in [Some(400), Some(422), Some(500), Some(502), None] {
                let found = ServerError::from_json(&body).unwrap();
                assert_eq!(found.message(), message, "{wrapper}: {body}");
                let found = found.into_model_error(status, None);
                // A plain error with status 422 or 500 keeps its status.
                if *expected == "rejected" && matches!(status, Some(422 | 500 | 502)) {
                    continue;
                }
                assert_eq!(kind(&found), *expected, "{wrapper}, {status:?}: {found:?}");
            }
        }
    }
}

/// Each server names the causes differently.
#[test]
fn causes_of_many_servers_are_recognized() {
    for (status, expected, body) in [
        (
            400,
            "filter",
            json!({"error": {"message": "no", "code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        ),
        (
            403,
            "filter",
            json!({"error": {"code": 403, "message": "Moderation failed", "metadata": {"reasons": ["violence"], "flagged_input": "a text"}}}),
        ),
        (
            400,
            "filter",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}}),
        ),
        (
            400,
            "filter",
            json!({"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
        ),
        (400, "filter", json!({"error": {"code": "data_inspection_failed", "message": "no"}})),
        (200, "filter", json!({"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}})),
        (402, "quota", json!({"error": {"message": "Payment Required"}})),
        (403, "quota", json!({"error": {"message": "no", "code": "insufficient_quota"}})),
        (
            400,
            "quota",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}),
        ),
        (
            400,
            "quota",
            json!({"error": {"message": "Budget has been exceeded!", "type": "budget_exceeded", "code": "400"}}),
        ),
        (
            500,
            "generation",
            json!({"error": {"message": "error parsing tool call: raw='{\"x\":', err=unexpected end", "type": "api_error"}}),
        ),
        (
            500,
            "generation",
            json!({"error": {"code": 500, "message": "Failed to parse input at pos 9: <tool_call>{", "type": "server_error"}}),
        ),
        (
            422,
            "generation",
            json!({"error": {"message": "see failed_generation", "code": "json_validate_failed", "failed_generation": "{\"n\": "}}),
        ),
        (
            400,
            "overflow",
            json!({"error": {"message": "litellm.ContextWindowExceededError: AcmeException - no", "code": "400"}}),
        ),
        (
            502,
            "key",
            json!({"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "{\"error\": {\"message\": \"bad key\", \"code\": 401}}"}}}),
        ),
        (
            401,
            "key",
            json!({"error": {"message": "The key was used in an error parsing tool call.", "code": 401}}),
        ),
    ] {
        let status = Some(status).filter(|status| *status != 200);
        let found = ServerError::from_json(&body).unwrap().into_model_error(status, None);
        assert_eq!(kind(&found), expected, "{body}: {found:?}");
        assert!(!found.is_transient(), "{found:?}");
    }
}

/// A wrapped rate limit or outage stays transient, with the delay of the gateway or the provider.
#[test]
fn wrapped_transient_error_stays_transient() {
    let wrapped = |status: u16, raw: &str| {
        let body = json!({"error": {"message": "Provider returned error", "code": status, "metadata": {"raw": raw}}});
        error(status, &body.to_string())
    };
    let limited =
        wrapped(429, r#"{"error": {"message": "Please try again in 20ms.", "code": "rate_limit_exceeded"}}"#);
    assert!(matches!(limited, ModelError::RateLimited { permanent: false, .. }), "{limited:?}");
    assert_eq!(limited.retry_after(), Some(std::time::Duration::from_millis(20)));
    let busy = wrapped(400, r#"{"error": {"message": "busy", "code": 503}}"#);
    assert!(matches!(busy, ModelError::Server { status: Some(503), .. }), "{busy:?}");
    check(
        404,
        r#"{"error": {"message": "Provider returned error", "code": 404, "metadata": {"raw": "the deployment was retired"}}}"#,
        "the model's server refused the request (status 404): the deployment was retired",
    );
}

/// The last attempt of a gateway is the reason, and the numbers of one server are not those of
/// another.
#[test]
fn transient_error_among_several_stays_transient() {
    let attempts = json!({"message": "all providers failed", "errors": [
        {"status": 401, "message": "bad key for A"}, {"status": 503, "message": "B is overloaded"},
    ]});
    let failed = error(503, &attempts.to_string());
    assert!(
        matches!(&failed, ModelError::Server { status: Some(503), body, .. } if body == "B is overloaded"),
        "{failed:?}"
    );
    let limited = json!({"title": "Error 1027: rate limited", "message": "rate limited", "error_code": 1027});
    let limited = error(429, &limited.to_string());
    assert!(matches!(limited, ModelError::RateLimited { permanent: false, .. }), "{limited:?}");
    let page = error(403, "<html>blocked by the content filtering policy</html>");
    assert!(matches!(page, ModelError::Unauthorized(_)), "{page:?}");
}

#[test]
fn text_of_the_model_is_kept() {
    for (body, text) in [
        (
            json!({"error": {"code": "tool_use_failed", "message": "m", "failed_generation": "<call>"}}),
            "<call>",
        ),
        (
            json!({"error": {"code": "tool_use_failed", "message": "m", "failed_generation": {"name": "f"}}}),
            r#"{"name":"f"}"#,
        ),
        (
            json!({"error": "error parsing tool call: raw='{\"x\": 1', err=unexpected end of JSON input"}),
            "{\"x\": 1",
        ),
        (json!({"error": {"message": "Failed to parse input at pos 3: <tool_call>{}"}}), "<tool_call>{}"),
    ] {
        match error(400, &body.to_string()) {
            ModelError::InvalidGeneration { generation, .. } => assert_eq!(generation.as_deref(), Some(text)),
            other => panic!("{body}: {other:?}"),
        }
    }
}

/// The place of a fault is in the message, and its last segment is the parameter.
#[test]
fn pydantic_errors_name_their_place() {
    let detail = json!([{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1}]);
    for body in [json!({"detail": detail}), json!({"object": "error", "message": {"detail": detail}})] {
        let found = ServerError::from_json(&body).unwrap();
        assert_eq!((found.message(), found.param()), ("body.seed: Extra inputs are not permitted", "seed"));
    }
}

/// Deep, wide and long bodies are read within bounds.
#[test]
fn hostile_bodies_are_bounded() {
    let mut deep = json!({"message": "inner", "code": "x"});
    for _ in 0..100 {
        deep = json!({"error": {"message": "outer", "code": "y", "cause": deep}});
    }
    assert!(ServerError::from_json(&deep).is_some());
    let wide: Vec<_> = (0..100_000).map(|it| json!({"k": it})).collect();
    assert_eq!(
        ServerError::from_json(&json!({"message": "m", "code": "x", "data": wide})).unwrap().message(),
        "m"
    );
    for text in ["{".repeat(60_000), "'".repeat(60_000), "{'".repeat(30_000), "{\"".repeat(30_000)] {
        assert!(ServerError::parse(&text).message().len() <= 1003);
    }
}

/// Google reports an invalid key with status 400.
#[test]
fn invalid_key_of_google_is_unauthorized() {
    let error = |details: Value| {
        let error =
            json!({"code": 400, "message": "Invalid.", "status": "INVALID_ARGUMENT", "details": details});
        ServerError::from_json(&json!([{"error": error}])).unwrap().into_model_error(Some(400), None)
    };
    let reason =
        |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
    assert!(matches!(error(reason("API_KEY_INVALID")), ModelError::Unauthorized(_)));
    assert!(matches!(error(reason("OTHER")), ModelError::Rejected { status: 400, .. }));
    let body = r#"{"error": {"message": "API key not valid. Please pass a valid API key.", "code": "invalid_request"}}"#;
    assert!(matches!(
        ServerError::parse(body).into_model_error(Some(400), None),
        ModelError::Unauthorized(_)
    ));
}
