//! The routes of tools.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use haft_core::{
    ToolCall, ToolContext, ToolDefinition,
    call::FailureKind,
    toolset::{ListContext, ToolList},
};
use haft_session::ToolStats;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use crate::{
    body::read_json,
    error::{ApiError, ErrorBody, Failures},
    server::{Caller, OfferedTools, Shared, reject_request_key},
};

/// A list of tools.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tools {
    /// Each with `name`, `description` and `input_schema`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<ToolDefinition>,
    count: usize,
}

/// A list of names of tools.
#[derive(Serialize, ToSchema)]
pub(crate) struct Names {
    names: Vec<String>,
    count: usize,
}

/// List the tools.
#[utoipa::path(get, path = "/tools", tag = "tools", responses((status = 200, body = Tools), Failures))]
pub(crate) async fn list(State(shared): State<Arc<Shared>>, caller: Caller) -> Json<Tools> {
    let list = listed(&shared, &caller).await;
    let tools: Vec<_> = list.tools().iter().map(|tool| tool.definition().clone()).collect();
    Json(Tools { count: tools.len(), tools })
}

/// List the names of the tools.
#[utoipa::path(get, path = "/tools/names", tag = "tools", responses((status = 200, body = Names), Failures))]
pub(crate) async fn names(State(shared): State<Arc<Shared>>, caller: Caller) -> Json<Names> {
    let list = listed(&shared, &caller).await;
    let names: Vec<_> = list.names().map(ToString::to_string).collect();
    Json(Names { count: names.len(), names })
}

/// Show a tool.
#[utoipa::path(
    get, path = "/tools/{name}", tag = "tools",
    params(("name" = String, Path, description = "The name of the tool.")),
    responses((status = 200, body = Object, description = "The definition of the tool."), Failures)
)]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    caller: Caller,
) -> Result<Json<ToolDefinition>, ApiError> {
    let list = listed(&shared, &caller).await;
    let tool = list.get(&name).ok_or_else(|| not_found(&name))?;
    Ok(Json(tool.definition().clone()))
}

/// The body of a call.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallRequest {
    /// The arguments, as in the input schema of the tool. Default: none.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Box<RawValue>>,
}

/// The result of a call.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "the description of `ToolResult::to_json`")]
pub(crate) struct CallResult {
    success: bool,
    result: Value,
    /// The reason of the failure, as a model would read it.
    error: Option<String>,
    warning: Option<String>,
}

/// The body of a failed call.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a description, which has no value")]
pub(crate) enum CallFailure {
    Request(ErrorBody),
    Call(CallResult),
}

/// Call a tool.
///
/// A call that fails is a response with `success: false`. If the client leaves, the call is
/// cancelled.
#[utoipa::path(
    post, path = "/tools/{name}/call", tag = "tools",
    params(("name" = String, Path, description = "The name of the tool.")),
    request_body = Option<CallRequest>,
    responses(
        Failures,
        (status = 200, body = CallResult),
        (status = 403, body = CallFailure, description = "The request or the call is not permitted."),
        (status = 422, body = CallFailure, description = "The body is invalid, or the arguments are."),
    )
)]
pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    reject_request_key(&headers)?;
    let body = body.trim_ascii();
    let request = match body.is_empty() || body == b"null" {
        true => CallRequest::default(),
        false => read_json(body)?,
    };
    // The text as received: a number keeps all its digits.
    let arguments = request.arguments.as_deref().map_or("{}", RawValue::get);
    let _slot = shared.take_slot()?;
    let cx = ToolContext::new(Arc::new(caller.context(OfferedTools::default())), "call_1");
    // If the client leaves, the future is dropped, and the call is cancelled.
    let call = ToolCall::new(cx.call_id(), name.as_str(), arguments);
    let result = shared.agent.tools().run_with(&call, &cx).await.into_result();
    let status = match result.failure().map(|failure| failure.kind) {
        Some(FailureKind::NotFound) => return Err(not_found(&name)),
        Some(FailureKind::InvalidArguments) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(FailureKind::Denied) => StatusCode::FORBIDDEN,
        _ => StatusCode::OK,
    };
    Ok((status, Json(result.to_json())).into_response())
}

/// The calls in stored conversations.
#[derive(Serialize, ToSchema)]
pub(crate) struct Stats {
    /// Each with `tool`, `calls`, `failures`, `mean_millis` and `max_millis`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<ToolStats>,
    count: usize,
}

/// Count the calls of each tool in stored conversations.
#[utoipa::path(get, path = "/stats/tools", tag = "tools", responses((status = 200, body = Stats), Failures))]
pub(crate) async fn stats(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
) -> Result<Json<Stats>, ApiError> {
    let tools = shared.stored()?.store().tool_stats(caller.tenant()).await?;
    Ok(Json(Stats { count: tools.len(), tools }))
}

async fn listed(shared: &Shared, caller: &Caller) -> ToolList {
    let cx = ListContext { state: caller.state(), ..ListContext::default() };
    shared.agent.tools().list(&cx).await
}

fn not_found(name: &str) -> ApiError {
    ApiError::not_found(format!("Tool '{name}' not found"))
}
