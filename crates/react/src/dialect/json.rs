//! The ReAct dialect in JSON. Each reply is one JSON object with a thought, a tool name and the
//! arguments.

mod format;
mod input_schema;
pub(super) mod key_names;
mod parser;
mod stream_parser;

use haft_core::{
    Schema, ToolDefinition,
    model::{ChatRequest, ChatResponse, ResponseFormat},
    schema::json_text,
};
use serde_json::{Value, json};

use super::{
    Dialect, FINISH, Prompt, StreamParser,
    step::{self, ParsedStep, StepFormat},
    thinking::{join_reasoning, split_unopened_thinking},
};
use crate::dialect::Reply;
use stream_parser::JsonStreamParser;

pub(crate) use parser::{find_json_object, strip_fence};
pub(super) use parser::{parse_last_step, parse_step};
pub(super) use stream_parser::StringScanner;

/// A ReAct dialect for models without function calling. Each reply is one JSON object with a
/// thought, a tool name and the arguments.
///
/// By default, replies are constrained to a JSON schema. The schema has one alternative per tool,
/// and one for a call to [`FINISH`] with the answer. The parser also accepts common deviations:
/// code fences, text around the object, and other key names. Reasoning before the object, in a
/// `<think>` block or before a line with `</think>`, is skipped. A call within a line of text, in a
/// list or in tags is accepted only at the end of the reply, because the text can quote a call.
#[derive(Clone, Copy, Debug)]
pub struct JsonReact {
    is_constrained: bool,
}

/// The default is [`JsonReact::new`].
impl Default for JsonReact {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonReact {
    /// Creates a dialect that constrains each reply to a JSON schema. The model must support JSON
    /// schemas.
    pub fn new() -> Self {
        Self { is_constrained: true }
    }

    /// Creates a dialect for models whose replies cannot be constrained to a JSON schema. The
    /// format is described only in the instructions.
    pub fn unconstrained() -> Self {
        Self { is_constrained: false }
    }
}

impl Dialect for JsonReact {
    fn name(&self) -> &'static str {
        "json"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let mut request = step::build_request::<JsonFormat>(prompt);
        if !self.is_constrained {
            request.response_format = ResponseFormat::Text;
        }
        request
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        step::parse_reply::<JsonFormat>(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        Box::new(JsonStreamParser::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// The [`StepFormat`] of [`JsonReact`]: each step is one JSON object.
struct JsonFormat;

impl StepFormat for JsonFormat {
    const DESCRIPTION: &'static str = "one JSON object and nothing else";

    fn template(thought: &str, tool_name: &str) -> String {
        format!(
            "{{\"{}\": \"{thought}\", \"{}\": \"{tool_name}\", \"{}\": {{its arguments}}}}",
            key::THOUGHT,
            key::TOOL_NAME,
            key::TOOL_ARGS
        )
    }

    fn format_step(thought: &str, tool_name: &str, tool_args: &Value) -> String {
        json_text(&json!({key::THOUGHT: thought, key::TOOL_NAME: tool_name, key::TOOL_ARGS: tool_args}))
    }

    fn parse(text: &str, _is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep> {
        let Some((thinking, text)) = split_unopened_thinking(text) else { return parse_step(text, outputs) };
        let step = parse_step(text, outputs)?;
        Some(ParsedStep { thought: join_reasoning(Some(thinking.to_owned()), step.thought), ..step })
    }

    fn response_format(tools: &[&ToolDefinition]) -> ResponseFormat {
        format::step_response_format(tools)
    }
}

/// The keys of a step in its JSON form.
mod key {
    pub(super) const THOUGHT: &str = "thought";
    pub(super) const TOOL_NAME: &str = "tool_name";
    pub(super) const TOOL_ARGS: &str = "tool_args";
}

#[cfg(test)]
mod tests;
