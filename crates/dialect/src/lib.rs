#![doc = include_str!("../README.md")]

mod auto;
mod declared_keys;
mod dialect;
mod json;
mod marks;
mod native;
mod partial_json;
mod prompt;
mod reading;
mod reply;
mod step;
mod stream;
mod text;
mod thinking;
mod tool_rejection;
mod written_calls;

pub use auto::AutoDialect;
pub use dialect::{Dialect, FINISH, dialect_for};
pub use json::{JsonReact, find_json_object, strip_fence};
pub use marks::{is_rejected, is_unusable, mark_rejected, mark_unusable};
pub use native::NativeCalls;
pub use partial_json::{PartialJson, parse_partial};
pub use prompt::Prompt;
pub use reading::{ReplyContext, read_failed_generation, read_reply, read_written_calls, stream_parser};
pub use reply::Reply;
pub use step::bare_finish_schema;
pub use stream::{ReplyDelta, StreamParser};
pub use text::TextReact;
pub use thinking::{reasoning_or_text, split_thinking};
pub use tool_rejection::rejects_tools;
