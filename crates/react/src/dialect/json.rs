//! ReAct as JSON: each reply is one object with a thought, the name of a tool and its arguments.

mod embed;
mod example;
mod listen;
mod offer;
mod read;
mod render;

use std::sync::Arc;

use haft_core::{ChatRequest, ChatResponse, ModelProfile, ResponseFormat, Schema};

use super::{Dialect, FINISH, Listener, Prompt};
use crate::Reply;
use listen::JsonListener;
use offer::Offer;

pub(crate) use read::json_object;

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

    /// Speaks to a model of this profile: [constrained](Self::new) where it takes a schema, else
    /// [unconstrained](Self::unconstrained).
    pub fn for_model(profile: &ModelProfile) -> Self {
        Self { constrained: profile.json_schema }
    }
}

impl Dialect for JsonReact {
    fn name(&self) -> &'static str {
        "json"
    }

    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let offer = Offer::of(prompt);
        let response_format = match (self.constrained, prompt.must_answer) {
            (false, _) => ResponseFormat::Text,
            (true, false) => offer.any_step.clone(),
            (true, true) => offer.finish_step.clone(),
        };
        ChatRequest {
            instructions: Some(Arc::clone(&offer.system)),
            messages: prompt.messages.iter().map(render::message).collect(),
            response_format,
            settings: prompt.settings.clone(),
            ..ChatRequest::default()
        }
    }

    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        read::reply(response, outputs)
    }

    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener> {
        Box::new(JsonListener::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// The keys of a step.
mod key {
    pub(super) const THOUGHT: &str = "thought";
    pub(super) const TOOL_NAME: &str = "tool_name";
    pub(super) const TOOL_ARGS: &str = "tool_args";
    pub(super) const ANSWER: &str = "answer";
}

#[cfg(test)]
mod tests;
