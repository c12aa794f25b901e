//! Errors of LangChain as errors of haft.

#[cfg(test)]
mod tests;

use std::{error::Error, io, iter::successors};

use haft_core::{
    message::AssistantMessage,
    model::{ModelError, ServerError},
    text::{ErrorChain, truncate_with_ellipsis},
};
use langchain_rust::{
    language_models::LLMError,
    llm::{AnthropicError, DeepseekError, QwenError},
};

/// The maximum length of an error message, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024;

/// Converts the error of a request. LangChain's clients keep the status of a response only in the
/// text of the error.
///
/// The text has at most 1 kB. The result has no source, because its text would contain the whole
/// response.
pub(crate) fn from_langchain(error: LLMError) -> ModelError {
    let whole = ErrorChain(&error).to_string();
    let text = truncate_with_ellipsis(&whole, MAX_MESSAGE_BYTES).into_owned();
    let classified = classify(error, text);
    let status = match &classified {
        ModelError::Rejected { status, .. } => Some(*status),
        ModelError::Server { status, .. } => *status,
        ModelError::Unauthorized(_) => Some(401),
        ModelError::RateLimited { .. } => Some(429),
        ModelError::Failed { .. } => None,
        _ => return classified,
    };
    // The text can contain the body of the response, with the cause of the error.
    let found = ServerError::parse(&whole).into_model_error(status, None);
    match (&classified, &found) {
        // Without a status, only a known cause counts.
        (
            ModelError::Failed { .. } | ModelError::Server { status: None, .. },
            ModelError::Server { status: None, .. },
        ) => classified,
        _ => found,
    }
}

fn classify(error: LLMError, text: String) -> ModelError {
    match error {
        LLMError::AnthropicError(error) => from_anthropic(&error, text),
        LLMError::DeepseekError(error) => from_deepseek(&error, text),
        LLMError::QwenError(error) => from_qwen(&error, text),
        LLMError::OpenAIError(error) => from_openai(&error.to_string(), text),
        LLMError::RequestError(error) => match error.status() {
            Some(status) => from_status(status.as_u16(), text),
            // reqwest also reports a lost connection inside of a body as `is_decode`.
            None if error.is_decode() && error.source().is_some_and(<dyn Error>::is::<serde_json::Error>) => {
                ModelError::InvalidResponse(text)
            }
            None => unreachable(text),
        },
        LLMError::IoError(_) => unreachable(text),
        LLMError::Timeout(_) => server(None, text),
        LLMError::SerdeError(_) | LLMError::ContentNotFound(_) | LLMError::ParsingError(_) => {
            ModelError::InvalidResponse(text)
        }
        // Errors of clients behind a feature of langchain-rust, such as `OllamaError`.
        error if has_io_source(&error) => unreachable(text),
        _ => ModelError::Failed { message: text, source: None },
    }
}

/// Returns `true` if an I/O error is among the sources of `error`.
fn has_io_source(error: &dyn Error) -> bool {
    successors(error.source(), |&error| error.source()).any(<dyn Error>::is::<io::Error>)
}

/// Converts an error of async-openai, displayed as `shown`.
fn from_openai(shown: &str, text: String) -> ModelError {
    // `ApiErrorResponse` is displayed as `429 Too Many Requests message`.
    let status = shown.split(' ').next().filter(|it| it.len() == 3).and_then(|it| it.parse().ok());
    match status {
        Some(status) => from_status(status, text),
        None if shown.starts_with("http error") || shown.starts_with("stream failed") => unreachable(text),
        None if shown.starts_with("failed to deserialize") => ModelError::InvalidResponse(text),
        None => ModelError::Failed { message: text, source: None },
    }
}

/// Converts the error of an open stream that has already sent `partial`. A lost connection and an
/// unclassified error truncate the reply: LangChain's Ollama client reports every error of a stream
/// as `Stream error`.
pub(super) fn in_stream(error: LLMError, partial: AssistantMessage) -> ModelError {
    match from_langchain(error) {
        error @ (ModelError::Unreachable { .. } | ModelError::Failed { .. }) => {
            truncated(&error.to_string(), partial)
        }
        error @ ModelError::Server { .. } if !partial.is_empty() => truncated(&error.to_string(), partial),
        error => error,
    }
}

/// Creates the error for a stream that ended after `partial`.
pub(super) fn truncated(reason: &str, partial: AssistantMessage) -> ModelError {
    ModelError::Truncated { reason: reason.to_owned(), partial: Box::new(partial) }
}

fn unreachable(reason: String) -> ModelError {
    let endpoint = "the address of the LangChain client".to_owned();
    ModelError::Unreachable { endpoint, reason, source: None }
}

fn from_status(status: u16, body: String) -> ModelError {
    match status {
        401 | 403 => ModelError::Unauthorized(body),
        429 => rate_limited(body),
        408 | 409 | 425 => server(Some(status), body),
        501 | 505 => ModelError::Rejected { status, body },
        500.. => server(Some(status), body),
        _ => ModelError::Rejected { status, body },
    }
}

fn rate_limited(message: String) -> ModelError {
    ModelError::RateLimited { message, retry_after: None, permanent: false }
}

fn server(status: Option<u16>, body: String) -> ModelError {
    ModelError::Server { status, body, retry_after: None }
}

fn from_anthropic(error: &AnthropicError, text: String) -> ModelError {
    match error {
        AnthropicError::AuthenticationError(_) => from_status(401, text),
        AnthropicError::PermissionError(_) => from_status(403, text),
        AnthropicError::InvalidRequestError(_) => from_status(400, text),
        AnthropicError::NotFoundError(_) => from_status(404, text),
        AnthropicError::RateLimitError(_) => from_status(429, text),
        AnthropicError::OverloadedError(_) => server(Some(529), text),
        _ => server(None, text),
    }
}

fn from_deepseek(error: &DeepseekError, text: String) -> ModelError {
    from_status(
        match error {
            DeepseekError::AuthenticationError(_) => 401,
            DeepseekError::InsufficientBalanceError(_) => 402,
            DeepseekError::InvalidFormatError(_) => 400,
            DeepseekError::InvalidParametersError(_) => 422,
            DeepseekError::RateLimitError(_) => 429,
            DeepseekError::ServerOverloadedError(_) => 503,
            _ => 500,
        },
        text,
    )
}

fn from_qwen(error: &QwenError, text: String) -> ModelError {
    from_status(
        match error {
            QwenError::InvalidApiKeyError(_) => 401,
            QwenError::PrepaidBillOverdueError(_)
            | QwenError::PostpaidBillOverdueError(_)
            | QwenError::BillingError(_)
            | QwenError::CommodityNotPurchasedError(_) => 402,
            QwenError::InvalidParameterError(_)
            | QwenError::MismatchedModelError(_)
            | QwenError::DuplicateCustomIdError(_) => 400,
            QwenError::ModelNotFoundError(_) => 404,
            QwenError::ModelServingError(_) => 429,
            QwenError::ModelUnavailableError(_) => 503,
            _ => 500,
        },
        text,
    )
}
