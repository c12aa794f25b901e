//! Responses for clients that accept no event stream.

use std::convert::Infallible;

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::combinators::BoxBody;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use sse_stream::SseStream;

use super::{ResponseBody, json_body};
use crate::transport::Envelope;

/// Converts `response`, an event stream, to its last message as JSON: the response to the request
/// `id`. Notifications before it are dropped.
pub(super) async fn into_json(
    response: Response<BoxBody<Bytes, Infallible>>,
    id: Option<RequestId>,
) -> Response<ResponseBody> {
    let (mut parts, body) = response.into_parts();
    let mut events = SseStream::new(body);
    let message = loop {
        let Some(Ok(event)) = events.next().await else {
            break error(id, "the response ended early");
        };
        let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
        let message = serde_json::from_str::<Envelope<'_>>(&data);
        match message.map(|message| (message.method.is_some(), message.id.is_some())) {
            Ok((false, _)) => break data,
            Ok((true, true)) => {
                break error(
                    id,
                    "the tool requests input: accept `text/event-stream` to receive the request",
                );
            }
            Ok((true, false)) | Err(_) => {}
        }
    };
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(super::accept::JSON));
    Response::from_parts(parts, json_body(message).into_body())
}

/// Returns the text of an error response to the request `id`.
fn error(id: Option<RequestId>, reason: &'static str) -> String {
    let error: ServerJsonRpcMessage = JsonRpcMessage::error(ErrorData::internal_error(reason, None), id);
    serde_json::to_string(&error).unwrap_or_default()
}

/// Adds a content type to `response` if it is an error without one. Some clients fail at an error
/// without a content type.
pub(super) fn with_content_type(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if is_error {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().entry(header::CONTENT_TYPE).or_insert(text);
    }
    response
}

/// Returns `true` if `response` has an event stream.
pub(super) fn is_event_stream<B>(response: &Response<B>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    response.status() == StatusCode::OK
        && content_type.is_some_and(|it| it.starts_with(super::accept::EVENT_STREAM))
}
