//! The routes of runs.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use haft_core::{Message, call::Decision, message::MessageBody};
use haft_react::run::Delivery;
use haft_session::{RunStatus, SessionKey, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    chat::{ChatMessage, offered},
    error::ApiError,
    server::{Caller, OfferedTools, Shared, read_json},
    sse,
    stored::{RunRequest, StoredAgent, StoredRunError, load},
};

/// What a new message does while the session has a run that is not over.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    messages: Vec<ChatMessage>,
    #[serde(default = "yes")]
    use_tools: bool,
    available_tools: Option<Vec<String>>,
    #[serde(default)]
    on_active: OnActive,
}

fn yes() -> bool {
    true
}

pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let StartRequest { messages, use_tools, available_tools, on_active } = read_json(&body)?;
    let (stored, key) = (shared.stored()?, SessionKey::of_tenant(caller.tenant(), id)?);
    let tools = offered(&shared, &caller, use_tools, available_tools).await?;
    let messages: Vec<_> = messages.into_iter().map(ChatMessage::into_message).collect();
    if messages.is_empty() {
        return Err(ApiError::invalid("`messages` is empty"));
    }
    let request = RunRequest { messages, context: caller.context(tools), ..RunRequest::default() };
    let (run, is_new) = start_or_send(stored, &key, request, on_active).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let body = json!({"run_id": run, "session_id": key.id(), "is_new": is_new});
    Ok((status, Json(body)).into_response())
}

/// Starts a run. If the session has a run that is not over, does what `on_active` says. Returns the
/// id of the run, and `true` if it is new.
pub(crate) async fn start_or_send(
    stored: &StoredAgent,
    key: &SessionKey,
    mut request: RunRequest,
    on_active: OnActive,
) -> Result<(String, bool), ApiError> {
    for _ in 0..8 {
        let active = match stored.start(key, request.clone()).await {
            Ok(run) => return Ok((run, true)),
            Err(StoredRunError::Store(StoreError::Busy(active))) => active,
            Err(error) => return Err(error.into()),
        };
        let delivery = match on_active {
            OnActive::Reject => return Err(StoreError::Busy(active).into()),
            OnActive::Enqueue => Delivery::Idle,
            OnActive::Steer => Delivery::NextRequest,
            OnActive::Interrupt => {
                stored.cancel(key.tenant(), &active).await?;
                continue;
            }
        };
        let mut sent = Ok(());
        while let Some(message) = request.messages.first().cloned() {
            sent = stored.send(key.tenant(), &active, message, delivery).await;
            if sent.is_err() {
                break;
            }
            request.messages.remove(0);
        }
        match sent {
            Ok(()) => return Ok((active, false)),
            // The run ended in the meantime: a new one can start.
            Err(StoredRunError::Store(StoreError::RunOver(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "other runs of the session begin all the time"))
}

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let stored = shared.stored()?.store().run(caller.tenant(), &id).await?;
    Ok(Json(describe(stored)?))
}

/// Returns the status of a run, its waiting calls, and its answer.
pub(crate) fn describe(stored: haft_session::StoredRun) -> Result<Value, StoreError> {
    let (id, session, status, usage) =
        (stored.id.clone(), stored.session.clone(), stored.status, stored.usage);
    let (run, _) = load(stored)?;
    let own = run.transcript().messages().get(run.first_message_index()..).unwrap_or_default();
    let last = own.iter().rev().find(|message| matches!(message.body(), MessageBody::Assistant(_)));
    let text = last.filter(|_| status == RunStatus::Finished).map(|message| message.text());
    Ok(json!({
        "run_id": id,
        "session_id": session,
        "status": status,
        "text": text,
        "pending": run.undecided_calls(),
        "agent_steps": haft_react::transcript::agent_steps(own),
        "usage": usage,
    }))
}

/// The body of `POST /runs/{id}/decisions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionRequest {
    call_id: String,
    decision: Decision,
}

pub(crate) async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let DecisionRequest { call_id, decision } = read_json(&body)?;
    let stored = shared.stored()?;
    let context = caller.context(OfferedTools::default());
    stored.decide(caller.tenant(), &id, &call_id, &decision, context).await?;
    Ok(Json(json!({"run_id": id, "call_id": call_id})))
}

/// The body of `POST /runs/{id}/messages`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageRequest {
    content: String,
    #[serde(default)]
    delivery: Delivery,
}

pub(crate) async fn send(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let MessageRequest { content, delivery } = read_json(&body)?;
    let stored = shared.stored()?;
    stored.send(caller.tenant(), &id, Message::user(content), delivery).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let stored = shared.stored()?;
    stored.cancel(caller.tenant(), &id).await?;
    Ok(Json(describe(stored.store().run(caller.tenant(), &id).await?)?))
}

#[derive(Deserialize)]
pub(crate) struct EventsQuery {
    after: Option<u64>,
}

pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
    caller: Caller,
) -> Result<Response, ApiError> {
    let stored = shared.stored()?;
    let run = stored.store().run(caller.tenant(), &id).await?;
    let key = SessionKey::of_tenant(caller.tenant(), run.session)?;
    let after = sse::last_event(&headers, query.after);
    // A client that has all events of a run does not connect again (HTML, section 9.2.3).
    if run.status.is_over() && stored.store().events(&key, Some(&id), after, 1).await?.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(events_of(stored, key, Some(id), after).into_response())
}

pub(crate) async fn session_events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
    caller: Caller,
) -> Result<sse::Events, ApiError> {
    let (stored, key) = (shared.stored()?, SessionKey::of_tenant(caller.tenant(), id)?);
    stored.store().session(&key).await?;
    let after = sse::last_event(&headers, query.after);
    Ok(events_of(stored, key, None, after))
}

/// Returns the stored events of a session or a run, and the new ones.
pub(crate) fn events_of(
    stored: &StoredAgent,
    key: SessionKey,
    run: Option<String>,
    after: u64,
) -> sse::Events {
    let numbers = stored.live().numbers(&key).subscribe();
    sse::events(sse::stored_events(Arc::clone(stored.store()), key, run, after, numbers))
}
