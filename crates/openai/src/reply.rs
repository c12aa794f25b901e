//! Decoding of assistant messages and replies.

mod chat_accumulator;
mod opaque_fields;
mod responses_accumulator;
#[cfg(feature = "client")]
mod stream_accumulator;
#[cfg(all(test, feature = "client"))]
mod tests;

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::{
        ChatResponse, ModelError,
        adapter::{check_names, error_in_place_of_reply, excerpt},
    },
};
use serde::Deserialize;
use serde_json::Value;

use crate::wire::{Completion, WireMessage};

pub(crate) use chat_accumulator::ChatAccumulator;
pub(crate) use opaque_fields::CHAT_DATA_KEY;
pub(crate) use responses_accumulator::{RESPONSES_DATA_KEY, ResponsesAccumulator, TEXT_SEPARATOR};

/// Decodes the message of a Chat Completions reply (`choices[0].message`).
///
/// Deviations of compatible servers are normalized: arguments become JSON text, missing and
/// duplicate call ids are replaced by unique ids, and a list of content parts becomes text.
///
/// # Examples
///
/// ```
/// use serde_json::json;
///
/// let message = haft_openai::decode_message(&json!({"role": "assistant", "content": "Hi"}))?;
/// assert_eq!(message.text(), "Hi");
/// # Ok::<(), haft_core::model::ModelError>(())
/// ```
///
/// # Errors
///
/// Returns [`ModelError::InvalidResponse`] if `message` is malformed, for example if it is a whole
/// reply or has a call without a name, or if it exceeds a [size limit](crate#limits).
pub fn decode_message(message: &Value) -> Result<AssistantMessage, ModelError> {
    if message.get("choices").is_some() {
        let reason = "it is a whole reply: use `decode_response`, or pass its `choices[0].message`";
        return Err(ModelError::InvalidResponse(reason.to_owned()));
    }
    let mut accumulator = ChatAccumulator::default();
    accumulator.add_message(deserialize::<WireMessage>(message)?, true, &mut None)?;
    let message = accumulator.into_message();
    check_names(&message)?;
    Ok(message)
}

/// Decodes the tool calls in the message of a Chat Completions reply.
///
/// # Examples
///
/// ```
/// use haft_core::ToolCall;
/// use serde_json::json;
///
/// let message = json!({"role": "assistant", "content": null, "tool_calls": [
///     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"x\":1}"}},
/// ]});
/// assert_eq!(haft_openai::decode_tool_calls(&message)?, [ToolCall::new("call_1", "add", r#"{"x":1}"#)]);
/// # Ok::<(), haft_core::model::ModelError>(())
/// ```
///
/// # Errors
///
/// Returns the same errors as [`decode_message`].
pub fn decode_tool_calls(message: &Value) -> Result<Vec<ToolCall>, ModelError> {
    decode_message(message).map(|message| message.tool_calls)
}

/// Decodes a non-streamed Chat Completions reply.
///
/// # Errors
///
/// Returns an error if the server sent an error instead of a reply, or if the reply is empty,
/// malformed or incomplete, for example if it ends inside a tool call.
pub fn decode_response(reply: &Value) -> Result<ChatResponse, ModelError> {
    decode_response_with(ChatAccumulator::default(), reply)
}

pub(crate) fn decode_response_with(
    accumulator: ChatAccumulator,
    reply: &Value,
) -> Result<ChatResponse, ModelError> {
    // Gemini sends an error as a list with one element.
    let reply = reply.get(0).unwrap_or(reply);
    let mut completion = deserialize::<Completion>(reply)?;
    if completion.choices.is_none() {
        completion.body = Some(reply.clone());
    }
    build_chat_response(accumulator, completion, || reply.clone())
}

/// Decodes a non-streamed response of the Responses API.
pub(crate) fn decode_responses_body(response: &Value) -> Result<ChatResponse, ModelError> {
    let accumulator = ResponsesAccumulator::default();
    build_responses_reply(accumulator, response.clone())
}

/// Decodes `items`, the items of one reply of the Responses API in a history. The reply may be
/// empty.
pub(crate) fn decode_responses_items(items: Vec<Value>) -> Result<AssistantMessage, ModelError> {
    let mut accumulator = ResponsesAccumulator::default();
    accumulator.add_response_object(serde_json::json!({"output": items}))?;
    let message = accumulator.into_message()?;
    check_names(&message)?;
    Ok(message)
}

/// Builds a response from `reply`, a parsed Chat Completions reply. The function `json` returns the
/// same reply as JSON, and is only called to create an error.
fn build_chat_response(
    mut accumulator: ChatAccumulator,
    reply: Completion,
    json: impl FnOnce() -> Value,
) -> Result<ChatResponse, ModelError> {
    let has_choices = reply.choices.is_some();
    accumulator.add(reply, true, &mut None)?;
    if has_choices { accumulator.finish(&mut None) } else { Err(missing_field_error(&json(), "choices")) }
}

fn build_responses_reply(
    mut accumulator: ResponsesAccumulator,
    response: Value,
) -> Result<ChatResponse, ModelError> {
    let has_output = response.get("output").is_some_and(Value::is_array);
    let other = (!has_output).then(|| response.clone());
    accumulator.add_response_object(response)?;
    other.map_or_else(|| accumulator.finish(&mut None), |other| Err(missing_field_error(&other, "output")))
}

/// Returns the error for `json`, which is not a reply, because its field `missing` is absent or not
/// a list.
fn missing_field_error(json: &Value, missing: &str) -> ModelError {
    if let Some(error) = error_in_place_of_reply(json) {
        return error;
    }
    match json.get(missing) {
        Some(Value::Null) => ModelError::EmptyResponse,
        _ => ModelError::InvalidResponse(format!("it has no {missing}: {}", excerpt(&json.to_string()))),
    }
}

fn deserialize<'a, T: Deserialize<'a>>(value: &'a Value) -> Result<T, ModelError> {
    T::deserialize(value).map_err(|error| ModelError::InvalidResponse(error.to_string()))
}
