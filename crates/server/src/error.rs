//! Errors of requests.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use haft_core::agent::AgentErrorKind;
use haft_session::{InvalidId, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};

use crate::stored::StoredRunError;

/// An error response: a status and `{"detail": …}`.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: String,
}

/// The body of an error response.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// The fault, its place and the remedy.
    pub(crate) detail: String,
}

/// The error responses of all routes.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "a description, which has no value")]
pub(crate) enum Failures {
    /// The path, the query or a header is invalid.
    #[response(status = 400)]
    Invalid(ErrorBody),
    /// The bearer token is missing or unknown.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The host, the origin, the scopes of the token or the rules of a tool do not permit the request.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// There is no such tool, session, run or waiting call for this principal.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The body did not arrive in time.
    #[response(status = 408)]
    TimedOut(ErrorBody),
    /// The request does not fit the state of the session or the run.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body is too long.
    #[response(status = 413)]
    TooLong(ErrorBody),
    /// The body is invalid.
    #[response(status = 422)]
    Unprocessable(ErrorBody),
    /// The client sends too many requests, or the run has reached a limit.
    #[response(status = 429)]
    TooMany(ErrorBody),
    /// The request failed.
    #[response(status = 500)]
    Failed(ErrorBody),
    /// The model failed.
    #[response(status = 502)]
    ModelFailed(ErrorBody),
    /// The server has too much work, shuts down, or cannot reach its store. `Retry-After` has the
    /// seconds to wait.
    #[response(status = 503)]
    Unavailable(ErrorBody),
    /// The store is full.
    #[response(status = 507)]
    Full(ErrorBody),
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

    pub(crate) fn overloaded() -> Self {
        StoredRunError::Overloaded.into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { detail: self.detail })).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

/// Converts an error, if it is plain text of the access rules or of the router, to the form of the
/// others.
pub(crate) async fn with_json_error(response: Response) -> Response {
    let is_json = |value: &header::HeaderValue| value.as_bytes().starts_with(b"application/json");
    if response.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, 16 * 1024).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let reason = parts.status.canonical_reason().unwrap_or_default().to_lowercase();
    let detail = if text.is_empty() { reason } else { text };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let (json, body) = Json(ErrorBody { detail }).into_response().into_parts();
    parts.headers.extend(json.headers);
    Response::from_parts(parts, body)
}

impl From<InvalidId> for ApiError {
    fn from(error: InvalidId) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
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
            | StoreError::Repeated { .. }
            | StoreError::OtherDecision { .. } => StatusCode::CONFLICT,
            // The header field `Idempotency-Key`, section 2.7 of its draft.
            StoreError::OtherRequest(key) => {
                return Self::invalid(format!("the Idempotency-Key {key:?} belongs to another request"));
            }
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
            StoredRunError::Message(_) | StoredRunError::Elsewhere { .. } => {
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
