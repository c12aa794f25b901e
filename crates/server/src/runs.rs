//! The routes of runs.
#![allow(unused_qualifications, reason = "the code of `utoipa::path` has full paths")]

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use haft_core::{
    Message,
    agent::AgentStep,
    call::{Decision, PendingCall},
    message::MessageBody,
    usage::Usage,
};
use haft_react::{run::Delivery, transcript::agent_steps};
use haft_session::{RunStatus, SessionKey, SessionStore, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    body::read_json,
    chat::{ChatMessage, offered},
    client::{ClientGuard, Disconnect, OnDisconnect},
    error::{ApiError, Failures},
    server::{Caller, OfferedTools, PathSession, Shared, query_number, request_key},
    sse,
    stored::{RunRequest, StoredAgent, StoredRunError, failure_of, load},
};

/// What a new message does while the session has a run that is not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnActive {
    /// The message is rejected.
    Reject,
    /// The run continues with the message after its answer.
    #[default]
    Enqueue,
    /// The message becomes part of the next model request of the run.
    Steer,
    /// The run is cancelled, and a new run begins.
    Interrupt,
}

/// The body of `POST /sessions/{id}/runs`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    /// The new messages.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// `true` offers the tools to the model. Default: `true`.
    #[serde(default = "yes")]
    use_tools: bool,
    /// The tools to offer. Default: all.
    available_tools: Option<Vec<String>>,
    #[serde(default)]
    on_active: OnActive,
}

fn yes() -> bool {
    true
}

/// A started run, or the active run that has received the messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartedRun {
    run_id: String,
    session_id: String,
    /// `false` if the run was active before.
    is_new: bool,
}

/// Start a run of a conversation, which is created if there is none.
///
/// The run does not depend on the client. If the conversation has a run that is not over, `on_active`
/// decides.
#[utoipa::path(
    post, path = "/sessions/{id}/runs", tag = "runs",
    params(
        ("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^([!#-~]{1,255}|\"[!#-~]{1,255}\")$", description =
            "A key of the client for this request. A repeated request starts nothing, and returns the run of the \
             first one."),
    ),
    request_body = StartRequest,
    responses(
        (status = 201, body = StartedRun, description = "The run has started."),
        (status = 202, body = StartedRun, description = "The active run has received the messages."),
        Failures,
    )
)]
pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    PathSession { stored, key }: PathSession,
    headers: HeaderMap,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let StartRequest { messages, use_tools, available_tools, on_active } = read_json(&body)?;
    let request = request_key(&headers, &format!("/sessions/{}/runs", key.id()), &body)?;
    let tools = offered(&shared, &caller, use_tools, available_tools).await?;
    let messages: Vec<_> = messages.into_iter().map(ChatMessage::into_message).collect();
    let mut new = RunRequest { messages, context: caller.context(tools), ..RunRequest::default() };
    new.key = request;
    let started = start_or_send(&stored, &key, new, on_active, Queue::ActiveRun).await?;
    let is_new = started.is_new();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let body = StartedRun { run_id: started.run().to_owned(), session_id: key.id().to_owned(), is_new };
    Ok((status, Json(body)).into_response())
}

/// The run that handles new messages.
pub(crate) enum StartOutcome {
    /// A new run.
    New(String),
    /// The run was active, and has received the messages.
    Sent(String),
    /// The request was handled before, by this run.
    Repeated(String),
}

impl StartOutcome {
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    pub(crate) fn run(&self) -> &str {
        match self {
            Self::New(run) | Self::Sent(run) | Self::Repeated(run) => run,
        }
    }
}

/// Where a queued message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// In the active run.
    ActiveRun,
    /// In front of the active run, and then it has a run of its own. If the active run waits for a
    /// decision, it receives the message.
    OwnRun,
}

/// The number of attempts to start a run, or to find the driver of the active one, and the pause
/// between the latter.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the run `run` is over. Returns `false` if it waits, or another process drives it.
async fn wait_for_end(stored: &StoredAgent, tenant: &str, run: &str) -> Result<bool, ApiError> {
    for _ in 0..ATTEMPTS {
        if let Some(live) = stored.live().get(tenant, run) {
            tokio::select! {
                () = live.ended.cancelled() => return Ok(true),
                () = stored.stopping().cancelled() => return Err(StoredRunError::ShuttingDown.into()),
            }
        }
        match stored.store().run_summary(tenant, run).await?.status {
            RunStatus::Suspended => return Ok(false),
            status if status.is_over() => return Ok(true),
            // Its driver starts at this moment, or is in another process.
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    Ok(false)
}

/// Starts a run. If the session has a run that is not over, applies `on_active`.
pub(crate) async fn start_or_send(
    stored: &StoredAgent,
    key: &SessionKey,
    request: RunRequest,
    on_active: OnActive,
    queue: Queue,
) -> Result<StartOutcome, ApiError> {
    // The waiting questions of a session start in their order. No run has an id with a slash.
    let place = format!("session/{}", key.id());
    let _turn = match (queue, on_active) {
        (Queue::OwnRun, OnActive::Enqueue) => Some(stored.live().turn(key.tenant(), &place).await),
        _ => None,
    };
    let mut attempts = 0;
    while attempts < ATTEMPTS {
        attempts += 1;
        let active = match stored.start(key, request.clone()).await {
            Ok(run) => return Ok(StartOutcome::New(run)),
            Err(StoredRunError::Store(StoreError::Repeated { run })) => {
                return Ok(StartOutcome::Repeated(run));
            }
            Err(StoredRunError::Store(StoreError::Busy(active))) => active,
            Err(error) => return Err(error.into()),
        };
        let delivery = match on_active {
            OnActive::Reject => return Err(StoreError::Busy(active).into()),
            OnActive::Enqueue
                if queue == Queue::OwnRun && wait_for_end(stored, key.tenant(), &active).await? =>
            {
                attempts = 0;
                continue;
            }
            OnActive::Enqueue => Delivery::Idle,
            OnActive::Steer => Delivery::NextRequest,
            OnActive::Interrupt => {
                stored.cancel(key.tenant(), &active).await?;
                continue;
            }
        };
        let RunRequest { messages, key: request_key, .. } = request.clone();
        match stored.send(key.tenant(), &active, messages, delivery, request_key).await {
            Ok(()) => return Ok(StartOutcome::Sent(active)),
            // The run ended in the meantime: a new one can start.
            Err(StoredRunError::Store(StoreError::RunOver(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "other requests start and interrupt runs of the session all the time: repeat the request later",
    ))
}

/// A run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// `active`, `suspended`, `finished`, `failed` or `cancelled`.
    #[schema(value_type = String)]
    status: RunStatus,
    /// The answer of a finished run.
    text: Option<String>,
    /// The reason why a failed run has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The calls that wait for a decision, each with `call` and `pending`.
    #[schema(value_type = Vec<Object>)]
    pending: Vec<PendingCall>,
    /// The calls of the run with their results.
    #[schema(value_type = Vec<Object>)]
    agent_steps: Vec<AgentStep>,
    /// The tokens and the cost.
    #[schema(value_type = Object)]
    usage: Usage,
}

impl RunBody {
    /// Creates the body of a run that is not stored.
    pub(crate) fn answered(text: String, agent_steps: Vec<AgentStep>, usage: Usage) -> Self {
        let status = RunStatus::Finished;
        let (run_id, session_id, error, pending) = (None, None, None, Vec::new());
        Self { run_id, session_id, status, text: Some(text), error, pending, agent_steps, usage }
    }

    pub(crate) fn status(&self) -> RunStatus {
        self.status
    }

    pub(crate) fn steps(&self) -> &[AgentStep] {
        &self.agent_steps
    }

    /// Returns the reason why the run has no answer.
    pub(crate) fn failure(&self) -> Option<String> {
        match self.status {
            RunStatus::Failed => Some(self.error.clone().unwrap_or_else(|| "the run failed".to_owned())),
            RunStatus::Cancelled => Some("the run was cancelled".to_owned()),
            _ => None,
        }
    }
}

/// Show a run: its status, the calls that wait, and its answer.
#[utoipa::path(
    get, path = "/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "The id of the run.")),
    responses((status = 200, body = RunBody), Failures)
)]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<RunBody>, ApiError> {
    Ok(Json(describe(&**shared.stored()?.store(), caller.tenant(), &id).await?))
}

/// Returns the status of a run, its waiting calls, and its answer. The cost does not depend on the
/// length of the conversation, unless the run is active or waits.
pub(crate) async fn describe(
    store: &dyn SessionStore,
    tenant: &str,
    id: &str,
) -> Result<RunBody, StoreError> {
    let run = store.run_summary(tenant, id).await?;
    let entries = store.run_entries(tenant, id).await?;
    let own: Vec<_> = entries.iter().filter_map(|entry| entry.message().cloned()).collect();
    let (mut error, mut pending) = (None, Vec::new());
    match run.status {
        RunStatus::Failed => error = failure_of(&store.run(tenant, id).await?.state),
        status if status.is_over() => {}
        _ => pending = load(store.run(tenant, id).await?)?.0.undecided_calls(),
    }
    let last = own.iter().rev().find(|message| matches!(message.body(), MessageBody::Assistant(_)));
    Ok(RunBody {
        text: last.filter(|_| run.status == RunStatus::Finished).map(|message| message.text()),
        run_id: Some(run.id),
        session_id: Some(run.session),
        status: run.status,
        error,
        pending,
        agent_steps: agent_steps(&own),
        usage: run.usage,
    })
}

/// The body of `POST /runs/{id}/decisions`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionRequest {
    /// The id of the waiting call.
    call_id: String,
    /// `{"type": "approved"}`, with `arguments` in place of the shown ones; `{"type": "denied", "reason":
    /// …}`; for an external tool `{"type": "output", "output": {"content": [{"type": "text", "text": …}]}}`
    /// or `{"type": "failed", "message": …}`; for a question `{"type": "input", "value": …}`; and
    /// `{"type": "nested", "decisions": {…}}` by call id, for the calls of an agent inside a call.
    #[schema(value_type = Object)]
    decision: Decision,
}

/// A decided call.
#[derive(Serialize, ToSchema)]
pub(crate) struct DecidedCall {
    run_id: String,
    call_id: String,
}

/// Decide about a call that waits.
///
/// The decision is stored, and the run continues. The same decision again is no error.
#[utoipa::path(
    post, path = "/runs/{id}/decisions", tag = "runs",
    params(("id" = String, Path, description = "The id of the run.")),
    request_body = DecisionRequest,
    responses((status = 200, body = DecidedCall), Failures)
)]
pub(crate) async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Json<DecidedCall>, ApiError> {
    let DecisionRequest { call_id, decision } = read_json(&body)?;
    let stored = shared.stored()?;
    let context = caller.context(OfferedTools::default());
    stored.decide(caller.tenant(), &id, &call_id, &decision, context).await?;
    Ok(Json(DecidedCall { run_id: id, call_id }))
}

/// When a run receives a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageDelivery {
    /// The message becomes part of the next model request.
    #[default]
    NextRequest,
    /// The run continues with the message after its answer.
    Idle,
}

impl From<MessageDelivery> for Delivery {
    fn from(delivery: MessageDelivery) -> Self {
        match delivery {
            MessageDelivery::NextRequest => Self::NextRequest,
            MessageDelivery::Idle => Self::Idle,
        }
    }
}

/// The body of `POST /runs/{id}/messages`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageRequest {
    content: String,
    #[serde(default)]
    delivery: MessageDelivery,
}

/// Send a message to a run that is not over.
#[utoipa::path(
    post, path = "/runs/{id}/messages", tag = "runs",
    params(
        ("id" = String, Path, description = "The id of the run."),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^([!#-~]{1,255}|\"[!#-~]{1,255}\")$", description =
            "A key of the client for this request. A repeated request sends nothing."),
    ),
    request_body = MessageRequest,
    responses((status = 202, description = "The message is stored."), Failures)
)]
pub(crate) async fn send(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    caller: Caller,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let MessageRequest { content, delivery } = read_json(&body)?;
    let request = request_key(&headers, &format!("/runs/{id}/messages"), &body)?;
    let stored = shared.stored()?;
    stored.send(caller.tenant(), &id, vec![Message::user(content)], delivery.into(), request).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Cancel a run that is not over.
///
/// Messages that the run has not received stay in the conversation.
#[utoipa::path(
    post, path = "/runs/{id}/cancel", tag = "runs",
    params(("id" = String, Path, description = "The id of the run.")),
    responses((status = 200, body = RunBody), Failures)
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<RunBody>, ApiError> {
    let stored = shared.stored()?;
    stored.cancel(caller.tenant(), &id).await?;
    Ok(Json(describe(&**stored.store(), caller.tenant(), &id).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunEventsQuery {
    /// The number of the last event that the client has. The header `Last-Event-ID` wins.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    after: Option<u64>,
    /// The effect on the run if this client leaves. Default: `continue`.
    on_disconnect: Option<OnDisconnect>,
    /// The seconds before the run is cancelled. It goes on if another client reads its events by
    /// then. Default: 0.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 3600)]
    grace_seconds: Option<u64>,
}

/// Read the events of a run.
///
/// The events are numbered by their ids. The last one is `done`, `suspended` or `error`. A client
/// that has all events of a run that is over gets 204, and does not connect again. If events have been
/// deleted that the client has not, it gets a `snapshot` of the conversation and then the new events.
#[utoipa::path(
    get, path = "/runs/{id}/events", tag = "runs",
    params(
        ("id" = String, Path, description = "The id of the run."), RunEventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has."),
    ),
    responses(
        (status = 200, body = sse::StreamEvent, content_type = "text/event-stream"),
        (status = 204, description = "The client has all events."),
        Failures,
    )
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<RunEventsQuery>,
    headers: HeaderMap,
    caller: Caller,
) -> Result<Response, ApiError> {
    let on_disconnect = query.on_disconnect.unwrap_or(OnDisconnect::Continue);
    let disconnect = Disconnect::new(on_disconnect, query.grace_seconds.unwrap_or(0))?;
    let stored = shared.stored()?;
    let run = stored.store().run_summary(caller.tenant(), &id).await?;
    let key = SessionKey::of_tenant(caller.tenant(), run.session)?;
    let after = sse::last_event(&headers, query.after);
    // A client that has all events of a run does not connect again (HTML, section 9.2.3).
    if let Some(after) = after.filter(|_| run.status.is_over()) {
        match stored.store().events(&key, Some(&id), after, 1).await {
            Ok(events) if events.is_empty() => return Ok(StatusCode::NO_CONTENT.into_response()),
            Ok(_) | Err(StoreError::EventsExpired { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let live = stored.live().get(caller.tenant(), &id);
    let guard = live.map(|live| ClientGuard::new(disconnect, live, stored, &key));
    Ok(sse::events_of(stored, key, Some(id), after, guard).into_response())
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionEventsQuery {
    /// The number of the last event that the client has. The header `Last-Event-ID` wins.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    after: Option<u64>,
}

/// Read the events of a conversation.
///
/// Without the number of an event, the first event is a `snapshot`: the latest entries, and the id of
/// the active run, whose events follow from its first one. The stream does not end.
#[utoipa::path(
    get, path = "/sessions/{id}/events", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"), SessionEventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has."),
    ),
    responses((status = 200, body = sse::StreamEvent, content_type = "text/event-stream"), Failures)
)]
pub(crate) async fn session_events(
    PathSession { stored, key }: PathSession,
    Query(query): Query<SessionEventsQuery>,
    headers: HeaderMap,
) -> Result<sse::Events, ApiError> {
    stored.store().session(&key).await?;
    let after = sse::last_event(&headers, query.after);
    Ok(sse::events_of(&stored, key, None, after, None))
}
