//! What is received: a provider's message or reply, as haft's.

mod call;
mod ending;
mod fold;

use haft_core::{AssistantMessage, ChatResponse, ModelError, ToolCall, Value};
use serde::Deserialize;

use crate::wire::{Completion, WireMessage};

pub(crate) use fold::Fold;

/// Reads a message of a Chat Completions reply: `choices[0].message`.
///
/// Arguments that come as an object, as null or empty are made text, missing and repeated ids are replaced by unique
/// ones, and a list of parts is made text.
///
/// # Examples
///
/// ```
/// use haft_core::json;
///
/// let said = haft_openai::assistant_message(&json!({"role": "assistant", "content": "Hi"}))?;
/// assert_eq!(said.text(), "Hi");
/// # Ok::<(), haft_core::ModelError>(())
/// ```
///
/// # Errors
///
/// Fails with [`ModelError::InvalidResponse`] for what is no such message, such as a whole reply.
pub fn assistant_message(message: &Value) -> Result<AssistantMessage, ModelError> {
    if message.get("choices").is_some() {
        let reason = "it is a whole reply: read it by `response`, or give `choices[0].message` of it";
        return Err(ModelError::InvalidResponse(reason.to_owned()));
    }
    let mut fold = Fold::default();
    fold.add_message(read::<WireMessage>(message)?, true, &mut None)?;
    Ok(fold.into_message())
}

/// Reads the calls of a message of a Chat Completions reply.
///
/// # Examples
///
/// ```
/// use haft_core::{ToolCall, json};
///
/// let message = json!({"role": "assistant", "content": null, "tool_calls": [
///     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"x\":1}"}},
/// ]});
/// assert_eq!(haft_openai::tool_calls(&message)?, [ToolCall::new("call_1", "add", r#"{"x":1}"#)]);
/// # Ok::<(), haft_core::ModelError>(())
/// ```
///
/// # Errors
///
/// The same as [`assistant_message`].
pub fn tool_calls(message: &Value) -> Result<Vec<ToolCall>, ModelError> {
    assistant_message(message).map(|message| message.tool_calls)
}

/// Reads a whole Chat Completions reply that was not streamed.
///
/// # Errors
///
/// Fails with a [`ModelError`] where the reply holds an error, is empty, ends inside a call, or cannot be read.
pub fn response(reply: &Value) -> Result<ChatResponse, ModelError> {
    // Gemini puts an error into a list of one.
    whole(read::<Completion>(reply.get(0).unwrap_or(reply))?)
}

/// Reads the body of a reply that was not streamed.
#[cfg(feature = "client")]
pub(crate) fn response_of_body(body: &[u8]) -> Result<ChatResponse, ModelError> {
    whole(Completion::read(body).map_err(|error| unreadable(&error, body))?)
}

/// The error of JSON that cannot be read: cut, or nonsense.
#[cfg(feature = "client")]
pub(crate) fn unreadable(error: &serde_json::Error, body: &[u8]) -> ModelError {
    if error.is_eof() {
        return ModelError::Truncated { reason: error.to_string(), partial: Box::default() };
    }
    let body = crate::failure::excerpt(&String::from_utf8_lossy(body));
    ModelError::InvalidResponse(format!("{error}: {body}"))
}

fn whole(reply: Completion) -> Result<ChatResponse, ModelError> {
    let has_choices = reply.choices.is_some();
    let mut fold = Fold::default();
    fold.add(reply, true, &mut None)?;
    if has_choices { fold.finish() } else { Err(ModelError::InvalidResponse("it has no choices".into())) }
}

fn read<'a, T: Deserialize<'a>>(value: &'a Value) -> Result<T, ModelError> {
    T::deserialize(value).map_err(|error| ModelError::InvalidResponse(error.to_string()))
}
