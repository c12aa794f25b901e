use std::collections::HashMap;

use ::http::{
    HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use futures::stream::{self, BoxStream, StreamExt as _};
use haft_http::client::{ReadBodyError, content_coding, read_body};
use rmcp::transport::{
    common::http_header::{
        EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_MCP_PROTOCOL_VERSION, HEADER_SESSION_ID,
        JSON_MIME_TYPE,
    },
    streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
    },
};
use sse_stream::{Sse, SseStream};

use super::{HttpError, challenge::BearerChallenge, event_size::EventSize};

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The headers of a request that belong to the session and the caller.
pub(super) struct RequestHeads {
    pub(super) session_id: Option<std::sync::Arc<str>>,
    pub(super) token: Option<String>,
    /// The headers of the server, of the call, and of the protocol revision.
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
}

/// A response with its body not yet read.
pub(super) struct Reply(reqwest::Response);

/// Sends `request`, and returns a response that does not require an authorization.
///
/// # Errors
///
/// Fails if the request fails, if a header of it is reserved for the protocol, or with
/// [`StreamableHttpError::AuthRequired`] or [`StreamableHttpError::InsufficientScope`] if the
/// server rejects the credentials with a challenge.
pub(super) async fn send(request: reqwest::RequestBuilder, heads: RequestHeads) -> Result<Reply, HttpError> {
    let mut request = request.header(ACCEPT, [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", "));
    if let Some(token) = heads.token {
        request = request.bearer_auth(token);
    }
    for (name, value) in heads.headers {
        if is_reserved(&name) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.header(name, value);
    }
    if let Some(session_id) = heads.session_id {
        request = request.header(HEADER_SESSION_ID, session_id.as_ref());
    }
    let response = request.send().await?;
    let status = response.status();
    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(Reply(response));
    }
    if !response.headers().contains_key(WWW_AUTHENTICATE) {
        return Ok(Reply(response));
    }
    let challenge = BearerChallenge::of(response.headers()).unwrap_or_default();
    if status == StatusCode::UNAUTHORIZED {
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_string())));
    }
    let scope = challenge.parameter("scope").map(str::to_owned);
    Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge.to_string(), scope)))
}

fn is_reserved(name: &HeaderName) -> bool {
    let is = |other: &str| name.as_str().eq_ignore_ascii_case(other);
    // The revision is a header that rmcp adds.
    !is(HEADER_MCP_PROTOCOL_VERSION) && (*name == ACCEPT || is(HEADER_SESSION_ID) || is(HEADER_LAST_EVENT_ID))
}

impl Reply {
    pub(super) fn status(&self) -> StatusCode {
        self.0.status()
    }

    fn header(&self, name: impl ::http::header::AsHeaderName) -> Option<&str> {
        self.0.headers().get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn session_id(&self) -> Option<String> {
        self.header(HEADER_SESSION_ID).map(str::to_owned)
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        self.header(CONTENT_TYPE)
    }

    fn has_type(&self, media_type: &str) -> bool {
        let essence = self.content_type().and_then(|it| it.split(';').next()).unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(media_type)
    }

    pub(super) fn is_json(&self) -> bool {
        self.has_type(JSON_MIME_TYPE)
    }

    /// Returns `true` if the type does not exclude JSON. Some servers send JSON without a type, or
    /// as plain text.
    pub(super) fn may_be_json(&self) -> bool {
        let vague = ["text/plain", "text/json", "application/octet-stream"];
        self.content_type().is_none() || vague.iter().any(|media_type| self.has_type(media_type))
    }

    pub(super) fn is_event_stream(&self) -> bool {
        self.has_type(EVENT_STREAM_MIME_TYPE)
    }

    /// Returns the error for the status, with the time of `Retry-After`.
    pub(super) fn status_error(&self) -> HttpStatusError {
        HttpStatusError::new(self.status().as_u16(), self.header(RETRY_AFTER).map(str::to_owned))
    }

    /// Reads the body, which has at most `max_bytes`.
    pub(super) async fn body(mut self, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
        read_body(&mut self.0, max_bytes).await.map_err(body_error)
    }

    /// Reads the first `max_bytes` of the body of an error, as text. Returns a note in parentheses
    /// for a body that is compressed or lost.
    pub(super) async fn error_text(mut self, max_bytes: usize) -> String {
        if let Some(coding) = content_coding(&self.0) {
            return format!("(the body is compressed with {coding})");
        }
        let mut body = Vec::new();
        while body.len() < max_bytes {
            match self.0.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => return "(the body is lost)".to_owned(),
            }
        }
        body.truncate(max_bytes);
        String::from_utf8_lossy(without_mark(&body)).into_owned()
    }

    /// Returns the events of the body. The stream fails at an event with more than `max_bytes`.
    pub(super) fn events(
        self,
        max_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        if let Some(coding) = content_coding(&self.0) {
            return Err(body_error(ReadBodyError::Compressed(coding.to_owned())));
        }
        let size = EventSize::new(max_bytes);
        let chunks = stream::try_unfold((self.0, size), move |(mut response, mut size)| async move {
            let Some(chunk) = response.chunk().await? else { return Ok(None) };
            match size.add(&chunk) {
                true => Ok(Some((chunk, (response, size)))),
                false => Err(ReadBodyError::TooLong(max_bytes)),
            }
        });
        Ok(SseStream::from_bytes_stream(Box::pin(chunks)).boxed())
    }
}

fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)
}

fn body_error(error: ReadBodyError) -> HttpError {
    match error {
        ReadBodyError::Lost(error) => HttpError::Client(error),
        ReadBodyError::TooLong(max_size) => HttpError::ResponseBodyTooLarge { max_size },
        _ => HttpError::UnexpectedServerResponse(error.to_string().into()),
    }
}
