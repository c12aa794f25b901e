//! What servers send, read as tolerantly as their habits demand.

#[cfg(feature = "client")]
mod chunks;
#[cfg(feature = "client")]
mod event;
mod fields;
pub(crate) mod half;
#[cfg(feature = "client")]
mod lenient;
mod lists;
mod loose;
mod usage;

use std::mem;

use haft_core::usage::Usage;
#[cfg(feature = "client")]
use serde::Deserialize as _;
use serde_json::{Value, json};

#[cfg(feature = "client")]
pub(crate) use chunks::{Chunk, Chunks, Part, Said};
#[cfg(feature = "client")]
pub(crate) use event::Event;
use fields::object;
pub(crate) use half::Half;
use lists::WireCalls;
pub(crate) use loose::{Loose, Object};
pub(crate) use usage::{WireUsage, later, usage_of};

object! {
    /// A whole reply, or one chunk of a streamed one: both have the same fields, and servers mix them up.
    pub(crate) struct Completion {
        pub(crate) id: Loose,
        pub(crate) model: Loose,
        /// `None` where the body is no reply at all.
        pub(crate) choices: Option<Vec<Choice>>,
        usage: Object<WireUsage>,
        /// Where Groq says in a stream what it cost.
        x_groq: Object<Groq>,
        error: Loose,
        /// What some servers put beside an error that is only text.
        code: Loose,
        kind = "type": Loose,
        /// What others say in place of an error, and of choices.
        message: Loose,
        detail: Loose,
        @ /// Whether there may be halves of characters in it, for a [`Half`].
        pub(crate) is_mended: bool,
    }
}

impl Completion {
    /// Reads a reply or a chunk. Gemini puts an error into a list of one.
    #[cfg(feature = "client")]
    pub(crate) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (mut reply, is_mended) = half::read(data, Self::read_json)?;
        reply.is_mended = is_mended;
        Ok(reply)
    }

    #[cfg(feature = "client")]
    fn read_json(data: &[u8]) -> serde_json::Result<Self> {
        if data.trim_ascii_start().first() == Some(&b'[') {
            let list: Vec<Self> = serde_json::from_slice(data)?;
            return Ok(list.into_iter().next().unwrap_or_default());
        }
        // That it is UTF-8 is found out faster for all of it than for each text.
        let read = match str::from_utf8(data) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(data),
        };
        read.or_else(|error| {
            // What stands in the place of something else is left out.
            let value: Option<Value> = serde_json::from_slice(data).ok();
            value.and_then(|value| Self::deserialize(lenient::mended(value)).ok()).ok_or(error)
        })
    }

    /// The error in place of a reply, although the status was 200. Some servers send an empty one beside a good reply.
    ///
    /// A whole reply of which only a message is there is an error, too.
    pub(crate) fn take_error(&mut self, whole: bool) -> Option<Value> {
        let mut error = self.take_any_error(whole)?;
        if self.is_mended {
            half::make_whole(&mut error);
        }
        Some(error)
    }

    fn take_any_error(&mut self, whole: bool) -> Option<Value> {
        match mem::take(&mut self.error) {
            Loose::Text(text) if !text.is_empty() => {
                let (code, kind) = (mem::take(&mut self.code), mem::take(&mut self.kind));
                Some(json!({"message": text, "code": code.into_text(), "type": kind.into_text()}))
            }
            Loose::Json(error) if !is_none(&error) => Some(*error),
            Loose::Number(error) if error.as_i64() != Some(0) => Some(Value::Number(error)),
            _ if self.choices.is_none() => {
                let detail = mem::take(&mut self.detail).into_filled();
                let message = mem::take(&mut self.message).into_filled();
                let (code, kind) =
                    (mem::take(&mut self.code).into_text(), mem::take(&mut self.kind).into_text());
                // In the middle of a stream a message may be a word on how far it is.
                let is_error = whole || detail.is_some() || code.is_some() || kind.is_some();
                let message = message.or(detail).filter(|_| is_error)?;
                Some(json!({"message": message, "code": code, "type": kind}))
            }
            _ => None,
        }
    }

    /// What the reply cost; `None` where the numbers make no sense, too.
    pub(crate) fn take_usage(&mut self) -> Option<Usage> {
        let choices = self.choices.iter_mut().flatten();
        let usage = self.usage.take().or_else(|| self.x_groq.take()?.usage.take());
        usage.or_else(|| choices.into_iter().find_map(|choice| choice.usage.take()))?.into_usage()
    }
}

/// Whether it stands for no error: PHP writes `[]` where there is none.
fn is_none(error: &Value) -> bool {
    match error {
        Value::Bool(is_one) => !is_one,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

object! {
    struct Groq {
        usage: Object<WireUsage>,
    }
}

object! {
    pub(crate) struct Choice {
        pub(crate) index: Loose,
        /// In a box, as what else is rare: what is read is moved often.
        pub(crate) message: Option<Box<WireMessage>>,
        pub(crate) delta: Option<Box<WireMessage>>,
        pub(crate) finish_reason: Loose,
        /// What went wrong with it, where OpenRouter says so.
        error: Loose,
        /// Where Moonshot says in a stream what it cost.
        usage: Object<WireUsage>,
    }
}

impl Choice {
    /// Which of the choices it is.
    pub(crate) fn number(&self) -> i64 {
        self.index.to_number().unwrap_or(0)
    }

    pub(crate) fn take_error(&mut self) -> Option<Value> {
        match mem::take(&mut self.error) {
            Loose::Text(error) if !error.is_empty() => Some(error.into()),
            Loose::Json(error) if !is_none(&error) => Some(*error),
            _ => None,
        }
    }

    /// Leaves of it the calls, and why it ended.
    pub(crate) fn forget_text(&mut self) {
        for message in self.message.iter_mut().chain(&mut self.delta) {
            let tool_calls = mem::take(&mut message.tool_calls);
            let function_call = mem::take(&mut message.function_call);
            **message = WireMessage { tool_calls, function_call, ..WireMessage::default() };
        }
    }
}

object! {
    pub(crate) struct WireMessage {
        /// Text, null, or a list of parts.
        pub(crate) content: Loose,
        /// What DeepSeek, vLLM and llama.cpp call the reasoning.
        pub(crate) reasoning_content: Loose,
        /// What Ollama and OpenRouter call it.
        pub(crate) reasoning: Loose,
        pub(crate) refusal: Loose,
        /// The blocks of reasoning that OpenRouter, and gateways to Anthropic, want back as they came.
        pub(crate) reasoning_details: Loose,
        pub(crate) thinking_blocks: Loose,
        /// What Gemini says beside the fields of OpenAI.
        pub(crate) extra_content: Loose,
        pub(crate) tool_calls: WireCalls,
        /// What was there before `tool_calls`, and is still at some servers.
        pub(crate) function_call: Object<WireFunction>,
        /// What was said aloud.
        pub(crate) audio: Object<WireAudio>,
    }
}

impl WireMessage {
    /// Its calls, and what stands for one at servers that have not heard of them.
    pub(crate) fn take_calls(&mut self) -> impl Iterator<Item = WireCall> + use<> {
        let calls = self.tool_calls.take();
        let older = self.function_call.take().filter(|_| calls.is_empty());
        let older = older.map(|function| WireCall { function: Some(*function), ..WireCall::default() });
        calls.into_iter().chain(older)
    }

    /// Whether its text is what the model thinks: Gemini says so where it was asked to show its thoughts.
    pub(crate) fn is_thought(&self) -> bool {
        match &self.extra_content {
            Loose::Json(extra) => extra.pointer("/google/thought").is_some_and(|it| it == true),
            _ => false,
        }
    }
}

object! {
    pub(crate) struct WireAudio {
        pub(crate) transcript: Loose,
    }
}

object! {
    pub(crate) struct WireCall {
        pub(crate) index: Loose,
        pub(crate) id: Loose,
        pub(crate) extra_content: Option<Box<Value>>,
        pub(crate) function: Option<WireFunction>,
    }
}

object! {
    pub(crate) struct WireFunction {
        pub(crate) name: Loose,
        /// JSON text; some servers send the object itself, or null.
        pub(crate) arguments: Loose,
    }
}
