//! The routes of stored conversations.
#![allow(unused_qualifications, reason = "the code of `utoipa::path` has full paths")]

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use haft_core::Timestamp;
use haft_session::{
    Append, Conversation, Entry, EntryBody, RunSummary, SearchHit, Session, SessionKey, StoreError,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    body::read_json,
    error::{ApiError, Failures},
    server::{Caller, PathSession, Shared, query_number},
};

/// The maximum number of items in a list.
const MAX_ITEMS: u32 = 500;

/// The number of items in a list without `limit`.
const ITEMS: u32 = 50;

/// Returns the number of items of a list with the query parameter `limit`.
fn items(limit: Option<u64>) -> u32 {
    limit.map_or(ITEMS, |limit| u32::try_from(limit).unwrap_or(MAX_ITEMS).min(MAX_ITEMS))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The value `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}:[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")]
    after: Option<String>,
    /// The maximum number of items, at most 500. Default: 50.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    limit: Option<u64>,
}

/// A page of conversations.
#[derive(Serialize, ToSchema)]
pub(crate) struct Sessions {
    /// Each with `id`, `title`, `entries`, `created_at` and `updated_at`, times in milliseconds.
    #[schema(value_type = Vec<Object>)]
    sessions: Vec<Session>,
    count: usize,
    /// The value `after` of the next page. `null` for the last page.
    next: Option<String>,
}

/// List the conversations, those with the latest write first.
#[utoipa::path(
    get, path = "/sessions", tag = "sessions", params(ListQuery),
    responses((status = 200, body = Sessions), Failures)
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
    caller: Caller,
) -> Result<Json<Sessions>, ApiError> {
    let after = query.after.as_deref().map(|after| {
        let (time, id) = after.split_once(':')?;
        let time = time.parse().ok().filter(|_| time.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some((Timestamp::from_unix_millis(time), SessionKey::new(id).ok()?))
    });
    let after = after.map(|after| {
        after.ok_or_else(|| ApiError::new(StatusCode::BAD_REQUEST, "`after` is no value of `next`"))
    });
    let limit = items(query.limit);
    let store = shared.stored()?.store();
    let after = after.transpose()?;
    let after = after.as_ref().map(|(time, key)| (*time, key.id()));
    let sessions = store.sessions(caller.tenant(), after, limit).await?;
    let last = sessions.last().filter(|_| sessions.len() == limit as usize);
    let next = last.map(|last| format!("{}:{}", last.updated_at.unix_millis(), last.id));
    Ok(Json(Sessions { count: sessions.len(), next, sessions }))
}

/// A conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionBody {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    session: Session,
    /// The id of the run that is not over.
    active_run: Option<String>,
}

/// Show a conversation.
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")),
    responses((status = 200, body = SessionBody), Failures)
)]
pub(crate) async fn show(PathSession { stored, key }: PathSession) -> Result<Json<SessionBody>, ApiError> {
    let session = stored.store().session(&key).await?;
    Ok(Json(SessionBody { session, active_run: stored.store().active_run(&key).await? }))
}

/// Delete a conversation.
///
/// Its active run is cancelled. A conversation that does not exist is no error.
#[utoipa::path(
    delete, path = "/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")),
    responses((status = 204), Failures)
)]
pub(crate) async fn delete(PathSession { stored, key }: PathSession) -> Result<StatusCode, ApiError> {
    stored.delete(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessagesQuery {
    /// The position of the last entry that the client has. Default: 0.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    after: Option<u64>,
    /// The maximum number of entries, at most 500. Default: 50.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    limit: Option<u64>,
    /// `false` leaves out tool results, and replies that only call tools. Default: `true`.
    tools: Option<bool>,
}

/// A page of the log of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Entries {
    entries: Vec<LogEntry>,
    count: usize,
    /// The value `after` of the next page. `null` for the last page.
    next: Option<u64>,
}

/// An entry of the log of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogEntry {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    entry: Entry,
    /// `true` for a tool result, and for a reply that only calls tools.
    is_tool_traffic: bool,
}

impl From<Entry> for LogEntry {
    fn from(entry: Entry) -> Self {
        Self { is_tool_traffic: entry.is_tool_traffic(), entry }
    }
}

/// Read the messages of a conversation.
#[utoipa::path(
    get, path = "/sessions/{id}/messages", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"), MessagesQuery),
    responses((status = 200, body = Entries), Failures)
)]
pub(crate) async fn messages(
    PathSession { stored, key }: PathSession,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Entries>, ApiError> {
    let limit = items(query.limit);
    let entries = stored.store().entries(&key, query.after.unwrap_or(0), limit).await?;
    let next = entries.last().filter(|_| entries.len() == limit as usize).map(|last| last.position);
    let entries = entries.into_iter().map(LogEntry::from);
    let entries = entries.filter(|entry| query.tools != Some(false) || !entry.is_tool_traffic);
    let entries: Vec<_> = entries.collect();
    Ok(Json(Entries { count: entries.len(), next, entries }))
}

/// The runs of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Runs {
    /// Each with `id`, `session`, `status`, `usage`, `first_event` (the number of the first event that
    /// it can have), `created_at` and `updated_at`, times in milliseconds.
    #[schema(value_type = Vec<Object>)]
    runs: Vec<RunSummary>,
    count: usize,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunsQuery {
    /// The maximum number of runs, at most 500. Default: 50.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    limit: Option<u64>,
}

/// List the runs of a conversation with their usage, the latest first.
#[utoipa::path(
    get, path = "/sessions/{id}/runs", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"), RunsQuery),
    responses((status = 200, body = Runs), Failures)
)]
pub(crate) async fn runs(
    PathSession { stored, key }: PathSession,
    Query(query): Query<RunsQuery>,
) -> Result<Json<Runs>, ApiError> {
    let runs = stored.store().runs(&key, items(query.limit)).await?;
    Ok(Json(Runs { count: runs.len(), runs }))
}

/// The body of `POST /sessions/{id}/fork`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkRequest {
    /// The id of the new conversation.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")]
    to: String,
    /// The position of the last entry to copy. Default: all.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    until: Option<u64>,
}

/// Copy a conversation, or its beginning, to a new one.
#[utoipa::path(
    post, path = "/sessions/{id}/fork", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")),
    request_body = ForkRequest,
    responses((status = 201, body = Object, description = "The new conversation."), Failures)
)]
pub(crate) async fn fork(
    PathSession { stored, key }: PathSession,
    body: Bytes,
) -> Result<(StatusCode, Json<Session>), ApiError> {
    let ForkRequest { to, until } = read_json(&body)?;
    let to = SessionKey::of_tenant(key.tenant(), to)?;
    let session = stored.store().fork(&key, until.unwrap_or(u64::MAX), &to).await?;
    Ok((StatusCode::CREATED, Json(session)))
}

/// The body of `POST /sessions/{id}/rewind`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RewindRequest {
    /// The position of the last entry that the conversation keeps. 0 is the start.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    to: u64,
}

/// Continue a conversation after an earlier entry.
///
/// The entries in between stay in the log. A conversation with an active run is a conflict.
#[utoipa::path(
    post, path = "/sessions/{id}/rewind", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")),
    request_body = RewindRequest,
    responses((status = 200, body = Object, description = "The conversation."), Failures)
)]
pub(crate) async fn rewind(
    PathSession { stored, key }: PathSession,
    body: Bytes,
) -> Result<Json<Session>, ApiError> {
    let RewindRequest { to } = read_json(&body)?;
    let store = stored.store();
    let session = store.session(&key).await?;
    if to > session.entries {
        return Err(ApiError::invalid(format!(
            "`to` is {to}, and the conversation has {} entries",
            session.entries
        )));
    }
    if let Some(run) = store.active_run(&key).await? {
        return Err(StoreError::Busy(run).into());
    }
    let mut rewind = Append::default().after(session.entries);
    rewind.entries = vec![EntryBody::RewindTo(to)];
    store.append(&key, rewind).await?;
    Ok(Json(store.session(&key).await?))
}

/// Export a conversation as JSON Lines.
#[utoipa::path(
    get, path = "/sessions/{id}/export", tag = "sessions",
    params(("id" = String, Path, description = "The id of the conversation.", pattern = "^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$")),
    responses((status = 200, body = String, content_type = "application/jsonl"), Failures)
)]
pub(crate) async fn export(PathSession { stored, key }: PathSession) -> Result<Response, ApiError> {
    let lines = Conversation::export(&**stored.store(), &key).await?;
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], lines).into_response())
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// The words, all of which the message has.
    q: String,
    /// The maximum number of messages, at most 500. Default: 50.
    #[serde(default, deserialize_with = "query_number")]
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    limit: Option<u64>,
}

/// Found messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct Hits {
    /// Each with `session`, the id of the conversation, and `entry`.
    #[schema(value_type = Vec<Object>)]
    hits: Vec<SearchHit>,
    count: usize,
}

/// Find messages in all conversations, the latest first.
#[utoipa::path(
    get, path = "/search", tag = "sessions", params(SearchQuery),
    responses((status = 200, body = Hits), Failures)
)]
pub(crate) async fn search(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<SearchQuery>,
    caller: Caller,
) -> Result<Json<Hits>, ApiError> {
    let store = shared.stored()?.store();
    let limit = items(query.limit);
    let hits = store.search(caller.tenant(), &query.q, limit).await?;
    Ok(Json(Hits { count: hits.len(), hits }))
}
