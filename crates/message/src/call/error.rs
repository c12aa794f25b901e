use std::{borrow::Cow, time::Duration};

use super::{Failure, FailureKind};
use haft_schema::{TypeMismatch, Violations};

/// A boxed error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a tool call. The variant determines how the agent loop continues.
///
/// The `Display` text is sent to the model, so it must not contain secrets or file paths. The
/// source of the error is logged with `tracing` and never sent to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are invalid. Contains a description of the problems.
    ///
    /// The pipeline rejects arguments that are too long, are malformed or violate the input schema,
    /// and the tool does not run. A tool can also reject arguments itself.
    #[error("invalid arguments: {0}")]
    InvalidArguments(Cow<'static, str>),
    /// The tool rejected the arguments and requests another call with different arguments. Contains
    /// a hint for the model.
    ///
    /// `ToolPolicy::retries` limits the number of consecutive retries.
    #[error("{0}")]
    Retry(String),
    /// The tool failed. The message is sent to the model, and the run continues.
    #[error("{message}")]
    Failed {
        /// The error message for the model.
        message: String,
        /// The underlying error, if any. It is logged with `tracing` and never sent to a model.
        source: Option<BoxError>,
    },
    /// The call was denied, for example by a person or because of a missing scope. Contains the
    /// reason.
    #[error("denied{}", describe_reason(.0))]
    Denied(String),
    /// The deadline of the call passed. Side effects may have happened.
    #[error("timed out after {} ms", .after.as_millis())]
    TimedOut {
        /// The timeout that expired.
        after: Duration,
    },
    /// The run was cancelled. Side effects may have happened.
    #[error("cancelled")]
    Cancelled,
    /// The tool does not exist. Contains the error message, which lists up to 30 available tools.
    #[error("{0}")]
    NotFound(String),
    /// The effect of the call is unknown, for example because the connection was lost or the
    /// process died. Contains the reason.
    #[error("unconfirmed, it may or may not have happened: {0}")]
    Unconfirmed(String),
    /// A fatal error: the agent stops the run. Contains the error message.
    #[error("{0}")]
    Fatal(String),
    /// A nested call made by the tool failed. The call to the tool fails with the same kind and
    /// message.
    #[error(transparent)]
    Inner(#[from] Failure),
}

/// Returns `reason` after a colon, or an empty text if there is no reason.
fn describe_reason(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

impl ToolError {
    /// Converts `error` to [`Failed`](Self::Failed). The `Display` text of `error` is sent to the
    /// model.
    ///
    /// A [`ToolError`] is returned unchanged, even if it is boxed. A [`Failure`], the error of
    /// another call, becomes [`Inner`](Self::Inner).
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

    /// Creates a [`Retry`](Self::Retry) error with the text `hint` for the model.
    pub fn retry(hint: impl Into<String>) -> Self {
        Self::Retry(hint.into())
    }

    /// Creates a [`Denied`](Self::Denied) error. The model reads `denied: ` and `reason`.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied(reason.into())
    }

    /// Creates a [`Fatal`](Self::Fatal) error with the message `message`.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::Fatal(message.into())
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

impl From<TypeMismatch> for ToolError {
    fn from(mismatch: TypeMismatch) -> Self {
        Self::InvalidArguments(mismatch.to_string().into())
    }
}

/// Creates a failure with the kind and the message of the error. The source of the error is
/// dropped.
impl From<&ToolError> for Failure {
    fn from(error: &ToolError) -> Self {
        match error {
            ToolError::Inner(failure) => failure.clone(),
            error => Self::new(error.kind(), error.to_string()),
        }
    }
}
