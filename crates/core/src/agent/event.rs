use std::sync::Arc;

use serde::Serialize;

use super::RunOutput;
use crate::{
    call::{PendingCall, ToolCall, ToolResult},
    tool::Progress,
    usage::Usage,
};

/// Something that happened in a run. As JSON each has a `type`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// It was decided which agent does the work.
    Routed {
        /// The route; none where it is not clear.
        #[serde(skip_serializing_if = "Option::is_none")]
        route: Option<String>,
        /// Why.
        reason: String,
    },
    /// The model is asked.
    RequestStarted {
        /// Which request of this run, from 1.
        request: u32,
    },
    /// More of the answer.
    TextDelta {
        /// The new text.
        text: String,
    },
    /// More of what the model thinks.
    ThoughtDelta {
        /// The new text.
        text: String,
    },
    /// A request is answered.
    RequestFinished {
        /// What it cost.
        usage: Usage,
    },
    /// The reply of the last request is not taken: what was told of its text is no answer. The model is asked again.
    ReplyRefused {
        /// What is wrong with it: what the model is told, or how the reply broke off.
        problem: String,
    },
    /// A call begins its way. One that must wait is told as [pending](Self::CallPending) next, and begins once more when
    /// the run is resumed.
    CallStarted {
        /// The call.
        call: ToolCall,
    },
    /// A call is under way.
    CallProgress {
        /// The call.
        call_id: String,
        /// How far it is.
        progress: Progress,
    },
    /// A call ended.
    CallFinished {
        /// What came of it.
        result: Arc<ToolResult>,
    },
    /// A call waits: it did not run, or not to its end.
    CallPending {
        /// What it waits for.
        pending: Box<PendingCall>,
    },
    /// The run ended; the last event.
    Done {
        /// How.
        output: RunOutput,
    },
}
