//! The outcome of each finish reason of `generateContent`.

use expect_test::expect;
use haft_core::model::{ChatResponse, ModelError};
use haft_gemini::Api;
use serde_json::{Value, json};

use crate::server::{chat_with, content, stream_bytes, stream_reply};

const REASONS: [&str; 24] = [
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "CONTINUATION",
    "MODEL_ARMOR",
];

fn reply(reason: &str, message: Option<&str>) -> Value {
    let mut reply = content(json!([{"text": "Hi"}]));
    reply["candidates"][0]["finishReason"] = reason.into();
    if let Some(message) = message {
        reply["candidates"][0]["finishMessage"] = message.into();
    }
    reply
}

fn outcome(reply: Result<ChatResponse, ModelError>) -> String {
    match reply {
        Ok(response) => format!("{:?}", response.finish_reason),
        Err(error) => format!("{}: {error}", if error.is_transient() { "transient" } else { "permanent" }),
    }
}

#[tokio::test]
async fn each_reason_has_an_outcome() {
    let mut outcomes = String::new();
    for reason in REASONS {
        let body = reply(reason, None);
        let whole = outcome(chat_with(Api::GenerateContent, &body).await);
        outcomes.push_str(&format!("{reason} => {whole}\n"));
        let (events, error) = stream_bytes(Api::GenerateContent, stream_reply([&body])).await;
        let streamed = match error {
            Some(error) => outcome(Err(error)),
            None => outcome(Ok(crate::server::finished(&events).clone())),
        };
        assert_eq!(streamed, whole, "{reason}");
    }
    expect![[r#"
        FINISH_REASON_UNSPECIFIED => Other("FINISH_REASON_UNSPECIFIED")
        STOP => Stop
        MAX_TOKENS => Length
        SAFETY => ContentFilter
        RECITATION => ContentFilter
        LANGUAGE => ContentFilter
        OTHER => Other("OTHER")
        BLOCKLIST => ContentFilter
        PROHIBITED_CONTENT => ContentFilter
        SPII => ContentFilter
        MALFORMED_FUNCTION_CALL => permanent: the model's server could not use the reply of the model: the server could not use it (MALFORMED_FUNCTION_CALL)
        IMAGE_SAFETY => ContentFilter
        IMAGE_PROHIBITED_CONTENT => ContentFilter
        IMAGE_OTHER => Other("IMAGE_OTHER")
        NO_IMAGE => Other("NO_IMAGE")
        IMAGE_RECITATION => ContentFilter
        UNEXPECTED_TOOL_CALL => permanent: the model's server could not use the reply of the model: the server could not use it (UNEXPECTED_TOOL_CALL)
        TOO_MANY_TOOL_CALLS => permanent: the model's server could not use the reply of the model: the server could not use it (TOO_MANY_TOOL_CALLS)
        MISSING_THOUGHT_SIGNATURE => permanent: the model's server refused the request (status 400): the server stopped the reply (MISSING_THOUGHT_SIGNATURE)
        MALFORMED_RESPONSE => permanent: the model's server could not use the reply of the model: the server could not use it (MALFORMED_RESPONSE)
        ESCALATION => ContentFilter
        PUP_LIMITED_DISABLED => permanent: the model's server refused the request (status 400): the server stopped the reply (PUP_LIMITED_DISABLED)
        CONTINUATION => Length
        MODEL_ARMOR => ContentFilter
    "#]].assert_eq(&outcomes);
}

/// The model reads what was wrong with its call.
#[tokio::test]
async fn error_of_a_malformed_call_has_the_message_of_the_server() {
    let message = "Malformed function call: print(default_api.add(x=1))";
    let body = reply("MALFORMED_FUNCTION_CALL", Some(message));
    let error = chat_with(Api::GenerateContent, &body).await.unwrap_err();
    let ModelError::InvalidGeneration { reason, generation } = error else { panic!("{error:?}") };
    assert_eq!(reason, format!("the server could not use it (MALFORMED_FUNCTION_CALL: {message})"));
    assert_eq!(generation.as_deref(), Some("Hi"));
}

/// A filter that stops a reply without content is no empty reply.
#[tokio::test]
async fn filtered_reply_may_have_no_content() {
    let body = json!({"candidates": [{"finishReason": "SAFETY", "index": 0}]});
    assert_eq!(outcome(chat_with(Api::GenerateContent, &body).await), "ContentFilter");
}
