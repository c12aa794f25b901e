use std::time::Duration;

use crate::{call::BoxError, message::AssistantMessage};

/// Why there is no complete reply.
///
/// Texts are for people who run the program; they hold no key and no header, and at most 1 kB of a body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The key is missing, wrong, or may not do this (401, 403).
    #[error("the model's server refused the key: {0}")]
    Unauthorized(String),
    /// The request cannot succeed as it is (other 4xx).
    #[error("the model's server refused the request (status {status}): {body}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// What the server said, at most 1 kB.
        body: String,
    },
    /// Too many requests, or the account's quota is used up.
    #[error("the model's server is limiting requests: {message}")]
    RateLimited {
        /// What the server said, at most 1 kB.
        message: String,
        /// How long it wants us to wait, where it says so.
        retry_after: Option<Duration>,
        /// Whether waiting cannot help, as when a quota is used up.
        permanent: bool,
    },
    /// The server failed (5xx, or an error in place of a reply).
    #[error("the model's server failed{}: {body}", status.map(|s| format!(" (status {s})")).unwrap_or_default())]
    Server {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// What the server said, at most 1 kB.
        body: String,
        /// How long it wants us to wait, where it says so.
        retry_after: Option<Duration>,
    },
    /// The server could not be reached, or the connection broke before there was a reply.
    #[error("the model's server at {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// Where the server should be, without credentials.
        endpoint: String,
        /// What went wrong.
        reason: String,
        /// The error below.
        source: Option<BoxError>,
    },
    /// A wait took too long.
    #[error("timed out after {after:?} waiting for {phase}")]
    TimedOut {
        /// What was waited for.
        phase: TimeoutPhase,
        /// How long.
        after: Duration,
    },
    /// The conversation is longer than the model can read.
    #[error("the conversation is too long for the model: {0}")]
    ContextTooLong(String),
    /// The reply ended before it was complete.
    #[error("the reply was cut: {reason}")]
    Truncated {
        /// How it ended.
        reason: String,
        /// What had come; its calls are not complete and must not run.
        partial: Box<AssistantMessage>,
    },
    /// The reply has neither text nor calls.
    #[error("the model gave an empty reply")]
    EmptyResponse,
    /// The reply cannot be read.
    #[error("the model's reply cannot be read: {0}")]
    InvalidResponse(String),
    /// The request asks for something that this model cannot do.
    #[error("the model cannot do this: {0}")]
    Unsupported(String),
    /// The model itself failed, as one in the process does.
    #[error("the model failed: {message}")]
    Failed {
        /// What went wrong.
        message: String,
        /// The error below.
        source: Option<BoxError>,
    },
    /// None of the models that were asked, one in place of the other, replied.
    #[error("no model replied: {}", told(failures))]
    NoneReplied {
        /// What each said, in the order in which they were asked.
        failures: Vec<ModelFailure>,
    },
}

/// Why one of several models did not reply.
#[derive(Debug)]
pub struct ModelFailure {
    /// The model's name.
    pub model: String,
    /// Its error.
    pub error: ModelError,
}

/// What was waited for when the time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// The connection.
    Connect,
    /// The first byte of the reply.
    FirstByte,
    /// More of a reply that had begun.
    Idle,
    /// The reply as a whole.
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
    /// Makes a failure of the model itself.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        Self::Failed { message: error.to_string(), source: Some(error) }
    }

    /// How long the server wants us to wait before the same request, where it says so. Of several models, the one that is soonest
    /// ready counts.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            Self::NoneReplied { failures } => {
                let transient = failures.iter().filter(|failure| failure.error.is_transient());
                transient.map(|failure| failure.error.retry_after()).min().flatten()
            }
            _ => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { permanent, .. } => !permanent,
            Self::Server { .. } | Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Truncated { .. } | Self::EmptyResponse => true,
            Self::NoneReplied { failures } => failures.iter().any(|failure| failure.error.is_transient()),
            _ => false,
        }
    }

    /// Whether another model may reply to the same request: what failed is the model, its server or the account, and not the request.
    ///
    /// So it is where the server is down, busy or too slow, where a quota is used up or a key refused, where the model is not there any more, where it cannot
    /// do what is asked, and where its reply was cut, is empty or cannot be read. It is not where the request is refused, and
    /// not where the conversation is too long: an agent shortens it.
    pub fn may_succeed_elsewhere(&self) -> bool {
        match self {
            // It has moved, wants money, or knows no such model, or nothing of what is asked.
            Self::Rejected { status, .. } => matches!(status, 300..400 | 402 | 404 | 405 | 410 | 501 | 505),
            Self::ContextTooLong(_) => false,
            Self::NoneReplied { failures } => {
                failures.last().is_none_or(|failure| failure.error.may_succeed_elsewhere())
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

fn told(failures: &[ModelFailure]) -> String {
    let told = failures.iter().map(|ModelFailure { model, error }| format!("{model}: {error}"));
    told.collect::<Vec<_>>().join("; ")
}
