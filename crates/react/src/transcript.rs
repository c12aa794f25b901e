//! The messages of a run: marks of special messages, pairing of calls and results, and repetitions.

pub(crate) mod call_ids;
pub(crate) mod conversation;
pub(crate) mod history;
pub(crate) mod marks;
mod pairing;
pub(crate) mod repetition;
pub(crate) mod replacements;
pub(crate) mod segments;
pub(crate) mod steps;

pub(crate) use conversation::{append_to_conversation, set_timestamps};
pub(crate) use marks::unsummarized_count;
pub use marks::{
    has_written_calls, hint_message, is_enqueued, is_extracted, is_hint, is_rejected, is_unusable,
};
pub(crate) use pairing::find_unpaired_call;
pub use segments::is_from_user;
pub use steps::{agent_steps, reasoning_or_text};
