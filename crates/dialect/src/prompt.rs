//! The content of a request, in a form that is independent of the dialect.

use std::{fmt, sync::Arc};

use haft_core::{
    Message, Schema,
    message::TranscriptView,
    model::{ChatSettings, ToolChoice},
    toolset::ToolList,
};

/// The content of a model request, before a [`Dialect`](crate::Dialect) formats it.
pub struct Prompt<'a> {
    /// The messages of the conversation that are sent to the model.
    pub messages: TranscriptView,
    /// The tools that the model can call.
    pub tools: &'a ToolList,
    /// The system message that precedes the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// The JSON schema of the answer, or `None` if the answer is plain text.
    pub outputs: Option<&'a Schema>,
    /// `true` if the model must answer without a tool call. In this case `tool_choice` is ignored.
    pub must_answer: bool,
    /// The tool choice of the model request. If it names a tool, `tools` contains that tool.
    pub tool_choice: &'a ToolChoice,
    /// The settings of the model request, such as the temperature.
    pub settings: &'a ChatSettings,
}

impl fmt::Debug for Prompt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}
