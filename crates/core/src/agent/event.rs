use std::sync::Arc;

use serde::Serialize;

use super::RunOutput;
use crate::{
    call::{PendingCall, ToolCall, ToolResult},
    tool::Progress,
    usage::Usage,
};

/// An event of a run. Its JSON is an object with a `type`, such as `text_delta`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// An agent was chosen for the task.
    Routed {
        /// The chosen route. `None` if the task is unclear.
        #[serde(skip_serializing_if = "Option::is_none")]
        route: Option<String>,
        /// The reason for the choice.
        reason: String,
    },
    /// A request to the model started.
    RequestStarted {
        /// The number of the request in this run, from 1.
        request: u32,
    },
    /// The next piece of the text of the reply.
    TextDelta {
        /// The new text.
        text: String,
    },
    /// More reasoning of the reply.
    ReasoningDelta {
        /// The new text.
        text: String,
    },
    /// The reply to a request is complete.
    RequestFinished {
        /// The usage of the request.
        usage: Usage,
    },
    /// The last reply was rejected; its text deltas are not part of the answer. The request is
    /// repeated.
    ReplyRejected {
        /// The reason: the text sent to the model, or the error that truncated the reply.
        problem: String,
    },
    /// A call entered the pipeline.
    ///
    /// A suspended call is [pending](Self::CallPending) next. It starts again after the run is
    /// resumed.
    CallStarted {
        /// The call.
        call: ToolCall,
    },
    /// A running call reported progress.
    CallProgress {
        /// The id of the call.
        call_id: String,
        /// The reported progress.
        progress: Progress,
    },
    /// A call finished.
    CallFinished {
        /// The result.
        result: Arc<ToolResult>,
    },
    /// A call was suspended, before or during its execution.
    CallPending {
        /// The call, and the required decision.
        pending: Box<PendingCall>,
    },
    /// The run ended; the last event.
    Done {
        /// The answer, or the suspended run.
        output: RunOutput,
    },
}
