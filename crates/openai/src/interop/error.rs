use async_openai::error::OpenAIError;
use haft_core::{call::BoxError, model::ModelError, schema::SchemaError, tool::InvalidToolName};
use serde_json::json;

use crate::{
    api_error::{ApiError, excerpt},
    client::root_cause,
};

/// A failed conversion between types of haft and of `async-openai`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InteropError {
    /// There is no counterpart, for example for a custom tool call or a link to an image.
    #[error("{what} cannot be converted")]
    Unsupported {
        /// The kind of value.
        what: &'static str,
    },
    /// The name of a tool is not `^[A-Za-z0-9_-]{1,64}$`.
    #[error("the tool has an invalid name")]
    ToolName(#[from] InvalidToolName),
    /// The parameters of a tool are not a schema for arguments.
    #[error("the parameters of the tool {tool:?} are not a valid schema")]
    Schema {
        /// The name of the tool.
        tool: String,
        /// The error of the schema.
        source: SchemaError,
    },
    /// A tool message has the id of no earlier call.
    #[error("there is no call with the id {id:?} before its result")]
    UnknownCall {
        /// The id of the call.
        id: String,
    },
    /// Embedded data is not valid base64.
    #[error("{what} is not valid base64")]
    Base64 {
        /// The kind of value.
        what: &'static str,
    },
    /// A message has an invalid form.
    #[error("the message cannot be converted")]
    Message(#[source] BoxError),
}

impl From<serde_json::Error> for InteropError {
    fn from(error: serde_json::Error) -> Self {
        Self::Message(error.into())
    }
}

impl From<ModelError> for InteropError {
    fn from(error: ModelError) -> Self {
        Self::Message(error.into())
    }
}

/// Converts an error of the client. `Retry-After` is not available in it.
pub(super) fn model_error(error: OpenAIError, address: &str) -> ModelError {
    match error {
        OpenAIError::ApiError(error) => {
            let status = error.status_code.as_u16();
            let body = if error.status_code.is_server_error() {
                // The raw body.
                error.api_error.message
            } else {
                json!({"error": error.api_error}).to_string()
            };
            ApiError::of_body(&body).into_error(status, None)
        }
        OpenAIError::Reqwest(error) => connection_error(error, address),
        // A malformed reply with status 200, or a 4xx response with a body unlike OpenAI's. Its
        // status is lost.
        OpenAIError::JSONDeserialize(error, body) => {
            let error_in_body =
                serde_json::from_str(&body).ok().as_ref().and_then(ApiError::in_place_of_reply);
            let unreadable = || ModelError::InvalidResponse(format!("{error}: {}", excerpt(&body)));
            error_in_body.unwrap_or_else(unreadable)
        }
        OpenAIError::StreamError(error) => {
            ModelError::Truncated { reason: excerpt(&error.to_string()), partial: Box::default() }
        }
        OpenAIError::InvalidArgument(reason) => ModelError::Unsupported(reason),
        // The error of a tower layer (feature `middleware` of async-openai). It may contain the
        // key.
        other => ModelError::Failed { message: excerpt(&other.to_string()), source: None },
    }
}

fn connection_error(error: reqwest::Error, address: &str) -> ModelError {
    let was_replying = error.is_body() || error.is_decode();
    // The URL may contain credentials.
    let error = error.without_url();
    let reason = root_cause(&error);
    if was_replying {
        return ModelError::Truncated { reason, partial: Box::default() };
    }
    ModelError::Unreachable { endpoint: address.to_owned(), reason, source: Some(error.into()) }
}
