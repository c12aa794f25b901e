//! Message histories in the JSON of OpenAI's APIs, read into messages and written
//! back.
//!
//! Use it to continue a conversation that another program or framework has stored, or to export a
//! conversation. For requests, use [`encode_messages`](crate::encode_messages),
//! [`responses::encode_input`](crate::responses::encode_input) or a model of this crate.
//!
//! | format | read | write |
//! |---|---|---|
//! | Chat Completions: `messages` | [`from_chat_completions`] | [`to_chat_completions`] |
//! | Responses: `input`, `output` | [`from_responses`] | [`to_responses`] |
//!
//! Reading is lenient: fields may be missing, content may be a string or a list of parts. Signed or
//! encrypted reasoning and unknown parts of an assistant message are kept as
//! [`ProviderData`](haft_core::message::ProviderData). Only the format that they came from writes
//! them back. All other unknown parts, and unknown fields of known parts, are listed in
//! [`History::omitted`]. Metadata of a message or item, such as its id, status, model and usage, is
//! not part of the history.
//!
//! Reading a written history gives equal messages, as far as the format can express them. Tool
//! results contain no time, so they start at the Unix epoch. A link with the media type `image/*`
//! represents an image by its URL. A request sends it as an image too, if the model reads images.
//!
//! # Examples
//!
//! ```
//! use haft_openai::history;
//! use serde_json::json;
//!
//! let stored = json!([
//!     {"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "What is 17 plus 25?"},
//!     {"role": "assistant", "content": null, "tool_calls": [
//!         {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"x\":17,\"y\":25}"}},
//!     ]},
//!     {"role": "tool", "tool_call_id": "call_1", "content": "42"},
//!     {"role": "assistant", "content": "42."},
//! ]);
//! let history = history::from_chat_completions(&stored)?;
//! assert!(history.omitted.is_empty());
//! let transcript = history.into_transcript();
//! assert_eq!(transcript.len(), 5);
//!
//! let items = history::to_responses(transcript.messages());
//! assert_eq!(items[2]["name"], "add");
//! # Ok::<(), haft_openai::history::HistoryError>(())
//! ```

mod chat_completions;
mod content;
mod responses;

use std::fmt;

use haft_core::model::adapter::history::{HistoryReader, list_in, required_text as required, text_of};

pub use chat_completions::{from_chat_completions, to_chat_completions};
pub use haft_core::model::adapter::history::{History, HistoryError, Omission};
pub use responses::{from_responses, to_responses};

/// The metadata key of the `name` of a Chat Completions message.
pub const NAME_KEY: &str = "openai/name";

/// The reader of one history.
#[derive(Default)]
struct Reader(HistoryReader);

fn error<T>(path: impl fmt::Display, problem: impl fmt::Display) -> Result<T, HistoryError> {
    Err(HistoryError::new(path, problem))
}
