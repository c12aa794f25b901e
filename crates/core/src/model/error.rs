use std::time::Duration;

use crate::{call::BoxError, message::AssistantMessage};

/// The failure of a request to a model.
///
/// The messages are for the operator of the program, not for a model. They contain no API key, no
/// HTTP header, and at most 1 kB of a response body.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The API key is missing, invalid or lacks a permission (401, 403).
    #[error("the model's server refused the key: {0}")]
    Unauthorized(String),
    /// The server rejected the request (other 3xx and 4xx, 501, 505).
    #[error("the model's server refused the request (status {status}): {body}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The error message of the server, at most 1 kB.
        body: String,
    },
    /// A rate limit or the quota of the account was exceeded (429).
    #[error("the model's server is limiting requests: {message}")]
    RateLimited {
        /// The error message of the server, at most 1 kB.
        message: String,
        /// The wait requested by the server, for example with `Retry-After`.
        retry_after: Option<Duration>,
        /// `true` if waiting does not help, for example after the quota is used up.
        permanent: bool,
    },
    /// The server failed (5xx, or an error event in a stream).
    #[error("the model's server failed{}: {body}", status.map(|s| format!(" (status {s})")).unwrap_or_default())]
    Server {
        /// The HTTP status. `None` for an error inside a reply.
        status: Option<u16>,
        /// The error message of the server, at most 1 kB.
        body: String,
        /// The wait requested by the server, for example with `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The connection failed, or closed before the first byte of a reply.
    #[error("the model's server at {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The address of the server, without credentials.
        endpoint: String,
        /// A description of the failure.
        reason: String,
        /// The cause.
        source: Option<BoxError>,
    },
    /// A timeout expired.
    #[error("timed out after {after:?} waiting for {phase}")]
    TimedOut {
        /// The phase of the request.
        phase: TimeoutPhase,
        /// The timeout.
        after: Duration,
    },
    /// The conversation exceeds the context window of the model.
    #[error("the conversation is too long for the model: {0}")]
    ContextTooLong(String),
    /// The reply is incomplete.
    #[error("the reply was cut: {reason}")]
    Truncated {
        /// The reason, for example a connection reset.
        reason: String,
        /// The part received so far. Its calls may be incomplete and must not run.
        partial: Box<AssistantMessage>,
    },
    /// The reply has neither text nor calls.
    #[error("the model gave an empty reply")]
    EmptyResponse,
    /// The reply is malformed.
    #[error("the model's reply cannot be read: {0}")]
    InvalidResponse(String),
    /// The request needs a feature that the model does not support.
    #[error("the model cannot do this: {0}")]
    Unsupported(String),
    /// The model itself failed, for example a local model in this process.
    #[error("the model failed: {message}")]
    Failed {
        /// A description of the failure.
        message: String,
        /// The cause.
        source: Option<BoxError>,
    },
    /// Each model of a fallback sequence failed.
    #[error("no model replied: {}", join_failures(failures))]
    AllFailed {
        /// The failure of each model, in order.
        failures: Vec<ModelFailure>,
    },
}

/// The failure of one model of a fallback sequence.
#[derive(Debug)]
pub struct ModelFailure {
    /// The name of the model.
    pub model: String,
    /// The error.
    pub error: ModelError,
}

/// The phase of a request in which its timeout expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// Connecting to the server.
    Connect,
    /// Waiting for the first byte of the reply.
    FirstByte,
    /// Waiting for the next bytes of the reply.
    Idle,
    /// The complete request.
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
    /// Makes a [`Failed`](Self::Failed) error from its cause.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        Self::Failed { message: error.to_string(), source: Some(error) }
    }

    /// Returns the wait before a retry that the server requested, if any. For several models it is
    /// the shortest wait among the transient failures; `None` if one of them requested no wait.
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

    /// Returns `true` if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { permanent, .. } => !permanent,
            Self::Server { .. } | Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Truncated { .. } | Self::EmptyResponse => true,
            Self::AllFailed { failures } => failures.iter().any(|failure| failure.error.is_transient()),
            _ => false,
        }
    }

    /// Returns `true` if another model may succeed with the same request, because the failure is
    /// one of the model, its server or the account:
    ///
    /// - the server is down, busy or slow
    /// - the API key is rejected, or the quota is used up
    /// - the model does not exist, or does not support the request
    /// - the reply is truncated, empty or malformed
    ///
    /// Returns `false` if the request itself was rejected, or if the conversation is too long: an
    /// agent shortens it instead.
    pub fn allows_fallback(&self) -> bool {
        match self {
            // Redirects, missing payment, unknown models or endpoints, unsupported methods or
            // versions.
            Self::Rejected { status, .. } => matches!(status, 300..400 | 402 | 404 | 405 | 410 | 501 | 505),
            Self::ContextTooLong(_) => false,
            Self::AllFailed { failures } => {
                failures.last().is_none_or(|failure| failure.error.allows_fallback())
            }
            Self::Unauthorized(_)
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Truncated { .. }
            | Self::EmptyResponse
            | Self::InvalidResponse(_)
            | Self::Unsupported(_)
            | Self::Failed { .. } => true,
        }
    }
}

fn join_failures(failures: &[ModelFailure]) -> String {
    let texts = failures.iter().map(|ModelFailure { model, error }| format!("{model}: {error}"));
    texts.collect::<Vec<_>>().join("; ")
}
