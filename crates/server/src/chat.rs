//! The route `POST /chat`.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, sse::Event},
};
use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    Message, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentStep, RunStart},
    toolset::ListContext,
};
use haft_session::{RunStatus, SessionKey, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;
use utoipa::ToSchema;

use crate::{
    body::read_json,
    client::{ClientGuard, Disconnect, OnDisconnect},
    error::{ApiError, ErrorBody, Failures},
    runs::{OnActive, Queue, RunBody, StartOutcome, describe, start_or_send},
    server::{Caller, OfferedTools, Shared, reject_request_key, request_key},
    sse,
    stored::{RunRequest, StoredAgent},
};

const NEEDS_SESSION: &str = "a call needs a decision: send a `session_id`, so that the run can wait";

/// The body of `POST /chat`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatRequest {
    /// The last message is the question, of the role `user`. With a session, the others are ignored:
    /// the store has the earlier conversation.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// The conversation in which the question and the answer are stored.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")]
    session_id: Option<String>,
    /// `true` offers the tools to the model.
    #[serde(default)]
    use_tools: bool,
    /// `true` sends the earlier conversation to the model.
    #[serde(default)]
    use_memory: bool,
    /// The tools to offer. Default: all.
    available_tools: Option<Vec<String>>,
    /// `true` streams the events of the run.
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    on_active: OnActive,
    /// The effect on the run if the client leaves before the end of the response. A run that
    /// waits for a decision, or whose conversation has another reader, goes on. Default: `cancel`, and
    /// with an `Idempotency-Key` `continue`.
    on_disconnect: Option<OnDisconnect>,
    /// The seconds before the run is cancelled. It goes on if the conversation has another reader by
    /// then. Default: 0.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 3600)]
    grace_seconds: u64,
}

/// A message of a client.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatMessage {
    role: Role,
    content: String,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

/// An answer.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatAnswer {
    #[serde(flatten)]
    run: RunBody,
    /// The reason, if there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The names of the called tools.
    tools_used: BTreeSet<String>,
    /// Each with `id`, `name` and `arguments`.
    #[schema(value_type = Vec<Object>)]
    tool_calls: Vec<Value>,
    /// Each with `call_id`, `name`, `success`, `result`, `error` and `warning`.
    #[schema(value_type = Vec<Object>)]
    tool_results: Vec<Value>,
}

impl ChatMessage {
    pub(crate) fn into_message(self) -> Message {
        match self.role {
            Role::System => Message::system(self.content),
            Role::User => Message::user(self.content),
            Role::Assistant => Message::assistant(self.content),
        }
    }
}

/// Returns the tools that a request offers to the model. An unknown name is an error.
pub(crate) async fn offered(
    shared: &Shared,
    caller: &Caller,
    use_tools: bool,
    available: Option<Vec<String>>,
) -> Result<OfferedTools, ApiError> {
    let available = match (use_tools, available) {
        (true, None) => return Ok(OfferedTools(None)),
        (true, Some(available)) => available,
        (false, _) => Vec::new(),
    };
    let cx = ListContext { state: caller.state(), ..ListContext::default() };
    let list = shared.agent.tools().list(&cx).await;
    if let Some(unknown) = available.iter().find(|name| list.get(name).is_none()) {
        let known: Vec<_> = list.names().map(ToString::to_string).collect();
        let known = known.join(", ");
        return Err(ApiError::invalid(format!("Tool '{unknown}' not found; available: {known}")));
    }
    Ok(OfferedTools(Some(BTreeSet::from_iter(available))))
}

/// Ask a question.
///
/// Without `session_id`, nothing is stored. With the status 202, a call waits for a decision.
#[utoipa::path(
    post, path = "/chat", tag = "chat",
    params(("Idempotency-Key" = Option<String>, Header, pattern = "^([!#-~]{1,255}|\"[!#-~]{1,255}\")$", description =
        "A key of the client for a question to a stored conversation. A repeated request starts nothing, \
         and returns the answer of the first one.")),
    request_body = ChatRequest,
    responses(
        Failures,
        (status = 200, content((ChatAnswer = "application/json"), (sse::StreamEvent = "text/event-stream"))),
        (status = 202, body = ChatAnswer, description = "A call waits for a decision."),
        (status = 409, body = ErrorBody, description = "The run was cancelled, or is a conflict."),
    )
)]
pub(crate) async fn chat(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut request: ChatRequest = read_json(&body)?;
    let Some(last) = request.messages.pop().filter(|message| message.role == Role::User) else {
        return Err(ApiError::invalid("`messages` must end with a message of the role `user`"));
    };
    let available = request.available_tools.take();
    let tools = offered(&shared, &caller, request.use_tools, available).await?;
    let context = caller.context(tools);
    let Some(session) = request.session_id.take() else {
        reject_request_key(&headers)?;
        if request.use_memory {
            return Err(ApiError::invalid("`use_memory` needs a `session_id`"));
        }
        let mut input = RunInput::new("").with_context(context);
        let transcript: Transcript = request.messages.into_iter().map(ChatMessage::into_message).collect();
        input.start = RunStart::New { messages: vec![last.into_message()], transcript };
        return answer_once(&shared, input, request.stream).await;
    };
    let key = SessionKey::of_tenant(caller.tenant(), session)?;
    let mut new = RunRequest { context, is_fresh: !request.use_memory, ..RunRequest::default() };
    // The store has the earlier conversation.
    new.messages = vec![last.into_message()];
    new.key = request_key(&headers, "/chat", &body)?;
    answer_stored(shared.stored()?, key, new, &request).await
}

/// Runs the agent in the session `key`.
async fn answer_stored(
    stored: &StoredAgent,
    key: SessionKey,
    new: RunRequest,
    request: &ChatRequest,
) -> Result<Response, ApiError> {
    let default = if new.key.is_some() { OnDisconnect::Continue } else { OnDisconnect::Cancel };
    let disconnect = Disconnect::new(request.on_disconnect.unwrap_or(default), request.grace_seconds)?;
    let before = match stored.store().session(&key).await {
        Err(StoreError::SessionNotFound(_)) => 0,
        session => session?.last_event,
    };
    // The client can leave before there is a run to guard.
    let starting =
        (disconnect != Disconnect::Continue).then(|| new.context.cancellation.clone().drop_guard());
    let started = start_or_send(stored, &key, new, request.on_active, Queue::OwnRun).await?;
    let live = stored.live().get(key.tenant(), started.run());
    // Other clients depend on a run that was active before.
    let disconnect = if started.is_new() { disconnect } else { Disconnect::Continue };
    let guard = live.clone().map(|live| ClientGuard::new(disconnect, live, stored, &key));
    drop(starting.map(DropGuard::disarm));
    // A run that waits, and has only received the message, is not driven.
    let is_driven = live.is_some() || !matches!(started, StartOutcome::Sent(_));
    let after = match &started {
        StartOutcome::Repeated(_) => None,
        _ => Some(before),
    };
    let (run, tenant) = (started.run().to_owned(), key.tenant().to_owned());
    if request.stream && is_driven {
        return Ok(sse::events_of(stored, key, Some(run), after, guard).into_response());
    }
    if let Some(live) = live {
        // For other clients that leave, this one is a reader. Dropped before the guard.
        let _reader = stored.live().feed(&key).subscribe();
        tokio::select! {
            () = live.ended.cancelled() => {}
            // The run continues on the next server.
            () = stored.stopping().cancelled() => {}
        }
    }
    let body = describe(&**stored.store(), &tenant, &run).await?;
    let status = match body.status() {
        RunStatus::Finished => StatusCode::OK,
        RunStatus::Suspended | RunStatus::Active => StatusCode::ACCEPTED,
        RunStatus::Cancelled => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    };
    Ok((status, Json(ChatAnswer::new(body))).into_response())
}

/// Runs the agent without a session.
async fn answer_once(shared: &Shared, input: RunInput, stream: bool) -> Result<Response, ApiError> {
    let slot = (shared.take_slot()?, shared.metrics.active_runs().add_one());
    if stream {
        let events = shared.agent.stream(input).map(move |event| {
            let _slot = &slot;
            let data = match event {
                Ok(RunEvent::Done { output: RunOutput::Suspended(_) }) => {
                    json!({"type": "error", "error": NEEDS_SESSION})
                }
                Ok(RunEvent::Done { output }) => sse::output_event(&output),
                Ok(event) => json!(event),
                Err(error) => sse::error_event(&error.kind),
            };
            Ok::<_, Infallible>(Event::default().data(data.to_string()))
        });
        let events: BoxStream<'static, _> = events.boxed();
        return Ok(sse::events(events).into_response());
    }
    let output = shared.agent.run(input).await.map_err(|error| ApiError::from(&*error.kind))?;
    match output {
        RunOutput::Answer(answer) => {
            let run = RunBody::answered(answer.text.clone(), answer.steps.clone(), answer.usage);
            Ok(Json(ChatAnswer::new(run)).into_response())
        }
        RunOutput::Suspended(_) => Err(ApiError::new(StatusCode::CONFLICT, NEEDS_SESSION)),
    }
}

impl ChatAnswer {
    /// Creates the answer of a run, with its tools, calls and results.
    fn new(run: RunBody) -> Self {
        let steps: &[AgentStep] = run.steps();
        let call = |step: &AgentStep| json!({"id": step.result.call_id, "name": step.tool_name, "arguments": step.tool_args});
        let result = |step: &AgentStep| {
            let mut result = step.result.to_json();
            result["call_id"] = step.result.call_id.as_str().into();
            result["name"] = step.tool_name.as_str().into();
            result
        };
        Self {
            detail: run.failure(),
            tools_used: steps.iter().map(|step| step.tool_name.clone()).collect(),
            tool_calls: steps.iter().map(call).collect(),
            tool_results: steps.iter().map(result).collect(),
            run,
        }
    }
}
