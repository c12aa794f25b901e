//! Errors of requests.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use haft_core::agent::AgentErrorKind;
use haft_session::{InvalidId, StoreError};
use serde_json::json;

use crate::stored::StoredRunError;

/// An error response: a status and `{"detail": …}`.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"detail": self.detail}))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<InvalidId> for ApiError {
    fn from(error: InvalidId) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::SessionNotFound(_) | StoreError::RunNotFound(_) => StatusCode::NOT_FOUND,
            StoreError::Conflict { .. }
            | StoreError::Busy(_)
            | StoreError::Owned { .. }
            | StoreError::RunOver(_)
            | StoreError::SessionExists(_)
            | StoreError::OtherDecision { .. } => StatusCode::CONFLICT,
            StoreError::Full(_) => {
                tracing::error!(%error, "the store is full");
                return Self::new(StatusCode::INSUFFICIENT_STORAGE, "the store is full");
            }
            _ => {
                tracing::error!(%error, "the store failed");
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store failed");
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<StoredRunError> for ApiError {
    fn from(error: StoredRunError) -> Self {
        match error {
            StoredRunError::Store(error) => error.into(),
            StoredRunError::Agent(error) => (&*error.kind).into(),
            StoredRunError::ShuttingDown | StoredRunError::Overloaded => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            StoredRunError::NotWaiting { .. } => Self::not_found(error.to_string()),
            StoredRunError::WrongDecision { .. } => Self::invalid(error.to_string()),
            StoredRunError::Message(_) | StoredRunError::Elsewhere(_) => {
                Self::new(StatusCode::CONFLICT, error.to_string())
            }
        }
    }
}

impl From<&AgentErrorKind> for ApiError {
    fn from(error: &AgentErrorKind) -> Self {
        let status = match error {
            AgentErrorKind::InvalidInput(_) => StatusCode::UNPROCESSABLE_ENTITY,
            AgentErrorKind::LimitReached(_) => StatusCode::TOO_MANY_REQUESTS,
            AgentErrorKind::Model(_) => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, describe(error))
    }
}

/// Returns the text of an error for a client. The error of a model can have internal addresses and
/// the text of a provider, so it is logged only.
pub(crate) fn describe(error: &AgentErrorKind) -> String {
    match error {
        AgentErrorKind::Model(source) => {
            tracing::warn!(error = %source, "the model failed");
            "the model failed".to_owned()
        }
        error => error.to_string(),
    }
}
