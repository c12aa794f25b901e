use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use serde::{Deserialize, Serialize};

use crate::{call::BoxError, message::AssistantMessage, panic_log::log_panic_text};

/// The error of a request to a model.
///
/// The error messages are for the operator of the program, not for a model. They contain no API
/// key, no HTTP headers, and at most 1 kB of an HTTP response body.
///
/// The serialized form has all fields except for `source`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_core::model::ModelError;
///
/// fn retry_delay(error: &ModelError) -> Option<Duration> {
///     error.is_transient().then(|| error.retry_after().unwrap_or(Duration::from_secs(1)))
/// }
///
/// assert_eq!(retry_delay(&ModelError::EmptyResponse), Some(Duration::from_secs(1)));
/// assert_eq!(retry_delay(&ModelError::Unauthorized("no key".to_owned())), None);
/// ```
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// The API key is missing, is invalid, or lacks a permission (status 401 or 403). Contains the
    /// error message.
    #[error("the model's server refused the key: {0}")]
    Unauthorized(String),
    /// The server rejected the request, for example with status 400, 404 or 501.
    #[error("the model's server refused the request (status {status}): {body}")]
    Rejected {
        /// The HTTP status code.
        status: u16,
        /// The error message of the server, at most 1 kB.
        body: String,
    },
    /// A rate limit or the quota of the account was exceeded (status 429), or the account has no
    /// credit (status 402).
    #[error("the model's server is limiting requests: {message}")]
    RateLimited {
        /// The error message of the server, at most 1 kB.
        message: String,
        /// The delay that the server requests before a retry, for example in the `Retry-After`
        /// header. `None` if the server requests no delay.
        retry_after: Option<Duration>,
        /// `true` if the server would reject a retry as well, for example because the quota is used
        /// up. The error is then not transient.
        permanent: bool,
    },
    /// The server failed, for example with status 500, 503 or 408, or with an error event in a
    /// streamed reply.
    #[error("the model's server failed{}: {body}", status.map(|s| format!(" (status {s})")).unwrap_or_default())]
    Server {
        /// The HTTP status code. For an error in a response with status 200, such as an error event
        /// in a stream, the status is derived from the code or type of the error. `None` if neither
        /// implies a status.
        status: Option<u16>,
        /// The error message of the server, at most 1 kB.
        body: String,
        /// The delay that the server requests before a retry, for example in the `Retry-After`
        /// header. `None` if the server requests no delay.
        retry_after: Option<Duration>,
    },
    /// The connection failed, or was closed before the first byte of a reply.
    #[error("the model's server at {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The address of the server, without credentials.
        endpoint: String,
        /// A description of the connection failure.
        reason: String,
        /// The underlying error, if any.
        #[serde(skip)]
        source: Option<BoxError>,
    },
    /// A timeout of the model request expired.
    #[error("timed out after {after:?} waiting for {phase}")]
    TimedOut {
        /// The phase in which the timeout expired.
        phase: TimeoutPhase,
        /// The duration of the timeout.
        after: Duration,
    },
    /// A content filter of the provider rejected the request or stopped the reply. Contains the
    /// error message. The same request is rejected again, so it is not repeated.
    #[error("a content filter of the provider stopped the request: {0}")]
    ContentFiltered(String),
    /// The model made a mistake that its server found: the server could not parse or validate a
    /// call or a structured answer. Groq reports it with status 400 and `tool_use_failed`, Ollama
    /// and llama.cpp with status 500. An agent returns `reason` to the model.
    #[error("the model's server could not use the reply of the model: {reason}")]
    InvalidGeneration {
        /// The error message of the server, at most 1 kB.
        reason: String,
        /// The text that the model generated. `None` if the server does not send it.
        generation: Option<String>,
    },
    /// The conversation exceeds the context window of the model. Contains the error message.
    #[error("the conversation is too long for the model: {0}")]
    ContextTooLong(String),
    /// The reply ended before it was complete.
    #[error("the reply was cut: {reason}")]
    Truncated {
        /// The reason why the reply ended early, for example a connection reset.
        reason: String,
        /// The received part of the reply. Its tool calls may be incomplete and must not be
        /// executed.
        partial: Box<AssistantMessage>,
    },
    /// The reply has no text, no tool calls and no refusal.
    #[error("the model gave an empty reply")]
    EmptyResponse,
    /// The reply is malformed. Contains a description of the problem.
    #[error("the model's reply cannot be read: {0}")]
    InvalidResponse(String),
    /// The request needs a feature that the model does not support. Contains a description of the
    /// problem.
    #[error("the model cannot do this: {0}")]
    Unsupported(String),
    /// The model failed for another reason, for example because a local model crashed.
    #[error("the model failed: {message}")]
    Failed {
        /// A description of the model's failure.
        message: String,
        /// The underlying error, if any.
        #[serde(skip)]
        source: Option<BoxError>,
    },
    /// The code of the model panicked. The panic message is logged at the level `debug`. The
    /// request is not repeated with the same model, since it may panic again.
    #[error("the model panicked in its implementation of `ChatModel`")]
    Panicked,
    /// Every model in a sequence of fallback models failed.
    #[error("no model replied: {}", join_failures(failures))]
    AllFailed {
        /// The failures of the models, in the order of the sequence.
        failures: Vec<ModelFailure>,
    },
}

/// The failure of one model in a sequence of fallback models.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModelFailure {
    /// The name of the model.
    pub model: String,
    /// The error of the request to this model.
    pub error: ModelError,
}

/// A phase of a model request that has its own timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// Connecting to the server.
    Connect,
    /// Waiting for the first byte of the reply.
    FirstByte,
    /// Waiting for the next bytes of the reply.
    Idle,
    /// The complete request, including its reply.
    Total,
}

impl std::fmt::Display for TimeoutPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "a connection",
            Self::FirstByte => "the first byte",
            Self::Idle => "more of the reply",
            Self::Total => "the whole reply",
        })
    }
}

impl ModelError {
    /// Converts `error` to a [`Failed`](Self::Failed) error, with the `Display` text of `error` as
    /// its message.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        Self::Failed { message: error.to_string(), source: Some(error) }
    }

    /// Awaits `work`, and converts a panic to [`Panicked`](Self::Panicked). A driver calls the
    /// model inside `work`, so that a panic of the model fails only its request.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, model::{ChatRequest, ChatResponse, ModelError}};
    ///
    /// async fn chat(model: &dyn ChatModel, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
    ///     ModelError::catch_panic(async { model.chat(request).await }).await
    /// }
    /// # let error = futures::executor::block_on(ModelError::catch_panic(async { panic!("no reply") })).map(|()| ());
    /// # assert!(matches!(error, Err(ModelError::Panicked)));
    /// ```
    pub async fn catch_panic<T>(work: impl Future<Output = Result<T, Self>>) -> Result<T, Self> {
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
            tracing::error!("a model panicked");
            log_panic_text(&*panic);
            Err(Self::Panicked)
        })
    }

    /// Returns the delay that the server requested before a retry, or `None` if the server
    /// requested no delay.
    ///
    /// For [`AllFailed`](Self::AllFailed), returns the shortest delay among the transient failures.
    /// Returns `None` if there is no transient failure, or if the server of a transient failure
    /// requested no delay.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            Self::AllFailed { failures } => {
                let transient = failures.iter().filter(|failure| failure.error.is_transient());
                transient.map(|failure| failure.error.retry_after()).min().flatten()
            }
            _ => None,
        }
    }

    /// Returns `true` if the same request may succeed later, for example after a rate limit.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { permanent, .. } => !permanent,
            Self::Server { .. } | Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Truncated { .. } | Self::EmptyResponse => true,
            Self::AllFailed { failures } => failures.iter().any(|failure| failure.error.is_transient()),
            _ => false,
        }
    }

    /// Returns `true` if another model may succeed with the same request. This is the case if the
    /// model, its server or the account caused the failure:
    ///
    /// - the server is down, busy or slow
    /// - the API key is rejected, or the quota is used up
    /// - the model does not exist, does not support the request, failed itself or panicked
    /// - the reply is truncated, empty, malformed, or was rejected by the server
    ///
    /// Returns `false` if the server or its content filter rejected the request, or if the
    /// conversation is too long. An agent shortens a long conversation instead. For
    /// [`AllFailed`](Self::AllFailed), the failure of the last model decides. Without any failure,
    /// the result is `false`.
    pub fn allows_fallback(&self) -> bool {
        match self {
            // Another server or model may accept a request that was rejected with one of these
            // statuses: redirects (3xx), no credit (402, if the adapter reports it so), unknown
            // models or endpoints (404, 410), unsupported methods (405), and permanent server
            // errors (501, 505). Conflicts (409) and other server errors (5xx) are rejections only
            // if the server declares them as permanent with `x-should-retry: false`.
            Self::Rejected { status, .. } => matches!(status, 300..400 | 402 | 404 | 405 | 409 | 410 | 500..),
            Self::ContextTooLong(_) | Self::ContentFiltered(_) => false,
            Self::AllFailed { failures } => {
                failures.last().is_some_and(|failure| failure.error.allows_fallback())
            }
            Self::Unauthorized(_) | Self::RateLimited { .. } | Self::Server { .. } => true,
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Truncated { .. } => true,
            Self::EmptyResponse | Self::InvalidResponse(_) | Self::InvalidGeneration { .. } => true,
            Self::Unsupported(_) | Self::Failed { .. } | Self::Panicked => true,
        }
    }
}

fn join_failures(failures: &[ModelFailure]) -> String {
    let texts = failures.iter().map(|ModelFailure { model, error }| format!("{model}: {error}"));
    texts.collect::<Vec<_>>().join("; ")
}
