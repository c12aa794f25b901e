use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::PendingCall;

/// A run that waits, as data: it can be saved, and go on in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// What is waited for.
    pub pending: Vec<PendingCall>,
    /// What the agent needs to go on. Only the agent that wrote it reads it.
    pub state: Value,
}
