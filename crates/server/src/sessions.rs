//! The routes of stored conversations.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use haft_core::Timestamp;
use haft_session::{SessionKey, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    server::{Caller, Shared},
};

/// The maximum number of items in a list.
const MAX_ITEMS: u32 = 500;

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    /// The time in milliseconds before which the sessions were written.
    before: Option<i64>,
    limit: Option<u32>,
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let before = query.before.map(Timestamp::from_unix_millis);
    let limit = query.limit.unwrap_or(50).min(MAX_ITEMS);
    let sessions = shared.stored()?.store().sessions(caller.tenant(), before, limit).await?;
    Ok(Json(json!({"sessions": sessions, "count": sessions.len()})))
}

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let (stored, key) = (shared.stored()?, SessionKey::of_tenant(caller.tenant(), id)?);
    let session = stored.store().session(&key).await?;
    let run = stored.store().active_run(&key).await?;
    let mut session = json!(session);
    session["active_run"] = json!(run);
    Ok(Json(session))
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<StatusCode, ApiError> {
    let (stored, key) = (shared.stored()?, SessionKey::of_tenant(caller.tenant(), id)?);
    match stored.store().active_run(&key).await {
        Ok(Some(run)) => stored.cancel(caller.tenant(), &run).await?,
        Ok(None) | Err(StoreError::SessionNotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    stored.store().delete(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
pub(crate) struct MessagesQuery {
    after: Option<u64>,
    limit: Option<u32>,
    /// `false` leaves out tool results, and replies that only call tools.
    tools: Option<bool>,
}

pub(crate) async fn messages(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
    caller: Caller,
) -> Result<Json<Value>, ApiError> {
    let key = SessionKey::of_tenant(caller.tenant(), id)?;
    let limit = query.limit.unwrap_or(100).min(MAX_ITEMS);
    let entries = shared.stored()?.store().entries(&key, query.after.unwrap_or(0), limit).await?;
    let with_tools = query.tools.unwrap_or(true);
    let shown = entries.iter().filter(|entry| with_tools || !entry.is_tool_traffic());
    let entries: Vec<_> = shown
        .map(|entry| {
            let mut shown = json!(entry);
            shown["is_tool_traffic"] = entry.is_tool_traffic().into();
            shown
        })
        .collect();
    Ok(Json(json!({"entries": entries, "count": entries.len()})))
}
