use std::{convert::Infallible, time::Duration};

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use serde::Serialize;
use serde_json::Value;

use super::{access::Rejection, body::BodyError};

/// The body of a response of [`McpService`](crate::McpService).
pub(super) type ResponseBody = BoxBody<Bytes, Infallible>;

/// The time after which a client should repeat a request whose token could not be verified.
const UNAVAILABLE_PAUSE: Duration = Duration::from_secs(30);

pub(super) fn text_response(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Returns a response with `message`, a JSON-RPC error.
pub(super) fn json_response(status: StatusCode, message: &impl Serialize) -> Response<ResponseBody> {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns a response with `status` and the header `Retry-After`, in whole seconds.
pub(super) fn retry_response(
    status: StatusCode,
    text: &'static str,
    after: Duration,
) -> Response<ResponseBody> {
    let mut response = text_response(status, text);
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response
}

/// Returns the metadata of a protected resource (RFC 9728, section 3.2). Web pages of other origins
/// can read it.
pub(super) fn metadata_response(metadata: &Value) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from(metadata.to_string())).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}

impl From<Rejection> for Response<ResponseBody> {
    fn from(rejection: Rejection) -> Self {
        let (status, text, challenge) = match rejection {
            Rejection::Unauthorized(challenge) => {
                (StatusCode::UNAUTHORIZED, "a valid bearer token is required\n", challenge)
            }
            Rejection::Forbidden(challenge) => {
                (StatusCode::FORBIDDEN, "the token has not the required scopes\n", challenge)
            }
            Rejection::Unavailable => {
                let text = "the token cannot be verified at present\n";
                return retry_response(StatusCode::SERVICE_UNAVAILABLE, text, UNAVAILABLE_PAUSE);
            }
        };
        let mut response = text_response(status, text);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        response
    }
}

impl From<BodyError> for Response<ResponseBody> {
    fn from(error: BodyError) -> Self {
        let (status, text) = match error {
            BodyError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n"),
            BodyError::TimedOut => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n"),
            BodyError::Failed => (StatusCode::BAD_REQUEST, "the body cannot be read\n"),
        };
        let mut response = text_response(status, text);
        // The rest of the body is not read.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
