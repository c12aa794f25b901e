//! The tools by which an agent hands a conversation to another.

use std::sync::{Arc, Mutex, PoisonError};

use haft_core::{
    Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolResult, Transcript,
    call::ToolOutcome, export::async_trait, tool::Policy,
};
use serde_json::Value;
use serde_json::json;

use crate::Route;

/// The name of the tool that hands off to an agent.
pub(super) fn tool_name(agent: &str) -> ToolName {
    ToolName::from_foreign(&format!("transfer_to_{agent}"))
}

/// Hands the conversation to one agent.
pub(super) struct Transfer {
    definition: ToolDefinition,
    to: String,
}

impl Transfer {
    pub(super) fn to(route: &Route) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"reason": {"type": "string", "description": "Why, and what is left to do."}},
            "additionalProperties": false,
        });
        // One after the other, so that the first of several is the first of the reply; and again after a crash, since nothing
        // is done until the reply is.
        let policy = Policy { sequential: true, idempotent: true, ..Policy::default() };
        let name = &route.name;
        let description =
            format!("Hands the conversation to {name}, who answers in your place. {}", route.description);
        let definition = ToolDefinition::new(tool_name(name), Schema::object())
            .with_input_schema(schema)
            .with_description(description.trim())
            .with_policy(policy);
        Self { definition, to: name.clone() }
    }
}

#[async_trait]
impl Tool for Transfer {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, _arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        cx.state::<Turn>()?.hand_to(&self.to)?;
        Ok(format!("Handed to {}, who goes on from here.", self.to).into())
    }
}

/// One agent's turn: what its hand-offs know of one another.
#[derive(Clone)]
pub(super) struct Turn {
    /// How often a run may be handed off, and how often this one was.
    limit: u32,
    handed: u32,
    to: Arc<Mutex<Option<String>>>,
}

impl Turn {
    pub(super) fn new(limit: u32, handed: u32) -> Self {
        Self { limit, handed, to: Arc::default() }
    }

    fn hand_to(&self, agent: &str) -> Result<(), ToolError> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &*to {
            return Err(ToolError::Denied(format!("this reply hands the conversation to {first} already")));
        }
        if self.handed >= self.limit {
            return Err(ToolError::Denied(format!(
                "the conversation was handed off {} times for this question, which is the most: answer yourself",
                self.handed
            )));
        }
        *to = Some(agent.to_owned());
        Ok(())
    }
}

/// Why an agent hands off, in its own words.
pub(super) fn reason(from: &str, transcript: &Transcript, result: &ToolResult) -> String {
    let mut calls = transcript.messages().iter().rev().flat_map(|message| message.tool_calls());
    let call = calls.find(|call| call.id == result.call_id);
    let arguments: Option<Value> = call.and_then(|call| serde_json::from_str(&call.arguments).ok());
    match arguments.as_ref().and_then(|arguments| arguments.get("reason")).and_then(Value::as_str) {
        Some(reason) => format!("{from} hands off: {reason}"),
        None => format!("{from} hands off"),
    }
}
