//! Encoding of tools, messages and results for the two APIs of Gemini, and decoding of calls.
//!
//! The JSON text of a message or tool list is cached in the message or list itself. A request body
//! is assembled from these cached texts, so only new messages are encoded.

#[cfg(feature = "client")]
mod conversation;
#[cfg(feature = "client")]
mod generate_content;
#[cfg(feature = "client")]
mod interactions;
#[cfg(feature = "client")]
mod media;
mod names;
mod result;
#[cfg(feature = "client")]
mod stored;
mod tool;

#[cfg(feature = "client")]
use haft_core::model::adapter::Origin;

#[cfg(feature = "client")]
pub(crate) use conversation::Conversation;
#[cfg(feature = "client")]
pub(crate) use names::{tool_name, wire_name};
pub use result::encode_tool_results;
#[cfg(feature = "client")]
pub(crate) use stored::{SignedPart, StoredPart, StoredParts};
#[cfg(feature = "client")]
pub(crate) use tool::{EncodedTools, cached_tools};
pub use tool::{decode_tool_calls, encode_openapi_tool, encode_openapi_tools, encode_tool, encode_tools};

/// The key under which the adapter stores provider data in a message.
#[cfg(feature = "client")]
pub(crate) const DATA_KEY: &str = "gemini";

/// The API whose format is encoded.
#[cfg(feature = "client")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WireApi {
    GenerateContent,
    Interactions,
}

/// Options for encoding messages.
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodingOptions {
    pub(crate) api: WireApi,
    /// If `true`, images are sent to the model. Otherwise, each image is replaced by a description.
    pub(crate) sends_images: bool,
    /// If `true`, audio is sent to the model. Otherwise, it is replaced by a description.
    pub(crate) sends_audio: bool,
    /// If `true`, PDF documents are sent to the model. Otherwise, each document is replaced by a
    /// description.
    pub(crate) sends_documents: bool,
    /// If `true`, the media in tool results are sent to the model. Otherwise, each is replaced by a
    /// description.
    pub(crate) sends_result_media: bool,
    /// `true` if the first call of each reply in the current turn must have a thought signature. A
    /// fixed signature is added to a call of another model.
    pub(crate) needs_signatures: bool,
    /// The server that receives the messages. Provider data from other servers is omitted.
    pub(crate) origin: Origin,
}
