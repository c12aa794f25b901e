use std::time::Duration;

use bytes::Bytes;
use haft_core::call::BoxError;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};

use super::BodyError;

/// The body of a response of [`Access`](super::Access).
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The time after which a client should repeat a request whose token could not be verified.
const UNAVAILABLE_PAUSE: Duration = Duration::from_secs(30);

/// The reason for the rejection of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// Status 400: `Host`, `Origin` or `Authorization` is repeated, or `Host` contradicts the
    /// target.
    AmbiguousHeaders,
    /// Status 400: the header `Host` is missing or invalid.
    InvalidHost,
    /// Status 403: the header `Host` is not permitted.
    ForbiddenHost,
    /// Status 403: the header `Origin` is not permitted.
    ForbiddenOrigin,
    /// Status 401: the request has no valid token. The field is the value of `WWW-Authenticate`.
    Unauthorized(HeaderValue),
    /// Status 403: the token lacks a scope. The field is the value of `WWW-Authenticate`.
    InsufficientScope(HeaderValue),
    /// Status 503: the token cannot be verified at present.
    Unverifiable,
    /// Status 429: the client sends too many requests. The field is the time until the next one is
    /// permitted.
    TooManyRequests(Duration),
    /// The body is too long (status 413), too slow (408), or cannot be read (400).
    Body(BodyError),
}

impl Rejection {
    /// Returns the response for a client, with a line of plain text.
    pub fn into_response(self) -> Response<ResponseBody> {
        let (status, text) = match &self {
            Self::AmbiguousHeaders => (StatusCode::BAD_REQUEST, "the headers are ambiguous\n"),
            Self::InvalidHost => (StatusCode::BAD_REQUEST, "the header Host is missing or invalid\n"),
            Self::ForbiddenHost => (StatusCode::FORBIDDEN, "the header Host is not permitted\n"),
            Self::ForbiddenOrigin => (StatusCode::FORBIDDEN, "the header Origin is not permitted\n"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "a valid bearer token is required\n"),
            Self::InsufficientScope(_) => (StatusCode::FORBIDDEN, "the token has not the required scopes\n"),
            Self::Unverifiable => {
                (StatusCode::SERVICE_UNAVAILABLE, "the token cannot be verified at present\n")
            }
            Self::TooManyRequests(_) => (StatusCode::TOO_MANY_REQUESTS, "too many requests\n"),
            Self::Body(BodyError::TooLong) => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n"),
            Self::Body(BodyError::TimedOut) => {
                (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n")
            }
            Self::Body(BodyError::Failed) => (StatusCode::BAD_REQUEST, "the body cannot be read\n"),
        };
        let mut response = match self {
            Self::Unverifiable => retry_response(status, text, UNAVAILABLE_PAUSE),
            Self::TooManyRequests(after) => retry_response(status, text, after),
            _ => text_response(status, text),
        };
        match self {
            Self::Unauthorized(challenge) | Self::InsufficientScope(challenge) => {
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            // The rest of the body is not read.
            Self::Body(_) => {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// Returns a response with `status` and the plain text `text`.
pub fn text_response(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Returns a response with `status`, the plain text `text`, and the header `Retry-After`: `after`
/// in whole seconds, rounded up, at least one.
pub fn retry_response(status: StatusCode, text: &'static str, after: Duration) -> Response<ResponseBody> {
    let mut response = text_response(status, text);
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response
}

pub(super) fn full_body(text: impl Into<Bytes>) -> ResponseBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}
