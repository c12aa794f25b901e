//! What adapters of model APIs share: the assembly of replies, the forms of schemas and results in
//! requests, and the origin of opaque data.
//!
//! Programs that use models need nothing of this module. An adapter is a [`ChatModel`](super::ChatModel) for
//! the API of a provider.

mod finish_state;
pub mod history;
mod in_band_error;
mod origin;
mod provider_schemas;
mod reply_accumulator;
mod reply_calls;
mod response_schema;
mod structured_output;
pub mod surrogates;
mod tool_json;

pub use self::{
    finish_state::{FinishKind, FinishState},
    in_band_error::{contains_error, decode_error, error_in_place_of_reply, excerpt, in_band_error},
    origin::Origin,
    provider_schemas::{provider_schema, provider_schemas},
    reply_accumulator::{EventSink, ReplyAccumulator, check_names},
    reply_calls::{PieceKind, ReplyCalls},
    response_schema::{ResponseSchema, ResponseSchemaOptions},
    structured_output::StructuredOutput,
    tool_json::{encode_result_content, required_string, valid_tool_name, warnings_of, with_description},
};
