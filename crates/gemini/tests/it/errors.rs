//! Errors in the format of Google.

use std::time::Duration;

use haft_core::{ChatModel, model::ModelError};
use haft_gemini::Api;
use serde_json::{Value, json};

use crate::server::{Server, hello, reply, stream_bytes, stream_reply};

/// Returns the error for a response with `status`, with the error as a list of one element and as an
/// object.
async fn errors(status: &str, error: Value) -> [ModelError; 2] {
    let object = json!({ "error": error });
    let list = json!([object]);
    let bodies = [object, list].map(|body| reply(status, "", &body.to_string()));
    let server = Server::with_replies(bodies).await;
    let model = server.builder(Api::GenerateContent).max_retries(0).build().unwrap();
    [model.chat(&hello()).await.unwrap_err(), model.chat(&hello()).await.unwrap_err()]
}

#[tokio::test]
async fn rate_limit_has_its_delay() {
    let error = json!({
        "code": 429, "message": "Resource has been exhausted.", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
    });
    for error in errors("429 Too Many Requests", error).await {
        let ModelError::RateLimited { retry_after, permanent, .. } = error else { panic!("{error:?}") };
        assert_eq!((retry_after, permanent), (Some(Duration::from_secs(37)), false));
    }
}

#[tokio::test]
async fn daily_quota_is_permanent() {
    let violation = json!({"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"});
    let error = json!({
        "code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}],
    });
    for error in errors("429 Too Many Requests", error).await {
        assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn invalid_key_is_unauthorized() {
    let error = json!({
        "code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
    });
    for error in errors("400 Bad Request", error).await {
        assert!(matches!(error, ModelError::Unauthorized(_)), "{error:?}");
    }
}

#[tokio::test]
async fn long_conversation_is_too_long() {
    let message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
    for error in errors("400 Bad Request", error).await {
        assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
    }
}

#[tokio::test]
async fn rejected_request_is_not_repeated() {
    let message = "Tool use with function calling is unsupported; key test-key-1234";
    let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
    for error in errors("400 Bad Request", error).await {
        let ModelError::Rejected { status: 400, body } = error else { panic!("{error:?}") };
        assert_eq!(body, "Tool use with function calling is unsupported; key [secret]");
    }
}

#[tokio::test]
async fn error_in_a_stream_is_typed() {
    let error =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for event in [error.clone(), json!([error])] {
        let (_, error) = stream_bytes(Api::GenerateContent, stream_reply([&event])).await;
        assert!(matches!(error, Some(ModelError::Server { status: Some(503), .. })), "{error:?}");
    }
}
