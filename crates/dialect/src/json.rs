//! The ReAct dialect in JSON. Each reply is one JSON object with a thought, a tool name and the
//! arguments.

pub(crate) mod keys;
mod parser;
mod schema;
mod stream_parser;
mod string_scanner;

use haft_core::{
    Schema, ToolDefinition,
    model::{ChatRequest, ChatResponse, ResponseFormat},
    schema::json_text,
};
use serde_json::{Value, json};

use crate::{
    Dialect, FINISH, Prompt, Reply, StreamParser,
    step::{self, ParsedStep, StepFormat, StepStreamParser},
    thinking::{join_reasoning, split_unopened_thinking},
};
use stream_parser::JsonScanner;

pub use parser::{find_json_object, strip_fence};
pub(crate) use parser::{parse_last_step, parse_step};
pub(crate) use string_scanner::StringScanner;

/// A ReAct dialect for models without function calling. Each reply is one JSON object with a
/// thought, a tool name and the arguments.
///
/// By default, replies are constrained to a JSON schema. The schema has one alternative per tool,
/// and one for a call to [`FINISH`] with the answer. The parser also accepts common deviations:
/// code fences, text around the object, and other key names. Reasoning before the object, in a
/// `<think>` block or before a line with `</think>`, is skipped. A call within a line of text, in a
/// list or in tags is accepted only at the end of the reply, because the text can quote a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonReact {
    is_unconstrained: bool,
}

impl JsonReact {
    /// Creates a dialect that constrains each reply to a JSON schema. The model must support JSON
    /// schemas.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a dialect for models whose replies cannot be constrained to a JSON schema. The
    /// format is described only in the instructions.
    pub fn unconstrained() -> Self {
        Self { is_unconstrained: true }
    }
}

impl Dialect for JsonReact {
    fn name(&self) -> &'static str {
        "json"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let mut request = step::build_request::<Self>(prompt);
        if self.is_unconstrained {
            request.response_format = ResponseFormat::Text;
        }
        request
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        step::parse_reply::<Self>(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        Box::new(StepStreamParser::<Self>::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// Each step is one JSON object.
impl StepFormat for JsonReact {
    const DESCRIPTION: &'static str = "one JSON object and nothing else";
    type Scanner = JsonScanner;

    fn template(thought: &str, tool_name: &str) -> String {
        format!(
            "{{\"{}\": \"{thought}\", \"{}\": \"{tool_name}\", \"{}\": {{its arguments}}}}",
            keys::THOUGHT,
            keys::TOOL_NAME,
            keys::TOOL_ARGS
        )
    }

    fn format_step(thought: &str, tool_name: &str, tool_args: &Value) -> String {
        json_text(&json!({keys::THOUGHT: thought, keys::TOOL_NAME: tool_name, keys::TOOL_ARGS: tool_args}))
    }

    fn parse(text: &str, _is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep> {
        let Some((thinking, text)) = split_unopened_thinking(text) else { return parse_step(text, outputs) };
        let step = parse_step(text, outputs)?;
        Some(ParsedStep { thought: join_reasoning(Some(thinking.to_owned()), step.thought), ..step })
    }

    fn response_format(tools: &[&ToolDefinition]) -> ResponseFormat {
        schema::step_response_format(tools)
    }
}

#[cfg(test)]
mod tests;
