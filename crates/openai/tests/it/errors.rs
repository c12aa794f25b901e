//! Tests of error responses, connection failures and unreachable servers.

use std::time::Duration;

use haft_core::{ChatModel as _, model::ModelError};
use haft_openai::ChatCompletions;
use serde_json::json;
use tokio::{net::TcpListener, time::Instant};

use crate::server::{Server, Step, hello, minimal_reply, ok_reply, reply, stream_reply};

async fn rejected_with(status: &str, body: &str) -> (ModelError, usize) {
    let rejection = reply(status, "", body);
    let server = Server::with_replies([rejection.clone(), rejection.clone(), rejection]).await;
    let model = server.builder().max_retries(2).api_key("sk-secret").build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    (error, server.take_requests().len())
}

/// A retry waits at least for the delay in `Retry-After`.
///
/// `client/retry/tests.rs` tests the retry policy with paused time.
#[tokio::test]
async fn rate_limited_request_is_retried_after_retry_after() {
    let busy = reply("429 Too Many Requests", "retry-after: 0.2\r\n", r#"{"error":{"message":"slow down"}}"#);
    let server = Server::with_replies([busy.clone(), busy, minimal_reply()]).await;
    let started = Instant::now();
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
    assert!(started.elapsed() >= Duration::from_millis(400));
    assert_eq!(server.take_requests().len(), 3);
}

#[tokio::test]
async fn retry_after_is_read_for_every_status() {
    let busy = |status| reply(status, "retry-after: 30\r\n", "");
    for status in ["503 Service Unavailable", "529 Overloaded", "500 Internal Server Error", "408 Timeout"] {
        let server = Server::with_replies([busy(status)]).await;
        let model = server.builder().max_retries(0).build().unwrap();
        let error = model.chat(&hello()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(30)), "{error:?}");
    }
}

/// The retry delay is read from a field of the body (Gemini) or from the error message (OpenAI). An
/// error inside a stream has no headers, so the body is the only source of the delay.
#[tokio::test]
async fn retry_delay_is_read_from_the_body() {
    let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.024s"});
    let gemini = json!([{"error": {"code": 429, "message": "You exceeded your quota.", "status": "RESOURCE_EXHAUSTED", "details": [info]}}]);
    let openai = json!({"error": {"message": "Rate limit reached. Please try again in 1m1.5s.", "code": "rate_limit_exceeded"}});
    for (body, millis) in [(&gemini, 37_024), (&openai, 61_500)] {
        for sent in
            [reply("429 Too Many Requests", "", &body.to_string()), ok_reply(body), stream_reply([body])]
        {
            let server = Server::with_replies([sent]).await;
            let model = server.builder().max_retries(0).build().unwrap();
            let error = model.chat(&hello()).await.unwrap_err();
            assert!(matches!(error, ModelError::RateLimited { permanent: false, .. }), "{error:?}");
            assert_eq!(error.retry_after(), Some(Duration::from_millis(millis)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn retry_waits_for_the_delay_in_the_body() {
    let busy = reply("429 Too Many Requests", "", r#"{"error":{"message":"Please try again in 200ms."}}"#);
    let server = Server::with_replies([busy, minimal_reply()]).await;
    let started = Instant::now();
    server.model().chat(&hello()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn should_retry_header_overrides_the_status() {
    for (status, word, requests) in [
        ("503 Service Unavailable", "false", 1),
        ("429 Too Many Requests", "false", 1),
        ("400 Bad Request", "true", 2),
        ("425 Too Early", "soon", 2),
        ("498 Capacity Exceeded", "", 2),
        ("501 Not Implemented", "", 1),
    ] {
        let rejection = reply(status, &format!("x-should-retry: {word}\r\n"), "no");
        let server = Server::with_replies([rejection, minimal_reply()]).await;
        assert_eq!(server.model().chat(&hello()).await.is_ok(), requests == 2, "{status} {word}");
        assert_eq!(server.take_requests().len(), requests, "{status} {word}");
    }
}

/// A retry delay that is too long for `Instant` must not cause a panic.
#[tokio::test]
async fn huge_retry_after_does_not_panic() {
    let busy = reply("429 Too Many Requests", "retry-after: 18000000000000000000\r\n", "");
    let server = Server::with_replies([busy]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
}

/// A 429 response is retried regardless of its body: HTML, JSON, plain text or nothing.
#[tokio::test]
async fn status_429_with_any_body_is_retried() {
    for body in
        ["slow down", "<html>429</html>", r#"{"error":{"message":"slow","code":429}}"#, "", r#"["x"]"#]
    {
        let server = Server::with_replies([
            reply("429 Too Many Requests", "retry-after-ms: 1\r\n", body),
            minimal_reply(),
        ])
        .await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "after {body:?}");
    }
}

/// A permanent error is returned after one request, and does not contain the API key.
#[tokio::test]
async fn permanent_error_is_not_retried() {
    let exhausted = ["insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached"];
    let exhausted = exhausted.map(|word| json!({"error": {"message": "pay", "type": word}}));
    let daily = json!({"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]});
    let daily = json!([{"error": {"code": 429, "message": "no", "details": [daily, {"retryDelay": "3s"}]}}]);
    for quota in exhausted.iter().chain([&daily]) {
        let (error, requests) = rejected_with("429 Too Many Requests", &quota.to_string()).await;
        assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
        assert_eq!(requests, 1);
    }

    for (status, code) in [("400 Bad Request", 400), ("404 Not Found", 404)] {
        let (error, requests) = rejected_with(status, "no").await;
        assert!(matches!(error, ModelError::Rejected { status, .. } if status == code), "{error:?}");
        assert_eq!(requests, 1);
    }
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let (error, requests) = rejected_with(status, "not with sk-secret, Bearer sk-secret").await;
        assert!(matches!(error, ModelError::Unauthorized(_)), "{error:?}");
        assert_eq!(requests, 1);
        assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error}");
    }
}

/// After the last retry, the error contains the status and at most 1 kB of the body.
#[tokio::test]
async fn server_error_is_retried_and_then_returned() {
    for (status, code) in
        [("500 Internal Server Error", 500), ("502 Bad Gateway", 502), ("503 Service Unavailable", 503)]
    {
        let page = format!("<html>{}</html>", "ü".repeat(5000));
        let (error, requests) = rejected_with(status, &page).await;
        let ModelError::Server { status: Some(status), body, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*status, requests), (code, 3));
        assert!(body.starts_with("<html>ü") && body.len() <= 1024, "{} bytes", body.len());
    }
}

/// A request is retried if its connection is reset before the response head.
#[tokio::test]
async fn reset_before_the_reply_is_retried() {
    let server = Server::start([vec![Step::Reset], vec![Step::Send(minimal_reply())]]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// The error of a refused connection contains the address of the server, but no credentials.
#[tokio::test]
async fn error_names_the_unreachable_server() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model =
        ChatCompletions::builder("m").base_url(format!("http://user:pass@{address}/v1")).max_retries(0);
    let error = model.build().unwrap().chat(&hello()).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(
        text.starts_with(&format!("the model's server at http://{address} cannot be reached: ")),
        "{text}"
    );
    assert!(!format!("{error:?}").contains("pass"), "{error:?}");
}

#[tokio::test]
async fn context_overflow_is_a_distinct_error() {
    let openai = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let llama = json!({"error": {"message": "too long", "code": 400, "type": "exceed_context_size_error"}});
    let vllm = json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400});
    for body in [openai, llama, vllm] {
        let (error, requests) = rejected_with("400 Bad Request", &body.to_string()).await;
        assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
        assert_eq!(requests, 1);
    }
}

/// Redirects are not followed. Following a redirect could turn the POST into a GET, or send the API
/// key to another host.
#[tokio::test]
async fn redirect_is_an_error_with_its_target() {
    let moved = reply("301 Moved Permanently", "location: https://example.com/v1\r\n", "");
    let server = Server::with_replies([moved]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(error.to_string().contains("https://example.com/v1"), "{error}");
}

/// Permanent errors with HTTP status 200 are not retried. The three bodies are a list with one
/// error (Gemini), an error string beside a `code`, and an error object with a `code` (OpenAI).
#[tokio::test]
async fn permanent_error_with_status_200_is_not_retried() {
    let list = json!([{"error": {"code": 400, "message": "Bad tool", "status": "INVALID_ARGUMENT"}}]);
    let text = json!({"error": "pay", "code": "insufficient_quota"});
    let word = json!({"error": {"message": "no such key", "code": "invalid_api_key"}});
    for body in [&list, &text, &word] {
        for sent in [ok_reply(body), stream_reply([body])] {
            let server = Server::with_replies([sent.clone(), sent]).await;
            let error = server.model().chat(&hello()).await.unwrap_err();
            assert!(!error.is_transient(), "{error:?}");
            assert_eq!(server.take_requests().len(), 1, "{error:?}");
        }
    }
}

/// After `x-should-retry: false`, the error itself must be permanent and have no delay, because
/// user code and layers also read `is_transient` and `retry_after`.
#[tokio::test]
async fn should_retry_false_is_a_permanent_error_without_delay() {
    for status in ["500 Broken", "503 Down", "409 Conflict"] {
        let server = Server::with_replies([reply(status, "x-should-retry: false\r\n", "no")]).await;
        let error = server.builder().build().unwrap().chat(&hello()).await.unwrap_err();
        assert!(!error.is_transient() && error.retry_after().is_none(), "{status}: {error:?}");
    }
}
