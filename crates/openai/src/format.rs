//! Encoding of tools, messages and response schemas for the Chat Completions API and the Responses
//! API.
//!
//! The JSON text of a message or tool list is cached in the message or list itself. A request body
//! is assembled from these cached texts, so only new messages are encoded.

#[cfg(feature = "client")]
mod cache_key;
mod content;
#[cfg(feature = "client")]
mod hosted_tool;
mod input;
mod message;
mod message_form;
mod tool;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_core::model::CallIds;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use haft_core::model::adapter::Origin;
pub(crate) use haft_core::model::adapter::valid_tool_name as valid_name;

#[cfg(feature = "client")]
pub(crate) use cache_key::cache_key;
pub(crate) use content::{Medium, UNNAMED_DOCUMENT};
#[cfg(feature = "client")]
pub(crate) use hosted_tool::{ResponsesTools, check_settings, included_results};
pub(crate) use input::{Input, encode_tool_result};
#[cfg(feature = "client")]
pub(crate) use message::EncodedMessages;
#[cfg(feature = "async-openai")]
pub(crate) use message::encode_message_with;
pub use message::{encode_message, encode_messages};
pub(crate) use message_form::MessageForm;
pub use tool::{
    EncodedTools, encode_strict_tool, encode_strict_tools, encode_tool, encode_tool_for_target, encode_tools,
    encode_tools_for_target,
};
#[cfg(feature = "client")]
pub(crate) use tool::{ToolFormat, cached_tools};

/// Options for encoding messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodingOptions {
    /// If `true`, images are sent to the model. Otherwise, each image is replaced by a description.
    pub(crate) sends_images: bool,
    /// If `true`, audio is sent to the model. Otherwise, it is replaced by a description.
    pub(crate) sends_audio: bool,
    /// If `true`, PDF documents are sent to the model. Otherwise, each document is replaced by a
    /// description.
    pub(crate) sends_documents: bool,
    /// The message field in which the reasoning of earlier replies is sent back to the server.
    pub(crate) reasoning_field: ReasoningField,
    /// `true` if the server stores reasoning. The server then accepts a reasoning item without
    /// content as a reference to the stored reasoning.
    pub(crate) server_stores_reasoning: bool,
    /// `true` if the first call of each reply must have a thought signature, as Gemini 3 requires.
    /// If the first call has none, a fixed signature is added.
    pub(crate) needs_signatures: bool,
    /// The tool call ids that the server accepts.
    pub(crate) call_ids: CallIds,
    /// `true` if only the first message may be a system message. The system messages at the start
    /// of a conversation are then joined, and a later one is sent as a user message.
    pub(crate) has_one_system_message: bool,
    /// The cache breakpoint of a [marked](MessageForm::is_marked) message. `None` if the messages have
    /// no breakpoints.
    pub(crate) cache_breakpoints: Option<CacheBreakpoint>,
    /// The server that receives the messages. Provider data from other servers is omitted.
    pub(crate) origin: Origin,
    /// The flag for the warning about unsupported media, which is logged only once.
    pub(crate) media_warning: WarnOnce,
}

/// A mark at the end of a prefix of the conversation. OpenAI caches the prefix up to each of the
/// last marks of a request, and finds the prefix up to a mark of the request if it is cached.
///
/// Source: OpenAI's API reference, `prompt_cache_breakpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CacheBreakpoint {
    mode: &'static str,
    /// The minimum lifetime, such as `30m`. `None` selects the default of OpenAI.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheBreakpoint {
    #[cfg(feature = "client")]
    pub(crate) fn new(ttl: Option<&'static str>) -> Self {
        Self { mode: "explicit", ttl }
    }
}

/// A flag for a warning that is logged once. All values are equal, so the flag does not affect the
/// comparison of [`EncodingOptions`].
#[derive(Clone, Debug, Default)]
pub(crate) struct WarnOnce(Arc<AtomicBool>);

impl WarnOnce {
    /// Returns `true` on the first call and `false` on all later calls.
    fn take_first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

impl PartialEq for WarnOnce {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for WarnOnce {}

/// The field in which the reasoning of an assistant message is sent back to the server. The field
/// is only sent with messages that contain tool calls. OpenAI does not have this field, and
/// DeepSeek requires it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "only set by the feature `client`"))]
pub(crate) enum ReasoningField {
    /// No field: the reasoning is not sent.
    #[default]
    Omitted,
    /// The field with the given name. The field is omitted if the reply has no reasoning.
    Optional(&'static str),
    /// The field with the given name. Its value is an empty string if the reply has no reasoning.
    Required(&'static str),
}

/// The options for OpenAI's API: all media are sent.
impl Default for EncodingOptions {
    fn default() -> Self {
        Self {
            sends_images: true,
            sends_audio: true,
            sends_documents: true,
            reasoning_field: ReasoningField::default(),
            server_stores_reasoning: true,
            needs_signatures: false,
            call_ids: CallIds::default(),
            has_one_system_message: false,
            cache_breakpoints: None,
            origin: Origin::default(),
            media_warning: WarnOnce::default(),
        }
    }
}

/// Serializes `value` to JSON text. Returns `null` if the serialization fails, which is impossible
/// for strings, numbers and JSON values.
fn to_raw_json(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
