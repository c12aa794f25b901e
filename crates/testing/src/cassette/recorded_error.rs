use std::time::Duration;

use serde::{Deserialize, Serialize};

use haft_core::{
    message::AssistantMessage,
    model::{ModelError, ModelFailure, TimeoutPhase},
};

/// A [`ModelError`] in a form that can be serialized. The `source` of the error is not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum RecordedError {
    Unauthorized { message: String },
    Rejected { status: u16, body: String },
    RateLimited { message: String, retry_after: Option<Duration>, permanent: bool },
    Server { status: Option<u16>, body: String, retry_after: Option<Duration> },
    Unreachable { endpoint: String, reason: String },
    TimedOut { phase: RecordedPhase, after: Duration },
    ContextTooLong { message: String },
    Truncated { reason: String, partial: Box<AssistantMessage> },
    EmptyResponse,
    InvalidResponse { message: String },
    Unsupported { message: String },
    Failed { message: String },
    AllFailed { failures: Vec<RecordedFailure> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedFailure {
    model: String,
    error: RecordedError,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordedPhase {
    Connect,
    FirstByte,
    Idle,
    Total,
}

impl From<&ModelError> for RecordedError {
    fn from(error: &ModelError) -> Self {
        match error {
            ModelError::Unauthorized(message) => Self::Unauthorized { message: message.clone() },
            ModelError::Rejected { status, body } => Self::Rejected { status: *status, body: body.clone() },
            ModelError::RateLimited { message, retry_after, permanent } => Self::RateLimited {
                message: message.clone(),
                retry_after: *retry_after,
                permanent: *permanent,
            },
            ModelError::Server { status, body, retry_after } => {
                Self::Server { status: *status, body: body.clone(), retry_after: *retry_after }
            }
            ModelError::Unreachable { endpoint, reason, .. } => {
                Self::Unreachable { endpoint: endpoint.clone(), reason: reason.clone() }
            }
            ModelError::TimedOut { phase, after } => Self::TimedOut { phase: (*phase).into(), after: *after },
            ModelError::ContextTooLong(message) => Self::ContextTooLong { message: message.clone() },
            ModelError::Truncated { reason, partial } => {
                Self::Truncated { reason: reason.clone(), partial: partial.clone() }
            }
            ModelError::EmptyResponse => Self::EmptyResponse,
            ModelError::InvalidResponse(message) => Self::InvalidResponse { message: message.clone() },
            ModelError::Unsupported(message) => Self::Unsupported { message: message.clone() },
            ModelError::Failed { message, .. } => Self::Failed { message: message.clone() },
            ModelError::AllFailed { failures } => {
                let recorded = |ModelFailure { model, error }: &ModelFailure| RecordedFailure {
                    model: model.clone(),
                    error: error.into(),
                };
                Self::AllFailed { failures: failures.iter().map(recorded).collect() }
            }
            // `ModelError` is non-exhaustive, so future variants are recorded with their message
            // only.
            other => Self::Failed { message: other.to_string() },
        }
    }
}

impl From<RecordedError> for ModelError {
    fn from(error: RecordedError) -> Self {
        match error {
            RecordedError::Unauthorized { message } => Self::Unauthorized(message),
            RecordedError::Rejected { status, body } => Self::Rejected { status, body },
            RecordedError::RateLimited { message, retry_after, permanent } => {
                Self::RateLimited { message, retry_after, permanent }
            }
            RecordedError::Server { status, body, retry_after } => Self::Server { status, body, retry_after },
            RecordedError::Unreachable { endpoint, reason } => {
                Self::Unreachable { endpoint, reason, source: None }
            }
            RecordedError::TimedOut { phase, after } => Self::TimedOut { phase: phase.into(), after },
            RecordedError::ContextTooLong { message } => Self::ContextTooLong(message),
            RecordedError::Truncated { reason, partial } => Self::Truncated { reason, partial },
            RecordedError::EmptyResponse => Self::EmptyResponse,
            RecordedError::InvalidResponse { message } => Self::InvalidResponse(message),
            RecordedError::Unsupported { message } => Self::Unsupported(message),
            RecordedError::Failed { message } => Self::Failed { message, source: None },
            RecordedError::AllFailed { failures } => {
                let failure = |RecordedFailure { model, error }| ModelFailure { model, error: error.into() };
                Self::AllFailed { failures: failures.into_iter().map(failure).collect() }
            }
        }
    }
}

impl From<TimeoutPhase> for RecordedPhase {
    fn from(phase: TimeoutPhase) -> Self {
        match phase {
            TimeoutPhase::Connect => Self::Connect,
            TimeoutPhase::FirstByte => Self::FirstByte,
            TimeoutPhase::Idle => Self::Idle,
            _ => Self::Total,
        }
    }
}

impl From<RecordedPhase> for TimeoutPhase {
    fn from(phase: RecordedPhase) -> Self {
        match phase {
            RecordedPhase::Connect => Self::Connect,
            RecordedPhase::FirstByte => Self::FirstByte,
            RecordedPhase::Idle => Self::Idle,
            RecordedPhase::Total => Self::Total,
        }
    }
}
