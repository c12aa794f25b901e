//! The bare server: axum handlers that do the same work as `haft-server` by hand.

use axum::{
    Json, Router,
    body::Bytes,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::serve::ANSWER;

#[derive(Deserialize)]
struct CallRequest {
    arguments: AddArguments,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArguments {
    x: i64,
    y: i64,
}

#[derive(Serialize)]
struct CallResponse {
    success: bool,
    result: String,
    error: Option<String>,
    warning: Option<String>,
}

#[derive(Deserialize)]
struct ChatRequest {
    messages: Vec<ChatMessage>,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: String,
}

#[derive(Serialize)]
struct ChatResponse {
    status: &'static str,
    text: String,
    pending: Vec<Value>,
    agent_steps: Vec<Value>,
    usage: Usage,
    tools_used: Vec<String>,
    tool_calls: Vec<Value>,
    tool_results: Vec<Value>,
}

#[derive(Default, Serialize)]
struct Usage {
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached_input_tokens: u64,
    reasoning_tokens: u64,
    unreported_requests: u64,
}

pub(crate) fn router() -> Router {
    Router::new().route("/tools/add/call", post(call)).route("/chat", post(chat))
}

async fn call(body: Bytes) -> Response {
    let CallRequest { arguments } = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return invalid(&error.to_string()),
    };
    match arguments.x.checked_add(arguments.y) {
        Some(sum) => {
            let result = sum.to_string();
            Json(CallResponse { success: true, result, error: None, warning: None }).into_response()
        }
        None => invalid("the sum is too large"),
    }
}

async fn chat(body: Bytes) -> Response {
    let ChatRequest { messages } = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return invalid(&error.to_string()),
    };
    if messages.last().is_none_or(|message| message.role != "user") {
        return invalid("the last message is not of the user");
    }
    let response = ChatResponse {
        status: "finished",
        text: answer(&messages).await,
        pending: Vec::new(),
        agent_steps: Vec::new(),
        usage: Usage { requests: 1, unreported_requests: 1, ..Usage::default() },
        tools_used: Vec::new(),
        tool_calls: Vec::new(),
        tool_results: Vec::new(),
    };
    Json(response).into_response()
}

/// Takes the place of the model.
async fn answer(messages: &[ChatMessage]) -> String {
    debug_assert!(messages.iter().all(|message| !message.content.is_empty()));
    ANSWER.to_owned()
}

fn invalid(detail: &str) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"detail": detail}))).into_response()
}
