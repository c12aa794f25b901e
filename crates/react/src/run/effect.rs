use std::sync::Arc;

use haft_core::{
    Message, Timestamp, ToolCall,
    agent::RunAnswer,
    call::{PendingCall, ResumedCalls},
    message::View,
    model::{ChatRequest, ChatSettings, ToolChoice},
    toolset::ToolList,
};

use super::Output;
use crate::Dialect;

/// What a run is lent at each step: all that cannot be saved with it.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The tools on offer now.
    pub tools: &'a ToolList,
    /// How the model is spoken to.
    pub dialect: &'a dyn Dialect,
    /// What the model is told before the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// Whether the model may, must or must not call in the next request. `None` is what the [run](super::Run::tool_choice) says.
    pub tool_choice: Option<&'a ToolChoice>,
    /// How the next reply is made. `None` is as the run's [configuration](super::RunConfig::settings) says.
    pub settings: Option<&'a ChatSettings>,
    /// The time, for what is added to the transcript.
    pub now: Timestamp,
}

impl<'a> Step<'a> {
    /// Lends tools, dialect and time, and nothing else.
    pub fn new(tools: &'a ToolList, dialect: &'a dyn Dialect, now: Timestamp) -> Self {
        Self { tools, dialect, instructions: None, tool_choice: None, settings: None, now }
    }
}

/// What a run wants done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// Ask the model, and tell [`Run::on_chat`](super::Run::on_chat) what it replied.
    Chat(Box<ChatRequest>),
    /// Make these calls, and tell [`Run::on_result`](super::Run::on_result) or
    /// [`Run::on_pending`](super::Run::on_pending) of each what came of it, in any order.
    Call(CallBatch),
    /// There is too much for the model: summarise this part of the conversation, and tell
    /// [`Run::on_compact`](super::Run::on_compact) the summary.
    Compact(View),
    /// Check this answer, and tell [`Run::on_check`](super::Run::on_check) what became of it.
    Check(Box<Output>),
    /// Wait until [`Run::on_answer`](super::Run::on_answer) was told of at least one of these.
    Wait(Vec<PendingCall>),
    /// Nothing more: this is the answer.
    Done(Box<RunAnswer>),
}

/// Calls that are handed out together, in the order in which the model asked for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallBatch {
    /// The calls.
    pub calls: Vec<ToolCall>,
    /// Those of them that waited and go on.
    pub resumed: ResumedCalls,
}
