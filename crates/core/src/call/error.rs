use std::{borrow::Cow, time::Duration};

use super::{Failure, FailureKind};
use crate::schema::Violations;

/// A boxed error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a call. The variant determines the reaction of the agent loop.
///
/// The model reads the `Display` text: keep secrets and paths out of it. Sources are traced and
/// never sent to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments violate the schema. The text lists the violations. The tool did not run.
    #[error("invalid arguments: {0}")]
    InvalidArguments(Cow<'static, str>),
    /// The tool requests another call; the text explains the necessary change.
    ///
    /// Limited by [`ToolPolicy::retries`](crate::tool::ToolPolicy::retries).
    #[error("{0}")]
    Retry(String),
    /// The tool failed. The model reads the message, and the run continues.
    #[error("{message}")]
    Failed {
        /// The text for the model.
        message: String,
        /// The cause, for the trace only.
        source: Option<BoxError>,
    },
    /// The gate or a person denied the call, for the given reason. The tool did not run.
    #[error("denied{}", Reason(.0))]
    Denied(String),
    /// The deadline passed. Side effects may have happened.
    #[error("timed out after {}", Millis(*after))]
    TimedOut {
        /// The time limit of the call.
        after: Duration,
    },
    /// The run was cancelled. Side effects may have happened.
    #[error("cancelled")]
    Cancelled,
    /// The tool does not exist. The text lists the available tools.
    #[error("{0}")]
    NotFound(String),
    /// The effect of the call is unknown, for example after a lost connection or a dead process.
    #[error("unconfirmed, it may or may not have happened: {0}")]
    Unconfirmed(String),
    /// The run must stop.
    #[error("{0}")]
    Fatal(String),
    /// A nested call failed. This call fails with the same kind and message.
    #[error(transparent)]
    Inner(#[from] Failure),
}

/// An optional reason, printed after a colon.
struct Reason<'a>(&'a str);

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}

impl ToolError {
    /// Converts any error to [`Failed`](Self::Failed). The model reads its `Display` text.
    ///
    /// A boxed `ToolError` is returned unchanged, a [`Failure`] of another call becomes
    /// [`Inner`](Self::Inner).
    pub fn failed(error: impl Into<BoxError>) -> Self {
        let error = match error.into().downcast::<Self>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        match error.downcast::<Failure>() {
            Ok(failure) => Self::Inner(*failure),
            Err(error) => Self::Failed { message: error.to_string(), source: Some(error) },
        }
    }

    /// Creates a [`Retry`](Self::Retry) with a hint for the model.
    pub fn retry(hint: impl Into<String>) -> Self {
        Self::Retry(hint.into())
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::InvalidArguments(_) => FailureKind::InvalidArguments,
            Self::Retry(_) => FailureKind::Retry,
            Self::Failed { .. } => FailureKind::Failed,
            Self::Denied(_) => FailureKind::Denied,
            Self::TimedOut { .. } => FailureKind::TimedOut,
            Self::Cancelled => FailureKind::Cancelled,
            Self::NotFound(_) => FailureKind::NotFound,
            Self::Unconfirmed(_) => FailureKind::Unconfirmed,
            Self::Fatal(_) => FailureKind::Fatal,
            Self::Inner(failure) => failure.kind,
        }
    }
}

impl From<Violations> for ToolError {
    fn from(violations: Violations) -> Self {
        Self::InvalidArguments(violations.to_string().into())
    }
}

/// Drops the source.
impl From<&ToolError> for Failure {
    fn from(error: &ToolError) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}
