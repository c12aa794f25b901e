//! What servers send, read as tolerantly as their habits demand.

mod loose;

use haft_core::{Usage, Value};
use serde::Deserialize;

pub(crate) use loose::Loose;

/// A whole reply, or one chunk of a streamed one: both have the same fields, and servers mix them up.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Completion {
    pub(crate) id: Loose,
    pub(crate) model: Loose,
    /// `None` where the body is no reply at all.
    pub(crate) choices: Option<Vec<Choice>>,
    pub(crate) usage: Option<WireUsage>,
    /// An error in place of a reply, although the status was 200.
    pub(crate) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice {
    pub(crate) index: Option<i64>,
    pub(crate) message: Option<WireMessage>,
    pub(crate) delta: Option<WireMessage>,
    pub(crate) finish_reason: Loose,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireMessage {
    /// Text, null, or a list of parts.
    pub(crate) content: Loose,
    /// What DeepSeek, vLLM and llama.cpp call the reasoning.
    pub(crate) reasoning_content: Loose,
    /// What Ollama and OpenRouter call it.
    pub(crate) reasoning: Loose,
    pub(crate) refusal: Loose,
    pub(crate) tool_calls: Option<Vec<WireCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCall {
    pub(crate) index: Option<i64>,
    pub(crate) id: Loose,
    pub(crate) function: Option<WireFunction>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireFunction {
    pub(crate) name: Loose,
    /// JSON text; some servers send the object itself, or null.
    pub(crate) arguments: Loose,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let cached = wire.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = wire.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Self {
            cached_input_tokens: cached.unwrap_or_default(),
            reasoning_tokens: reasoning.unwrap_or_default(),
            ..Self::of_request(
                wire.prompt_tokens.unwrap_or_default(),
                wire.completion_tokens.unwrap_or_default(),
            )
        }
    }
}
