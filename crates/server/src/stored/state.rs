//! The stored state of a run.

use std::sync::Arc;

use haft_core::{Message, Timestamp, Transcript, call::PendingCall, tool::Principal};
use haft_react::{
    Run,
    run::{Delivery, DetachedRun},
};
use haft_session::{StoreError, StoredRun};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Returns the key of the decision about `pending`. A call that waits again, for example because its
/// tool has changed, has another key.
pub(super) fn key_of(pending: &PendingCall) -> String {
    let text = serde_json::to_string(pending).unwrap_or_default();
    let hash = Sha256::digest(text.as_bytes());
    let digits: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{digits}", pending.call.id)
}

/// Returns `true` if `key` is the key of a decision about the call `call`.
pub(super) fn is_key_of(key: &str, call: &str) -> bool {
    key.rsplit_once('#').is_some_and(|(id, _)| id == call)
}

/// Returns the messages of a run that is over, from the index `saved` on, followed by the messages
/// that it has not received.
pub(super) fn ended_messages(run: &Run, saved: usize) -> Vec<Arc<Message>> {
    let new = run.transcript().messages().get(saved..).unwrap_or_default().iter().cloned();
    let rest = run.undelivered_messages().map(|(message, _)| Arc::new(message.clone()));
    new.chain(rest).collect()
}

/// Returns the event of messages that a run has received, and that wait for their delivery.
pub(super) fn received_event(messages: &[Message], delivery: Delivery) -> Value {
    json!({"type": "messages_received", "messages": messages, "delivery": delivery})
}

/// The stored state of a run.
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedState {
    run: DetachedRun,
    /// The principal that the run acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<Principal>,
    /// The reason of the failure, for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn state_of(run: &Run, principal: Option<&Principal>) -> Result<Value, StoreError> {
    failed_state_of(run, principal, None)
}

/// Returns the state of a run that has failed for the reason `error`.
pub(super) fn failed_state_of(
    run: &Run,
    principal: Option<&Principal>,
    error: Option<String>,
) -> Result<Value, StoreError> {
    let state = SavedState { run: run.detached(), principal: principal.cloned(), error };
    serde_json::to_value(state).map_err(|error| StoreError::Unreadable { what: "run", source: error.into() })
}

/// Restores a run and its principal.
pub(crate) fn load(stored: StoredRun) -> Result<(Run, Option<Principal>), StoreError> {
    let unreadable = |source| StoreError::Unreadable { what: "run", source };
    let state: SavedState = serde_json::from_value(stored.state).map_err(|error| unreadable(error.into()))?;
    // A run that is over can be followed by messages that it has not received.
    let transcript = match stored.status.is_over() {
        true => stored.transcript.messages().iter().take(state.run.message_count()).cloned().collect(),
        false => stored.transcript.messages().to_vec(),
    };
    let mut own = Transcript::new();
    own.extend(transcript);
    let run = Run::from_detached(state.run, own).map_err(|error| unreadable(error.into()))?;
    Ok((run, state.principal))
}

/// Returns the reason of the failure of a run.
pub(crate) fn failure_of(state: &Value) -> Option<String> {
    state["error"].as_str().map(str::to_owned)
}

/// Returns a new id of a run.
pub(super) fn new_id() -> String {
    let mut bytes = [0_u8; 12];
    // Without randomness, the time still makes ids of one process unique.
    if getrandom::fill(&mut bytes).is_err() {
        bytes[..8].copy_from_slice(&Timestamp::now().unix_millis().to_be_bytes());
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("run_{digits}")
}
