use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    message::{Message, View},
    pipeline::ToolList,
    schema::Schema,
    tool::ToolName,
};

/// A request for the next message. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ChatRequest {
    /// What comes before the conversation, and is not part of it.
    pub instructions: Option<Arc<Message>>,
    /// The conversation, as the model is to see it.
    pub messages: View,
    /// The tools on offer; empty for none.
    pub tools: ToolList,
    /// Whether the model may, must or must not call.
    pub tool_choice: ToolChoice,
    /// What the text of the reply must look like.
    pub response_format: ResponseFormat,
    /// How the reply is made.
    pub settings: ChatSettings,
}

impl ChatRequest {
    /// Asks for the next message of a conversation.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Offers tools.
    #[must_use]
    pub fn with_tools(mut self, tools: ToolList) -> Self {
        self.tools = tools;
        self
    }

    /// The instructions, then the messages.
    pub fn all_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.instructions.iter().chain(self.messages.iter())
    }
}

/// Whether the model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every choice")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must answer without a call.
    None,
    /// It must call at least one tool.
    Required,
    /// It must call this tool.
    Tool(ToolName),
}

/// What the text of a reply must look like.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every format")]
pub enum ResponseFormat {
    /// Anything.
    #[default]
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON of this schema.
    JsonSchema {
        /// What the schema is called where a provider wants a name: `^[A-Za-z0-9_-]{1,64}$`.
        name: ToolName,
        /// What the JSON must look like.
        schema: Schema,
    },
}

/// How a reply is made. What is `None` is left to the model or its server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// How freely tokens are chosen, from 0, always the likeliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Only tokens of the likeliest part of this size are chosen, above 0 and up to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most tokens of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts before which the reply ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Makes the same request give the same reply, as far as the model can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether one reply may ask for several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
}
