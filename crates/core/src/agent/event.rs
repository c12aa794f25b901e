use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::RunOutput;
use crate::{
    call::{PendingCall, ToolCall, ToolResult},
    message::HostedCall,
    tool::Progress,
    usage::Usage,
};

/// An event of a run. Events are serialized as JSON objects with a `type` field, for example
/// `"type": "text_delta"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// A router selected an agent, or an agent of a hand-off group took over the conversation. A
    /// hand-off group also emits this event when its first agent starts and when a suspended run is
    /// resumed.
    Routed {
        /// The name of the selected agent. `None` if no route of the router matches the task. In
        /// this case, the fallback agent runs. Without a fallback agent, the answer is a clarifying
        /// question.
        #[serde(skip_serializing_if = "Option::is_none")]
        route: Option<String>,
        /// The reason for the selection, as text.
        reason: String,
    },
    /// A request to the model started.
    RequestStarted {
        /// The number of the model request in this run, counted from 1.
        request: u32,
    },
    /// The next piece of the reply text.
    TextDelta {
        /// A piece of the reply text.
        text: String,
    },
    /// The next piece of the model's reasoning text.
    ReasoningDelta {
        /// A piece of the reasoning text.
        text: String,
    },
    /// The model began to write a tool call. [`CallStarted`](Self::CallStarted) has the same id. It
    /// follows after [`RequestFinished`](Self::RequestFinished), unless the reply or the call is
    /// rejected.
    CallAnnounced {
        /// The id of the call.
        call_id: String,
        /// The name of the tool, as written by the model.
        tool_name: String,
    },
    /// The next piece of the arguments of an [announced](Self::CallAnnounced) call, for display.
    ArgumentsDelta {
        /// The id of the call.
        call_id: String,
        /// A piece of the arguments as JSON text.
        arguments: String,
    },
    /// The structured output received so far. Open strings, lists and objects are closed, and
    /// incomplete numbers are omitted. Each value continues the one before. The last value is the
    /// complete output, before its validation.
    PartialOutput {
        /// The output, or its beginning.
        value: Value,
    },
    /// The provider started a call of a [hosted tool](crate::model::HostedTool).
    HostedCallStarted {
        /// The id of the call, from the provider.
        id: String,
        /// The name of the tool, as in [`HostedCall::tool`].
        tool: String,
    },
    /// The provider finished a call of a [hosted tool](crate::model::HostedTool).
    HostedCallFinished {
        /// The call, with its output if the provider sends it.
        call: HostedCall,
    },
    /// The reply to a model request is complete.
    RequestFinished {
        /// The tokens and the cost of the model request.
        usage: Usage,
    },
    /// The reply to the current model request was rejected, and the request is repeated. The [text
    /// deltas](Self::TextDelta), announced calls and [partial outputs](Self::PartialOutput) of the
    /// rejected reply are not part of the answer.
    ReplyRejected {
        /// The reason for the rejection, as sent to the model. For a malformed or truncated reply,
        /// the reason is the error text, which is not sent to the model. For an empty reply, the
        /// reason is [`ModelError::EmptyResponse`](crate::model::ModelError::EmptyResponse) as
        /// text.
        problem: String,
    },
    /// A tool call was passed to the [pipeline](crate::Pipeline). The tool may start later, if the
    /// call [conflicts](crate::tool::TouchFn) with an earlier call.
    ///
    /// If the call is suspended, [`CallPending`](Self::CallPending) follows. After the run is
    /// resumed with a decision about the call, `CallStarted` is emitted again.
    ///
    /// The calls of a reply start in the order of the transcript. A call that a guardrail blocks is
    /// not passed to the pipeline. Its `CallStarted` and [`CallFinished`](Self::CallFinished) are
    /// emitted before the other calls start.
    CallStarted {
        /// The tool call.
        call: ToolCall,
    },
    /// A running tool call reported its progress.
    CallProgress {
        /// The id of the running call.
        call_id: String,
        /// The progress, as reported by the tool.
        progress: Progress,
    },
    /// An agent that runs inside a call, as a tool, has emitted an event. Its last event,
    /// [`Done`](Self::Done), is left out: [`CallFinished`](Self::CallFinished) or
    /// [`CallPending`](Self::CallPending) of the call follows.
    Nested {
        /// The id of the call.
        call_id: String,
        /// The event. Its call ids are those of the inner run.
        event: Box<RunEvent>,
    },
    /// A tool call succeeded or failed.
    CallFinished {
        /// The result of the finished call.
        result: Arc<ToolResult>,
    },
    /// A tool call was suspended, before or during its execution. Or it was
    /// [postponed](crate::call::PendingKind::Postponed), because it must run after a suspended
    /// call. It then needs no decision, and is not in
    /// [`SuspendedRun::pending`](crate::agent::SuspendedRun::pending).
    CallPending {
        /// The suspended call, with the kind of decision that it waits for.
        pending: Box<PendingCall>,
    },
    /// The run ended with an answer or was suspended. This is the last event.
    Done {
        /// The answer, or the suspended run.
        output: RunOutput,
    },
}
