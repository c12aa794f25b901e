//! Hand-off tools, and the messages that record hand-offs in a transcript.

use haft_core::{
    Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput, Transcript,
    call::ToolResponse, export::async_trait, schema::SchemaError, tool::ToolPolicy,
};
use serde_json::{Value, json};

use super::settings::{Handoff, HandoffInput};
use crate::{router::Route, run::HandoffCall};

/// Returns the name of the tool that hands off to `agent`.
pub(super) fn tool_name(agent: &str, handoff: &Handoff) -> ToolName {
    let default = || ToolName::sanitize(&format!("transfer_to_{agent}"));
    handoff.custom_tool_name().map_or_else(default, ToolName::sanitize)
}

/// A tool that hands off the conversation to the agent `to`.
pub(super) struct TransferTool {
    definition: ToolDefinition,
    to: String,
    input: Option<HandoffInput>,
}

impl TransferTool {
    /// Creates the tool that hands off to the agent of `route`. Fails if the type of its argument
    /// has no usable schema.
    pub(super) fn new(route: &Route, handoff: &Handoff) -> Result<Self, SchemaError> {
        let schema = json!({
            "type": "object",
            "properties": {"reason": {"type": "string", "description": "Why, and what is left to do."}},
            "additionalProperties": false,
        });
        // The tool is idempotent, because the call does nothing: the hand-off itself follows after
        // the calls of the reply.
        let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
        let name = &route.name;
        let default =
            || format!("Hands the conversation to {name}, who answers in your place. {}", route.description);
        let description = handoff.custom_description().map_or_else(default, str::to_owned);
        let input = handoff.typed_input()?;
        let definition = match &input {
            Some(input) => ToolDefinition::new(tool_name(name, handoff), input.schema.clone()),
            None => ToolDefinition::new(tool_name(name, handoff), Schema::object()).with_input_schema(schema),
        };
        let definition = definition.with_description(description.trim()).with_policy(policy);
        Ok(Self { definition, to: name.clone(), input })
    }
}

#[async_trait]
impl Tool for TransferTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, _: &ToolContext) -> Result<ToolResponse, ToolError> {
        if let Some(input) = &self.input {
            (input.check)(&arguments)?;
        }
        let mut output = ToolOutput::from(format!("Handed to {}, who goes on from here.", self.to));
        // The result contains the arguments after their repair, also if the run is resumed by
        // another process before the hand-off.
        output.structured = self.input.as_ref().map(|_| arguments);
        Ok(output.into())
    }
}

/// Returns a sentence with the name `from` of the previous agent and, if given, the typed arguments
/// of the hand-off or its reason. The reason is an argument of the hand-off call, which is found in
/// `transcript`.
pub(super) fn handoff_reason(from: &str, transcript: &Transcript, handoff: &HandoffCall) -> String {
    if let Some(arguments) = &handoff.arguments {
        return format!("{from} hands off: {arguments}");
    }
    let mut calls = transcript.messages().iter().rev().flat_map(|message| message.tool_calls());
    let call = calls.find(|call| call.id == handoff.call_id);
    let arguments = call.and_then(|call| call.arguments.value().ok());
    match arguments.and_then(|arguments| arguments.get("reason")).and_then(Value::as_str) {
        Some(reason) => format!("{from} hands off: {reason}"),
        None => format!("{from} hands off"),
    }
}
