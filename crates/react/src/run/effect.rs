use std::{fmt, sync::Arc};

use haft_core::{
    Message, Timestamp, ToolCall,
    agent::RunAnswer,
    call::{PendingCall, ResumedCalls},
    message::View,
    model::{ChatRequest, ChatSettings, ToolChoice},
    toolset::ToolList,
};

use super::{Output, Resolver};
use crate::Dialect;

/// The inputs of a step, which are not saved with the run.
///
/// Create one with [`new`](Self::new), then set the fields that differ.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The tools that the model can call.
    pub tools: &'a ToolList,
    /// The dialect of the model.
    pub dialect: &'a dyn Dialect,
    /// The system message before the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// The tool choice of the next request. Default: that of the [run](super::Run::tool_choice).
    pub tool_choice: Option<&'a ToolChoice>,
    /// The settings of the next request. Default: those of the
    /// [configuration](super::RunConfig::settings).
    pub settings: Option<&'a ChatSettings>,
    /// Resolves references to results of [added calls](super::Run::add_calls). Default: none.
    pub resolver: Option<&'a dyn Resolver>,
    /// The current time, for new messages and the time limit.
    pub now: Timestamp,
}

impl<'a> Step<'a> {
    /// Creates the inputs of a step without instructions and overrides.
    pub fn new(tools: &'a ToolList, dialect: &'a dyn Dialect, now: Timestamp) -> Self {
        Self { tools, dialect, instructions: None, tool_choice: None, settings: None, resolver: None, now }
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("tools", &self.tools)
            .field("dialect", &self.dialect.name())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The next thing that a driver does for a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// List the tools, run the hooks, and pass the results to the next call of
    /// [`Run::next`](super::Run::next).
    ///
    /// This is the step boundary: all calls have results, and messages can be
    /// [appended](super::Run::append).
    Prepare,
    /// Send this request, and report the reply with [`Run::on_chat`](super::Run::on_chat).
    Chat(Box<ChatRequest>),
    /// Execute these calls. Report the outcome of each with
    /// [`Run::on_result`](super::Run::on_result) or [`Run::on_pending`](super::Run::on_pending), in
    /// any order.
    Call(CallBatch),
    /// The context is too long: summarize this part of the conversation, and report the summary
    /// with [`Run::on_compact`](super::Run::on_compact).
    Compact(View),
    /// Validate this output, and report the verdict with [`Run::on_check`](super::Run::on_check).
    Check(Box<Output>),
    /// Wait until at least one of these calls has a decision, reported with
    /// [`Run::on_decision`](super::Run::on_decision).
    Wait(Vec<PendingCall>),
    /// The run is finished, with this answer.
    Done(Box<RunAnswer>),
}

/// Calls that are executed together, in the order in which the model made them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallBatch {
    /// The calls.
    pub calls: Vec<ToolCall>,
    /// The decisions for the calls that were suspended.
    pub resumed: ResumedCalls,
}
