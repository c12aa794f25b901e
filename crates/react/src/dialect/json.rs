//! ReAct as JSON: each reply is one object with a thought, the name of a tool and its arguments.

mod embed;
mod format;
mod listen;
mod read;

use haft_core::{
    Schema, ToolDefinition,
    model::{ChatRequest, ChatResponse, ResponseFormat},
};
use serde_json::Value;
use serde_json::json;

use super::{
    Dialect, FINISH, Listener, Prompt,
    step::{self, Form, Step},
};
use crate::dialect::Reply;
use listen::JsonListener;

pub(super) use listen::Strings;
pub(crate) use read::json_object;
pub(super) use read::step as read_step;

/// Thought, tool and arguments as one JSON object a reply, for models without function calling.
///
/// The reply is constrained to a schema with one alternative for each tool, and [`FINISH`] with the answer, where
/// the model can be constrained. What a model writes all the same, such as code fences or words around the object, is
/// tolerated.
#[derive(Clone, Copy, Debug)]
pub struct JsonReact {
    constrained: bool,
}

/// For a model that can be constrained to a schema.
impl Default for JsonReact {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonReact {
    /// Speaks to a model that can be constrained to a schema.
    pub fn new() -> Self {
        Self { constrained: true }
    }

    /// Speaks to a model that takes no schema: only words ask for the form.
    pub fn unconstrained() -> Self {
        Self { constrained: false }
    }
}

impl Dialect for JsonReact {
    fn name(&self) -> &'static str {
        "json"
    }

    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let mut request = step::request::<Json>(prompt);
        if !self.constrained {
            request.response_format = ResponseFormat::Text;
        }
        request
    }

    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        step::fold::<Json>(response, outputs)
    }

    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener> {
        Box::new(JsonListener::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// A step as one JSON object.
struct Json;

impl Form for Json {
    const WRITTEN: &'static str = "one JSON object and nothing else";

    fn shape(thought: &str, tool_name: &str) -> String {
        format!(
            "{{\"{}\": \"{thought}\", \"{}\": \"{tool_name}\", \"{}\": {{its arguments}}}}",
            key::THOUGHT,
            key::TOOL_NAME,
            key::TOOL_ARGS
        )
    }

    fn write(thought: &str, tool_name: &str, tool_args: &Value) -> String {
        json!({key::THOUGHT: thought, key::TOOL_NAME: tool_name, key::TOOL_ARGS: tool_args}).to_string()
    }

    fn read(text: &str, _is_whole: bool, outputs: Option<&Schema>) -> Option<Step> {
        read::step(text, outputs)
    }

    fn format(offered: &[&ToolDefinition]) -> ResponseFormat {
        format::step_of(offered)
    }
}

/// The keys of a step.
mod key {
    pub(super) const THOUGHT: &str = "thought";
    pub(super) const TOOL_NAME: &str = "tool_name";
    pub(super) const TOOL_ARGS: &str = "tool_args";
}

#[cfg(test)]
mod tests;
