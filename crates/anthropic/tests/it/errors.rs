//! Errors of the API.

use std::time::Duration;

use haft_core::{ChatModel as _, model::ModelError};
use serde_json::json;

use crate::server::{Server, hello, message, ok_reply, reply};

async fn error(status: &str, kind: &str, text: &str) -> ModelError {
    let body = json!({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"});
    let server = Server::with_replies([reply(status, "retry-after: 7\r\n", &body.to_string())]).await;
    server.builder("claude-opus-5-5").max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err()
}

#[tokio::test]
async fn errors_have_types() {
    let seven = Some(Duration::from_secs(7));
    let error_429 =
        error("429 Too Many Requests", "rate_limit_error", "Number of tokens has exceeded your rate limit")
            .await;
    assert!(
        matches!(&error_429, ModelError::RateLimited { retry_after, permanent: false, .. } if *retry_after == seven)
    );
    let overloaded = error("529 Overloaded", "overloaded_error", "Overloaded").await;
    assert!(
        matches!(&overloaded, ModelError::Server { status: Some(529), retry_after, .. } if *retry_after == seven)
    );
    assert!(overloaded.is_transient());
    for (status, kind, text) in [
        ("400 Bad Request", "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            "400 Bad Request",
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        ),
        ("413 Payload Too Large", "request_too_large", "Request exceeds the maximum size"),
    ] {
        let error = error(status, kind, text).await;
        assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
    }
    let proxy = Server::with_replies([reply("413 Payload Too Large", "", "<html>too large</html>")]).await;
    let proxy = proxy.builder("m").max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err();
    assert!(matches!(proxy, ModelError::Rejected { status: 413, .. }), "{proxy:?}");
    let key = error("401 Unauthorized", "authentication_error", "invalid x-api-key sk-ant-secret").await;
    assert!(matches!(&key, ModelError::Unauthorized(text) if !text.contains("sk-ant-secret")), "{key:?}");
    let key = error("403 Forbidden", "permission_error", "no access").await;
    assert!(matches!(key, ModelError::Unauthorized(_)));
    for (status, kind, text) in [
        ("402 Payment Required", "billing_error", "Payment required"),
        (
            "400 Bad Request",
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
        ),
    ] {
        let error = error(status, kind, text).await;
        assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
    }
    let bad = error("400 Bad Request", "invalid_request_error", "messages: roles must alternate").await;
    assert!(matches!(bad, ModelError::Rejected { status: 400, .. }), "{bad:?}");
    let missing = error("404 Not Found", "not_found_error", "model: claude-x").await;
    assert!(matches!(missing, ModelError::Rejected { status: 404, .. }) && missing.allows_fallback());
}

#[tokio::test]
async fn transient_errors_are_retried() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let ok = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies([
        reply("529 Overloaded", "", &overloaded.to_string()),
        reply("500 Internal Server Error", "", "<html>"),
        ok,
    ])
    .await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
    assert_eq!(server.take_requests().len(), 3);
}
