use haft_core::text::{truncate, without_byte_order_mark};
use reqwest::StatusCode;
use rmcp::{
    model::{ClientJsonRpcMessage, ErrorData},
    transport::streamable_http_client::{StreamableHttpPostResponse, StreamableHttpResponseLimits},
};

use super::{
    HttpError,
    awaited::AwaitedResponse,
    error::Refusal,
    reply::{self, Reply, RequestHeads},
};

/// The maximum length of an invalid body that is quoted in an error, in bytes.
const MAX_EXCERPT_BYTES: usize = 256;

/// The outcome of a POST.
pub(super) enum Posted {
    Response(Box<StreamableHttpPostResponse>),
    /// The server does not know the session of the request, and has not processed the request.
    SessionForgotten {
        error: Option<ErrorData>,
        reason: String,
    },
}

impl Posted {
    fn accepted() -> Self {
        Self::response(StreamableHttpPostResponse::Accepted)
    }

    fn response(response: StreamableHttpPostResponse) -> Self {
        Self::Response(Box::new(response))
    }
}

/// Posts `message` to `url`, and reads the response.
///
/// # Errors
///
/// Fails if the request fails, or if the response is neither a message nor an error response of
/// JSON-RPC.
pub(super) async fn post(
    client: &reqwest::Client,
    url: &str,
    message: &ClientJsonRpcMessage,
    heads: RequestHeads,
    limits: StreamableHttpResponseLimits,
) -> Result<Posted, HttpError> {
    let awaited = AwaitedResponse::to(message);
    let session = SessionState::of(awaited.as_ref(), &heads);
    let request = client.post(url).header("content-type", "application/json");
    let reply = reply::send(request.body(serde_json::to_vec(message)?), heads).await?;
    let status = reply.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(Posted::accepted());
    }
    if !status.is_success() {
        return read_rejection(reply, awaited.as_ref(), session, limits).await;
    }
    // Nothing in the response to another message than a request is used.
    let Some(awaited) = awaited else { return Ok(Posted::accepted()) };
    let session_id = reply.session_id();
    if reply.is_event_stream() {
        let events = reply.events(limits.max_sse_event_size)?;
        return Ok(Posted::response(StreamableHttpPostResponse::Sse(events, session_id)));
    }
    let unlabelled = (!reply.is_json()).then(|| reply.content_type().map(str::to_owned));
    if unlabelled.is_some() && !reply.may_be_json() {
        return Err(HttpError::UnexpectedContentType(unlabelled.flatten()));
    }
    let body = reply.body(limits.max_json_response_size).await?;
    // Without the right type, only the message that the request waits for is JSON.
    if let Some(content_type) = unlabelled {
        let response = str::from_utf8(&body).ok().and_then(|text| awaited.parse(text).ok());
        let response = response.ok_or(HttpError::UnexpectedContentType(content_type))?;
        return Ok(Posted::response(StreamableHttpPostResponse::Json(response, session_id)));
    }
    let invalid = |reason: &str| {
        let body = String::from_utf8_lossy(&body);
        let body = truncate(if body.is_empty() { "(empty)" } else { &body }, MAX_EXCERPT_BYTES);
        HttpError::UnexpectedServerResponse(format!("{reason}: {body}").into())
    };
    let text = str::from_utf8(&body).map_err(|error| invalid(&error.to_string()))?;
    let response = awaited.parse(text).map_err(|reason| invalid(&reason))?;
    Ok(Posted::response(StreamableHttpPostResponse::Json(response, session_id)))
}

/// The session of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionState {
    /// The request belongs to a session.
    Attached,
    /// The request has no session, and the server may require one (revisions up to 2025-11-25).
    Possible,
    /// The request opens a session, or the revision has none.
    None,
}

impl SessionState {
    fn of(awaited: Option<&AwaitedResponse>, heads: &RequestHeads) -> Self {
        match heads.session_id {
            _ if awaited.is_some_and(|awaited| awaited.is_handshake) => Self::None,
            Some(_) => Self::Attached,
            None if super::has_sessions(&heads.headers) => Self::Possible,
            None => Self::None,
        }
    }

    /// Returns `true` if a response with `status` and `text` says that the server does not know the
    /// session. The status is 404 (MCP 2025-11-25, transports, "Session Management"). Some servers
    /// send 410, or 400 with a text about the session.
    fn is_forgotten(self, status: StatusCode, text: &str) -> bool {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => self == Self::Attached,
            StatusCode::BAD_REQUEST => self != Self::None && text.to_ascii_lowercase().contains("session"),
            _ => false,
        }
    }
}

/// Reads `reply`, which has an error status. A JSON-RPC error in its body is the response.
async fn read_rejection(
    reply: Reply,
    awaited: Option<&AwaitedResponse>,
    session: SessionState,
    limits: StreamableHttpResponseLimits,
) -> Result<Posted, HttpError> {
    let (status, is_json) = (reply.status(), reply.is_json());
    let status_error = reply.status_error();
    let is_temporary = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    if is_temporary && !is_json {
        return Err(HttpError::HttpStatus(status_error));
    }
    let max_bytes = if is_json { limits.max_json_response_size } else { limits.max_error_response_size };
    let body = reply.error_text(max_bytes).await;
    let text = without_byte_order_mark(&body);
    let excerpt = truncate(text, limits.max_error_response_size);
    let error = AwaitedResponse::parse_error(text);
    let reason = format!("HTTP {status}: {excerpt}");
    // A call about another kind of session can fail with status 400, its own id and another code
    // than those of the servers that forget sessions.
    let is_answer = awaited.is_some_and(|awaited| awaited.is_answered_by(text))
        && error.as_ref().is_some_and(|error| !matches!(error.code.0, -32000 | -32001 | -32600));
    if session.is_forgotten(status, excerpt) && !(is_answer && status == StatusCode::BAD_REQUEST) {
        return Ok(Posted::SessionForgotten { error, reason });
    }
    let unexpected = || HttpError::UnexpectedServerResponse(reason.clone().into());
    let Some(awaited) = awaited else {
        // A JSON-RPC error about a notification has no recipient.
        return error.map(|_| Posted::accepted()).ok_or_else(unexpected);
    };
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let error = match error {
        // The handshake examines these statuses.
        Some(_) if is_auth && awaited.is_handshake => return Err(unexpected()),
        None if awaited.is_probe() && status.is_client_error() && !is_auth => {
            ErrorData::invalid_request(format!("server/discover rejected with {reason}"), None)
        }
        Some(error) if status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(Refusal::Limited { status: status_error, error }.into());
        }
        Some(error) => error,
        None if is_temporary => return Err(HttpError::HttpStatus(status_error)),
        None => return Err(unexpected()),
    };
    Ok(Posted::response(StreamableHttpPostResponse::Json(awaited.error(error), None)))
}
