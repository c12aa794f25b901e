use async_openai::error::OpenAIError;
use haft_core::{
    call::BoxError,
    model::{ModelError, ServerError},
    schema::SchemaError,
    tool::InvalidToolName,
};
use haft_http::model::root_cause;
use serde_json::json;

use haft_core::model::adapter::{error_in_place_of_reply, excerpt};

/// The error returned when a value cannot be converted between haft and `async-openai`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InteropError {
    /// The value has no counterpart in haft. Examples are a custom tool call and a link to an
    /// image.
    #[error("{kind} cannot be converted")]
    Unsupported {
        /// The kind of value, such as `a custom tool call`.
        kind: &'static str,
    },
    /// The name of a tool does not match `^[A-Za-z0-9_-]{1,64}$`.
    #[error("the tool has an invalid name")]
    InvalidToolName(#[from] InvalidToolName),
    /// The parameters of a tool are not a valid argument schema.
    #[error("the parameters of the tool {tool:?} are not a valid schema")]
    InvalidSchema {
        /// The name of the tool.
        tool: String,
        /// The reason why the schema is invalid.
        source: SchemaError,
    },
    /// The call id of a tool message does not match any earlier call.
    #[error("there is no call with the id {id:?} before its result")]
    UnknownCall {
        /// The call id in the tool message.
        id: String,
    },
    /// Embedded data is not valid base64.
    #[error("{kind} is not valid base64")]
    InvalidBase64 {
        /// The kind of value, such as `an image`.
        kind: &'static str,
    },
    /// The message cannot be represented in the target type.
    #[error("the message cannot be converted")]
    InvalidMessage(#[source] BoxError),
}

impl From<serde_json::Error> for InteropError {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidMessage(error.into())
    }
}

impl From<ModelError> for InteropError {
    fn from(error: ModelError) -> Self {
        Self::InvalidMessage(error.into())
    }
}

/// Converts `error`, an error of the `async-openai` client, to a [`ModelError`]. The value of
/// `Retry-After` is lost, because `error` does not contain it.
pub(super) fn from_openai_error(error: OpenAIError, address: &str) -> ModelError {
    match error {
        OpenAIError::ApiError(error) => {
            let status = error.status_code.as_u16();
            let body = if error.status_code.is_server_error() {
                // In the error for a 5xx response, the message is the raw body.
                error.api_error.message
            } else {
                json!({"error": error.api_error}).to_string()
            };
            ServerError::parse(&body).into_model_error(Some(status), None)
        }
        OpenAIError::Reqwest(error) => connection_error(error, address),
        // The cause is either a malformed reply with status 200, or a 4xx response with a body that
        // is not in OpenAI's format. The error does not contain the status.
        OpenAIError::JSONDeserialize(error, body) => {
            let error_in_body = serde_json::from_str(&body).ok().as_ref().and_then(error_in_place_of_reply);
            let unreadable = || ModelError::InvalidResponse(format!("{error}: {}", excerpt(&body)));
            error_in_body.unwrap_or_else(unreadable)
        }
        OpenAIError::StreamError(error) => {
            ModelError::Truncated { reason: excerpt(&error.to_string()), partial: Box::default() }
        }
        OpenAIError::InvalidArgument(reason) => ModelError::Unsupported(reason),
        // The remaining errors come, for example, from a `tower` layer (feature `middleware` of
        // async-openai). Their source is dropped, because it may contain the API key.
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
