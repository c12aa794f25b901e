//! What is sent: tools and messages in the words of the Chat Completions API.
//!
//! Each tool list and each message is put into JSON text once and kept beside the value it was made of, so that a
//! request is put together from pieces and costs what is new in it.

#[cfg(feature = "client")]
mod answer;
mod content;
mod input;
mod message;
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

#[cfg(feature = "client")]
pub(crate) use answer::{AnswerProfile, AnswerSchema, PROPERTY};
pub(crate) use input::{Input, output};
#[cfg(feature = "client")]
pub(crate) use message::EncodedMessages;
pub use message::{message, messages};
#[cfg(feature = "client")]
pub(crate) use tool::{Shape, rendered};
pub use tool::{Tools, strict_tool, strict_tools, tool, tool_as, tools, tools_as};
pub(crate) use tool::{derive, derive_all};

/// What the form of a message depends on besides the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodingOptions {
    /// Whether pictures are sent, or only described.
    pub(crate) images: bool,
    /// Whether sound is.
    pub(crate) audio: bool,
    /// Whether documents are.
    pub(crate) files: bool,
    /// How a model is told what it thought before its calls. The API knows no such field, and some servers require it.
    pub(crate) reasoning: Reasoning,
    /// Whether the server keeps reasoning that it sent, so that an item which holds none of it means something there.
    pub(crate) keeps_reasoning: bool,
    /// Whether calls that came from elsewhere need a mark in place of the signature of what was thought before them.
    pub(crate) signatures: bool,
    /// Which ids of calls are taken.
    pub(crate) call_ids: CallIds,
    /// Whose replies are echoed with what only their server understands.
    pub(crate) origin: Origin,
    /// Whether somebody was told of a picture that is only described.
    pub(crate) described: WarnOnce,
}

/// What is told once, to all who share it. It is no part of how a message looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarnOnce(Arc<AtomicBool>);

impl WarnOnce {
    /// Whether this is the first time.
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

/// How a model is told what it thought before its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "a server is somebody's who has a client"))]
pub(crate) enum Reasoning {
    /// Not at all.
    #[default]
    Left,
    /// In a field of this name, where it thought.
    Sent(&'static str),
    /// In a field of this name, and that it thought nothing, too.
    Required(&'static str),
}

/// Which ids of calls a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "a server is somebody's who has a client"))]
pub(crate) enum CallIds {
    /// All.
    #[default]
    Any,
    /// Nine letters or digits.
    NineLetters,
}

impl CallIds {
    /// The id as the server takes it: the same one for a call and for its result.
    pub(crate) fn fit(self, id: &str) -> Cow<'_, str> {
        let is_short = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self == Self::Any || is_short {
            return Cow::Borrowed(id);
        }
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Cow::Owned(format!("{:09x}", hasher.finish() & 0xf_ffff_ffff))
    }
}

/// All is sent that the API knows.
impl Default for EncodingOptions {
    fn default() -> Self {
        Self {
            images: true,
            audio: true,
            files: true,
            reasoning: Reasoning::default(),
            keeps_reasoning: true,
            signatures: false,
            call_ids: CallIds::default(),
            origin: Origin::default(),
            described: WarnOnce::default(),
        }
    }
}

/// JSON text of a wire type. All of ours are made of strings, numbers and JSON values, which always have one.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
