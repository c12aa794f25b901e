//! Hand-off tools, and the messages that record hand-offs in a transcript.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    Message, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult,
    Transcript, call::ToolResponse, export::async_trait, message::MessageBody, schema::SchemaError,
    tool::ToolPolicy,
};
use serde_json::{Value, json};

use super::settings::{Handoff, HandoffInput};
use crate::{
    Run,
    router::Route,
    run::{RunState, hint_message, is_hint},
};

/// Metadata key of the message that records a hand-off. The value is the name of the next agent.
const HANDOFF_TARGET_KEY: &str = "handed_to";

/// Returns the name of the tool that hands off to `agent`.
pub(super) fn tool_name(agent: &str, handoff: &Handoff) -> ToolName {
    let default = || ToolName::sanitize(&format!("transfer_to_{agent}"));
    handoff.custom_tool_name().map_or_else(default, ToolName::sanitize)
}

/// Returns the typed arguments of the hand-off with this `result`. `None` if the hand-off has no
/// typed argument.
pub(super) fn typed_arguments(result: &ToolResult) -> Option<&Value> {
    result.output()?.structured.as_ref()
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
        // The tool is sequential, so that the first hand-off of a reply is used. It is idempotent,
        // because the call only records the target: the hand-off itself follows at the end of the
        // step.
        let policy = ToolPolicy { sequential: true, idempotent: true, ..ToolPolicy::default() };
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

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        if let Some(input) = &self.input {
            (input.check)(&arguments)?;
        }
        cx.state::<HandoffSlot>()?.hand_off_to(&self.to)?;
        let mut output = ToolOutput::from(format!("Handed to {}, who goes on from here.", self.to));
        // The result contains the arguments after their repair, also if the run is resumed by
        // another process before the hand-off.
        output.structured = self.input.as_ref().map(|_| arguments);
        Ok(output.into())
    }
}

/// A slot for the target of the next hand-off. The first hand-off call fills the slot. All hand-off
/// tools of an agent share it, so further hand-offs in the same reply are denied. At a step
/// boundary without a hand-off, the slot is emptied.
#[derive(Clone)]
pub(super) struct HandoffSlot {
    limit: u32,
    /// The number of completed hand-offs in this run.
    count: u32,
    to: Arc<Mutex<Option<String>>>,
}

impl HandoffSlot {
    pub(super) fn new(limit: u32, count: u32) -> Self {
        Self { limit, count, to: Arc::default() }
    }

    /// Empties the slot, so that the next reply can hand off.
    pub(super) fn clear(&self) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn hand_off_to(&self, agent: &str) -> Result<(), ToolError> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &*to {
            return Err(ToolError::Denied(format!("this reply hands the conversation to {first} already")));
        }
        if self.count >= self.limit {
            return Err(ToolError::Denied(format!(
                "the conversation was handed off {} times for this question, which is the most: answer yourself",
                self.count
            )));
        }
        *to = Some(agent.to_owned());
        Ok(())
    }
}

/// Returns the result of the first successful hand-off call in the last step.
///
/// Returns `None` in these cases:
///
/// - There is no such call, or its hand-off is already recorded.
/// - A call to a stop tool succeeded in the same step, and ends the run.
/// - `run` is not at a step boundary, so calls of this step may still be open.
pub(super) fn pending_handoff(run: &Run, handoff_tools: &BTreeSet<String>) -> Option<Arc<ToolResult>> {
    let is_at_boundary = matches!(run.state(), RunState::ReadyToRequest | RunState::Preparing);
    if handoff_tools.is_empty() || !is_at_boundary {
        return None;
    }
    let own = run.transcript().messages().get(run.first_message_index()..).unwrap_or_default();
    let last = own.iter().rposition(|message| !message.tool_calls().is_empty())?;
    let step = own.get(last..).unwrap_or_default();
    if step.iter().any(|message| handoff_target(message).is_some()) {
        return None;
    }
    let results = step.iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) if result.is_success() => Some(result),
        _ => None,
    });
    let stop_on = &run.config().stop_on;
    if results.clone().any(|result| stop_on.contains(&result.name)) {
        return None;
    }
    results.into_iter().find(|result| handoff_tools.contains(&result.name)).cloned()
}

/// Creates the message that announces a hand-off to the model of the next agent. `to` is the name
/// of that agent.
pub(super) fn handoff_note(to: &str, reason: &str) -> Message {
    let message = hint_message(format!("You go on from here: {}.", reason.trim_end_matches('.')));
    let mut metadata = message.metadata().clone();
    metadata.insert(HANDOFF_TARGET_KEY.to_owned(), to.into());
    message.with_metadata(metadata)
}

/// Returns the name of the next agent if `message` records a hand-off, or `None` for other
/// messages.
pub(super) fn handoff_target(message: &Message) -> Option<&str> {
    message.metadata_value(HANDOFF_TARGET_KEY).filter(|_| is_hint(message))?.as_str()
}

/// Returns a sentence with the name `from` of the previous agent and, if given, the typed arguments
/// of the hand-off or its reason. The reason is an argument of the hand-off call, which is found in
/// `transcript` by the call id of `result`.
pub(super) fn handoff_reason(from: &str, transcript: &Transcript, result: &ToolResult) -> String {
    if let Some(arguments) = typed_arguments(result) {
        return format!("{from} hands off: {arguments}");
    }
    let mut calls = transcript.messages().iter().rev().flat_map(|message| message.tool_calls());
    let call = calls.find(|call| call.id == result.call_id);
    let arguments = call.and_then(|call| call.arguments.value().ok());
    match arguments.and_then(|arguments| arguments.get("reason")).and_then(Value::as_str) {
        Some(reason) => format!("{from} hands off: {reason}"),
        None => format!("{from} hands off"),
    }
}
