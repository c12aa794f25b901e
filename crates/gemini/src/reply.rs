//! Assembly of replies, from whole bodies and from the events of a stream.

mod generate_content;
mod grounding;
mod interactions;
mod part_log;
mod stream_accumulator;
mod wire;

pub(crate) use generate_content::GenerateContentAccumulator;
pub(crate) use interactions::InteractionsAccumulator;
