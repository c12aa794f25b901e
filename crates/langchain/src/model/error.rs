//! Errors of LangChain as errors of haft.

#[cfg(test)]
mod tests;

use haft_core::{
    message::AssistantMessage,
    model::ModelError,
    text::{ErrorChain, truncate_with_ellipsis},
};
use langchain_rust::{
    language_models::LLMError,
    llm::{AnthropicError, DeepseekError, QwenError},
};

/// The maximum length of an error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Parts of error messages about a conversation that is too long for the model.
const CONTEXT_MESSAGES: &[&str] =
    &["context_length_exceeded", "maximum context length", "prompt is too long", "context window"];

/// Converts the error of a request. LangChain's clients keep the status of a response only in the
/// text of the error.
pub(super) fn from_langchain(error: LLMError) -> ModelError {
    let text = truncate_with_ellipsis(&ErrorChain(&error).to_string(), MAX_MESSAGE_BYTES).into_owned();
    if CONTEXT_MESSAGES.iter().any(|part| text.contains(part)) {
        return ModelError::ContextTooLong(text);
    }
    match error {
        LLMError::AnthropicError(error) => from_anthropic(&error, text),
        LLMError::DeepseekError(error) => from_deepseek(&error, text),
        LLMError::QwenError(error) => from_qwen(&error, text),
        LLMError::OpenAIError(error) => {
            // `ApiErrorResponse` is displayed as `429 Too Many Requests message`.
            let shown = error.to_string();
            let status = shown.split(' ').next().filter(|it| it.len() == 3).and_then(|it| it.parse().ok());
            match status {
                Some(status) => from_status(status, text),
                None if shown.starts_with("http error") => unreachable(text, error),
                None if shown.starts_with("failed to deserialize") => ModelError::InvalidResponse(text),
                None => ModelError::failed(error),
            }
        }
        LLMError::RequestError(error) => match error.status() {
            Some(status) => from_status(status.as_u16(), text),
            None if error.is_decode() => ModelError::InvalidResponse(text),
            None => unreachable(text, error),
        },
        LLMError::IoError(error) => unreachable(text, error),
        LLMError::Timeout(_) => ModelError::Server { status: None, body: text, retry_after: None },
        LLMError::SerdeError(_) | LLMError::ContentNotFound(_) | LLMError::ParsingError(_) => {
            ModelError::InvalidResponse(text)
        }
        error => ModelError::Failed { message: text, source: Some(error.into()) },
    }
}

/// Converts the error of a stream that has already sent `text`.
pub(super) fn in_stream(error: LLMError, text: &str) -> ModelError {
    let error = from_langchain(error);
    let is_cut = matches!(error, ModelError::Server { .. } | ModelError::Unreachable { .. });
    if is_cut && !text.is_empty() { truncated(&error.to_string(), text.to_owned()) } else { error }
}

/// Creates the error for a stream that ended after `text`.
pub(super) fn truncated(reason: &str, text: String) -> ModelError {
    truncated_message(reason, if text.is_empty() { AssistantMessage::default() } else { text.into() })
}

pub(super) fn truncated_message(reason: &str, partial: AssistantMessage) -> ModelError {
    ModelError::Truncated { reason: reason.to_owned(), partial: Box::new(partial) }
}

fn unreachable(reason: String, source: impl std::error::Error + Send + Sync + 'static) -> ModelError {
    let endpoint = "the address of the LangChain client".to_owned();
    ModelError::Unreachable { endpoint, reason, source: Some(Box::new(source)) }
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
    let permanent = message.contains("insufficient_quota");
    ModelError::RateLimited { message, retry_after: None, permanent }
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
