//! What is sent: tools and messages in the words of the Chat Completions API.
//!
//! Each tool list and each message is put into JSON text once and kept beside the value it was made of, so that a
//! request is put together from pieces and costs what is new in it.

mod content;
mod message;
mod tool;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

#[cfg(feature = "client")]
pub(crate) use message::{Arranged, Style};
pub use message::{message, messages};
pub use tool::{Tools, strict_tool, strict_tools, tool, tool_as, tools, tools_as};
pub(crate) use tool::{derive, derive_all};

/// JSON text of a wire type. All of ours are made of strings, numbers and JSON values, which always have one.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
