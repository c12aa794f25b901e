//! Lenient wire types for replies. Compatible servers deviate from OpenAI's format in nearly every
//! field.
//!
//! Unknown fields are ignored, and missing fields have defaults. The derived `Deserialize` rejects
//! JSON with duplicate keys. Such JSON is parsed again through [`Value`], which keeps the last
//! value of a duplicate key.

#[cfg(feature = "client")]
mod event;
#[cfg(feature = "client")]
mod invalid_items;
mod lenient_value;
#[cfg(all(test, feature = "client"))]
mod tests;
mod usage;
mod wire_calls;

use std::mem;

use haft_core::{model::CallPiece, usage::Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::model::adapter::{contains_error, surrogates};

#[cfg(feature = "client")]
pub(crate) use event::ResponsesEvent;
pub(crate) use lenient_value::{LenientObject, LenientValue};
pub(crate) use usage::{WireUsage, merge_usage, parse_usage};
use wire_calls::WireCalls;

/// A whole Chat Completions reply, or a chunk of a stream. Both have the same type, because some
/// servers send a chunk in place of a reply, or a reply in place of a chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Completion {
    pub(crate) id: LenientValue,
    pub(crate) model: LenientValue,
    /// The choices of the reply. `None` if the body is not a reply, for example an error.
    pub(crate) choices: Option<Vec<Choice>>,
    usage: LenientObject<WireUsage>,
    /// Groq sends the usage of a stream in this field.
    x_groq: LenientObject<GroqFields>,
    error: LenientValue,
    /// The error code. Some servers send the code in this field if `error` is a string.
    code: LenientValue,
    #[serde(rename = "type")]
    kind: LenientValue,
    /// The error message, from servers that send neither `error` nor `choices`.
    message: LenientValue,
    detail: LenientValue,
    /// The whole body, if it has no `choices`. The error of a gateway can be in any field.
    #[serde(skip)]
    pub(crate) body: Option<Value>,
    /// `true` if strings may contain private-use characters in place of lone surrogates: see
    /// [`SurrogateJoiner`](surrogates::SurrogateJoiner).
    #[serde(skip)]
    pub(crate) has_stand_ins: bool,
}

impl Completion {
    /// Parses a reply or a chunk. A list is also accepted, because Gemini sends an error as a list
    /// with one element.
    #[cfg(feature = "client")]
    pub(crate) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (mut reply, has_stand_ins) = surrogates::parse_with_stand_ins(data, |json| {
            let mut reply = Self::read_json(json)?;
            if reply.choices.is_none() {
                reply.body = serde_json::from_slice(json).ok();
            }
            Ok(reply)
        })?;
        reply.has_stand_ins = has_stand_ins;
        Ok(reply)
    }

    #[cfg(feature = "client")]
    fn read_json(data: &[u8]) -> serde_json::Result<Self> {
        if data.trim_ascii_start().first() == Some(&b'[') {
            let list: Vec<Self> = serde_json::from_slice(data)?;
            return Ok(list.into_iter().next().unwrap_or_default());
        }
        // Validating the whole text as UTF-8 once is faster than validating each string.
        let read = match str::from_utf8(data) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(data),
        };
        read.or_else(|error| {
            // `Value` accepts duplicate keys, and `without_invalid_items` removes values of the
            // wrong type.
            let value: Option<Value> = serde_json::from_slice(data).ok();
            value
                .and_then(|value| Self::deserialize(invalid_items::without_invalid_items(value)).ok())
                .ok_or(error)
        })
    }

    /// Removes and returns the error of a reply with HTTP status 200. `None` if there is no error,
    /// or if the field `error` is empty, as in the successful replies of some servers.
    ///
    /// If `whole` is `true`, a body with only a `message` is also an error.
    pub(crate) fn take_error(&mut self, whole: bool) -> Option<Value> {
        let mut error = self.take_any_error(whole)?;
        if self.has_stand_ins {
            surrogates::join_surrogates(&mut error);
        }
        Some(error)
    }

    fn take_any_error(&mut self, whole: bool) -> Option<Value> {
        let error = self.take_error_field(whole);
        let body = self.body.take();
        match error {
            Some(error) => Some(body.unwrap_or(error)),
            None => body.filter(contains_error),
        }
    }

    /// Removes and returns the error in the known fields.
    fn take_error_field(&mut self, whole: bool) -> Option<Value> {
        match mem::take(&mut self.error) {
            LenientValue::Text(text) if !text.is_empty() => {
                let (code, kind) = (mem::take(&mut self.code), mem::take(&mut self.kind));
                Some(json!({"message": text, "code": code.into_text(), "type": kind.into_text()}))
            }
            LenientValue::Json(error) if !is_no_error(&error) => Some(*error),
            LenientValue::Number(error) if error.as_i64() != Some(0) => Some(Value::Number(error)),
            _ if self.choices.is_none() => {
                let detail = mem::take(&mut self.detail).into_non_empty();
                let message = mem::take(&mut self.message).into_non_empty();
                let (code, kind) =
                    (mem::take(&mut self.code).into_text(), mem::take(&mut self.kind).into_text());
                // In a stream, a `message` without another error field may be a progress report, so
                // it is ignored.
                let is_error = whole || detail.is_some() || code.is_some() || kind.is_some();
                let message = message.or(detail).filter(|_| is_error)?;
                Some(json!({"message": message, "code": code, "type": kind}))
            }
            _ => None,
        }
    }

    /// Removes and returns the usage. `None` if it is missing or its numbers are invalid.
    pub(crate) fn take_usage(&mut self) -> Option<Usage> {
        let choices = self.choices.iter_mut().flatten();
        let usage = self.usage.take().or_else(|| self.x_groq.take()?.usage.take());
        usage.or_else(|| choices.into_iter().find_map(|choice| choice.usage.take()))?.into_usage()
    }
}

/// Returns `true` if `error` is a value that servers also send on success: `false`, `{}`, or `[]`
/// (from PHP).
fn is_no_error(error: &Value) -> bool {
    match error {
        Value::Bool(is_one) => !is_one,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroqFields {
    usage: LenientObject<WireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice {
    pub(crate) index: LenientValue,
    pub(crate) message: LenientObject<WireMessage>,
    pub(crate) delta: LenientObject<WireMessage>,
    pub(crate) finish_reason: LenientValue,
    /// OpenRouter sends the error of a choice in this field.
    error: LenientValue,
    /// Moonshot sends the usage of a stream in this field.
    usage: LenientObject<WireUsage>,
}

impl Choice {
    /// Returns the index of the choice, or 0 if it is missing.
    pub(crate) fn index_or_zero(&self) -> i64 {
        self.index.to_number().unwrap_or(0)
    }

    pub(crate) fn take_error(&mut self) -> Option<Value> {
        match mem::take(&mut self.error) {
            LenientValue::Text(error) if !error.is_empty() => Some(error.into()),
            LenientValue::Json(error) if !is_no_error(&error) => Some(*error),
            _ => None,
        }
    }

    /// Removes everything from the message and the delta, except for the calls.
    pub(crate) fn keep_only_calls(&mut self) {
        for message in self.message.as_mut().into_iter().chain(self.delta.as_mut()) {
            let tool_calls = mem::take(&mut message.tool_calls);
            let function_call = mem::take(&mut message.function_call);
            *message = WireMessage { tool_calls, function_call, ..WireMessage::default() };
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireMessage {
    /// The content: a string, null, or a list of parts.
    pub(crate) content: LenientValue,
    /// The reasoning, as sent by DeepSeek, llama.cpp and older versions of vLLM.
    pub(crate) reasoning_content: LenientValue,
    /// The reasoning, as sent by Ollama, OpenRouter and newer versions of vLLM.
    pub(crate) reasoning: LenientValue,
    pub(crate) refusal: LenientValue,
    /// Reasoning blocks from OpenRouter, which must be sent back unchanged.
    pub(crate) reasoning_details: LenientValue,
    /// Reasoning blocks from gateways to Anthropic, which must be sent back unchanged.
    pub(crate) thinking_blocks: LenientValue,
    /// Extension fields from Gemini, such as a thought signature.
    pub(crate) extra_content: LenientValue,
    pub(crate) tool_calls: WireCalls,
    /// A single call, in the deprecated field that `tool_calls` has replaced. Some servers still
    /// send this field.
    pub(crate) function_call: LenientObject<WireFunction>,
    /// The speech output of an audio model. Only its transcript is used.
    pub(crate) audio: LenientObject<WireAudio>,
}

impl WireMessage {
    /// Removes and returns the `tool_calls`, or else the `function_call` as a single call.
    pub(crate) fn take_calls(&mut self) -> impl Iterator<Item = WireCall> + use<> {
        let calls = self.tool_calls.take();
        let older = self.function_call.take().filter(|_| calls.is_empty());
        // The deprecated field holds one call, so all pieces have the same index.
        let older = older.map(|function| {
            let index = LenientValue::Number(0.into());
            WireCall { index, function: Some(*function), ..WireCall::default() }
        });
        calls.into_iter().chain(older)
    }

    /// Returns `true` if Gemini has marked the content as reasoning.
    pub(crate) fn is_thought(&self) -> bool {
        match &self.extra_content {
            LenientValue::Json(extra) => extra.pointer("/google/thought").is_some_and(|it| it == true),
            _ => false,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireAudio {
    pub(crate) transcript: LenientValue,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCall {
    pub(crate) index: LenientValue,
    pub(crate) id: LenientValue,
    pub(crate) extra_content: Option<Box<Value>>,
    pub(crate) function: Option<WireFunction>,
}

impl WireCall {
    /// Returns the piece of the call, and the opaque data that is sent back with it.
    pub(crate) fn into_piece(self) -> (CallPiece, Option<Value>) {
        let function = self.function.unwrap_or_default();
        let piece = CallPiece {
            index: self.index.to_number(),
            id: self.id.into_non_empty(),
            name: function.name.into_non_empty(),
            arguments: function.arguments.into_text().unwrap_or_default(),
        };
        (piece, self.extra_content.map(|extra| *extra).filter(|extra| !extra.is_null()))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireFunction {
    pub(crate) name: LenientValue,
    /// The arguments as JSON text. Some servers send the JSON object itself, or null.
    pub(crate) arguments: LenientValue,
}
