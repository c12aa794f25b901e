//! Encoding of tools and messages for the Chat Completions API.
//!
//! Each tool list and each message is encoded once, and the JSON text cached beside the value. A
//! request joins these pieces, and costs only its new messages.

mod content;
mod input;
mod message;
#[cfg(feature = "client")]
mod response_schema;
mod tool;

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::origin::Origin;

pub(crate) use input::{Input, output};
#[cfg(feature = "client")]
pub(crate) use message::EncodedMessages;
pub use message::{message, messages};
#[cfg(feature = "client")]
pub(crate) use response_schema::{ResponseSchema, ResponseSchemaProfile, WRAPPER_PROPERTY};
#[cfg(feature = "client")]
pub(crate) use tool::{ToolFormat, cached_tools};
pub use tool::{Tools, strict_tool, strict_tools, tool, tool_as, tools, tools_as};
pub(crate) use tool::{derive, derive_all};

/// Options for encoding messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodingOptions {
    /// Sends images. Otherwise they are described.
    pub(crate) images: bool,
    /// Sends audio. Otherwise it is described.
    pub(crate) audio: bool,
    /// Sends documents. Otherwise they are described.
    pub(crate) files: bool,
    /// Field for the reasoning of earlier replies with calls.
    pub(crate) reasoning: ReasoningField,
    /// Set if the server stores reasoning: an item without content is a valid reference then.
    pub(crate) stores_reasoning: bool,
    /// Adds a placeholder to calls without a thought signature (Gemini 3).
    pub(crate) signatures: bool,
    /// Accepted call ids.
    pub(crate) call_ids: CallIds,
    /// The server, for provider data.
    pub(crate) origin: Origin,
    /// Warns once about an unsupported medium.
    pub(crate) media_warning: WarnOnce,
}

/// A flag for a one-time warning. Always equal, because it does not affect the encoding.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarnOnce(Arc<AtomicBool>);

impl WarnOnce {
    /// Returns `true` on the first call.
    fn is_first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

impl PartialEq for WarnOnce {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for WarnOnce {}

/// The field for the reasoning of earlier replies with calls. OpenAI has none, DeepSeek requires
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "only set by the feature `client`"))]
pub(crate) enum ReasoningField {
    /// No field.
    #[default]
    Omitted,
    /// A field of this name, if there is reasoning.
    Optional(&'static str),
    /// A field of this name, empty without reasoning.
    Required(&'static str),
}

/// The call ids accepted by a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "only set by the feature `client`"))]
pub(crate) enum CallIds {
    /// Any text.
    #[default]
    Any,
    /// Nine letters or digits (Mistral).
    NineLetters,
}

impl CallIds {
    /// Maps an id to an accepted one. A call and its result get the same id.
    pub(crate) fn map(self, id: &str) -> Cow<'_, str> {
        let is_short = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self == Self::Any || is_short {
            return Cow::Borrowed(id);
        }
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Cow::Owned(format!("{:09x}", hasher.finish() & 0xf_ffff_ffff))
    }
}

/// Enables everything in the API of OpenAI.
impl Default for EncodingOptions {
    fn default() -> Self {
        Self {
            images: true,
            audio: true,
            files: true,
            reasoning: ReasoningField::default(),
            stores_reasoning: true,
            signatures: false,
            call_ids: CallIds::default(),
            origin: Origin::default(),
            media_warning: WarnOnce::default(),
        }
    }
}

/// The JSON text of a wire type. Serialising strings, numbers and JSON values does not fail.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
