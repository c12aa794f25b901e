use std::{borrow::Cow, time::Duration};

use super::{Failure, FailureKind};
use crate::schema::Violations;

/// Any error that can be sent between threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed, and what the loop must do about it.
///
/// The text of an error is what the model reads; keep secrets and paths out of it. Sources are for the trace
/// and never reach the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit: the model is told what would, and may try again. The tool did not run.
    #[error("invalid arguments: {0}")]
    InvalidArguments(Cow<'static, str>),
    /// The tool asks for another try, and says what to change. Bounded by [`Policy::retries`](crate::tool::Policy).
    #[error("{0}")]
    Retry(String),
    /// The tool failed: the model is told and the run goes on.
    #[error("{message}")]
    Failed {
        /// What the model reads.
        message: String,
        /// What the trace is told besides.
        source: Option<BoxError>,
    },
    /// A gate or a person said no. The tool did not run.
    #[error("denied{}", Reason(.0))]
    Denied(String),
    /// The deadline passed. The effect may have happened.
    #[error("timed out after {}", Millis(*after))]
    TimedOut {
        /// How long the call was given.
        after: Duration,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// There is no such tool; the text lists those that exist.
    #[error("{0}")]
    NotFound(String),
    /// The effect may have happened, nobody knows: connection or process were lost.
    #[error("unconfirmed, it may or may not have happened: {0}")]
    Unconfirmed(String),
    /// The run must stop.
    #[error("{0}")]
    Fatal(String),
    /// A call that the tool made itself failed, and so does this one: in those words, with that meaning.
    #[error(transparent)]
    Inner(#[from] Failure),
}

/// Why, if somebody said why.
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
    /// Makes a failure of any error, whose text the model reads. A `ToolError` keeps its meaning, and so does the [`Failure`] of
    /// another call.
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

    /// Asks the model for another try.
    pub fn retry(hint: impl Into<String>) -> Self {
        Self::Retry(hint.into())
    }

    /// What this means for the loop.
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

/// The plain data that is recorded: the source stays behind.
impl From<&ToolError> for Failure {
    fn from(error: &ToolError) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}
