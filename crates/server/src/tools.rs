//! The routes of tools.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use haft_core::{
    ToolContext,
    call::FailureKind,
    toolset::{ListContext, ToolList},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    server::{Caller, OfferedTools, Shared, read_json},
};

pub(crate) async fn list(State(shared): State<Arc<Shared>>, caller: Caller) -> Json<Value> {
    let list = listed(&shared, &caller).await;
    let tools: Vec<_> = list.tools().iter().map(|tool| json!(tool.definition())).collect();
    Json(json!({"tools": tools, "count": tools.len()}))
}

pub(crate) async fn names(State(shared): State<Arc<Shared>>, caller: Caller) -> Json<Value> {
    let list = listed(&shared, &caller).await;
    let names: Vec<_> = list.names().map(ToString::to_string).collect();
    Json(json!({"names": names, "count": names.len()}))
}

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let list = listed(&shared, &caller).await;
    let tool = list.get(&name).ok_or_else(|| not_found(&name))?;
    Ok(Json(json!(tool.definition())))
}

/// The body of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRequest {
    #[serde(default = "no_arguments")]
    arguments: Value,
}

fn no_arguments() -> Value {
    json!({})
}

pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
    let CallRequest { arguments } = read_json(&body)?;
    let cx = ToolContext::new(Arc::new(caller.context(OfferedTools::default())), "call_1");
    // If the client leaves, the future is dropped, and the call is cancelled.
    let result = shared.agent.tools().call_with(&name, arguments, &cx).await;
    let status = match result.failure().map(|failure| failure.kind) {
        Some(FailureKind::NotFound) => return Err(not_found(&name)),
        Some(FailureKind::InvalidArguments) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(FailureKind::Denied) => StatusCode::FORBIDDEN,
        _ => StatusCode::OK,
    };
    Ok((status, Json(result.to_json())).into_response())
}

async fn listed(shared: &Shared, caller: &Caller) -> ToolList {
    let cx = ListContext { state: caller.state(), ..ListContext::default() };
    shared.agent.tools().list(&cx).await
}

fn not_found(name: &str) -> ApiError {
    ApiError::not_found(format!("Tool '{name}' not found"))
}
