use std::{collections::HashMap, sync::Arc};

use ::http::{HeaderName, HeaderValue};
use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    schema::first_rounded_number,
    text::{truncate, without_hidden_chars},
};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage,
    },
    transport::{
        Transport,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpPostResponse, StreamableHttpResponseLimits,
        },
    },
};
use sse_stream::Sse;

use tokio::sync::mpsc;

use super::{CHANNEL_CAPACITY, HttpError};
use crate::{
    HttpServer,
    transport::{Envelope, ResponseKind, inexact_reason},
};

/// The name of the event with the URL for messages.
const ENDPOINT_EVENT: &str = "endpoint";
/// The maximum length of an invalid message that is logged, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// The client side of HTTP with SSE, the transport of revision 2024-11-05: the server sends all
/// messages over one event stream, and the client posts its messages to the URL in the first event.
pub(crate) struct SseTransport<C> {
    client: C,
    /// The URL for messages.
    endpoint: Arc<str>,
    headers: HashMap<HeaderName, HeaderValue>,
    limits: StreamableHttpResponseLimits,
    stream: BoxStream<'static, Result<Sse, SseError>>,
    /// The messages in the responses to the POSTs, for example errors.
    posted: mpsc::Receiver<ServerJsonRpcMessage>,
    posted_sender: mpsc::Sender<ServerJsonRpcMessage>,
    open_requests: HashMap<RequestId, ResponseKind>,
}

impl<C: StreamableHttpClient<Error = reqwest::Error> + Sync> SseTransport<C> {
    /// Opens the event stream of `server`, and waits for the URL for messages.
    ///
    /// # Errors
    ///
    /// Fails if the request fails, if the stream ends before the URL, or if the URL has another
    /// origin than the server. Credentials would be sent to that origin.
    pub(super) async fn open(
        server: &HttpServer,
        client: C,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Self, HttpError> {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_sse_event_size = server.options.max_message_bytes;
        limits.max_json_response_size = server.options.max_message_bytes;
        let (url, max_bytes) = (Arc::from(server.url.as_str()), limits.max_sse_event_size);
        let mut stream = client
            .get_stream_with_max_sse_event_size(url, None, None, None, headers.clone(), max_bytes)
            .await?;
        let endpoint = loop {
            let event = stream.next().await.ok_or(HttpError::UnexpectedEndOfStream)??;
            if event.event.as_deref() == Some(ENDPOINT_EVENT) {
                break resolve(&server.url, event.data.as_deref().unwrap_or_default().trim())?;
            }
        };
        let (posted_sender, posted) = mpsc::channel(CHANNEL_CAPACITY);
        let open_requests = HashMap::new();
        Ok(Self { client, endpoint, headers, limits, stream, posted, posted_sender, open_requests })
    }
}

impl<C> SseTransport<C> {
    fn track_sent(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let kind = ResponseKind::of(request.request.method());
                self.open_requests.insert(request.id.clone(), kind);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open_requests.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    fn track_received(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Response(response) => self.open_requests.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.open_requests.remove(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
    }

    /// Parses the response `data` if it has a number that cannot be held exactly, which rmcp would
    /// round.
    fn parse_inexact(&self, data: &str) -> Option<ServerJsonRpcMessage> {
        let number = first_rounded_number(data)?;
        let message: Envelope<'_> = serde_json::from_str(data).ok()?;
        let id = message.id.filter(|_| message.method.is_none())?;
        let kind = self.open_requests.get(&id).copied();
        if let (Some(kind @ (ResponseKind::Raw | ResponseKind::List)), Some(result)) = (kind, message.result)
        {
            return Some(match kind.parse(result) {
                Ok(result) => JsonRpcMessage::response(result, id),
                Err(error) => kind.invalid_response(id, &error.to_string()),
            });
        }
        let reason = format!("invalid response: {}", inexact_reason(number));
        Some(JsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, reason, None), Some(id)))
    }
}

/// Returns the URL `endpoint`, which may be relative to `url`.
fn resolve(url: &str, endpoint: &str) -> Result<Arc<str>, HttpError> {
    let invalid = |reason: &'static str| HttpError::UnexpectedServerResponse(reason.into());
    let base = reqwest::Url::parse(url).map_err(|_| invalid("the URL of the server is invalid"))?;
    let resolved = base.join(endpoint).map_err(|_| invalid("the URL for messages is invalid"))?;
    if resolved.origin() != base.origin() {
        return Err(invalid("the URL for messages has another origin than the server"));
    }
    Ok(resolved.as_str().into())
}

impl<C: StreamableHttpClient<Error = reqwest::Error> + Sync> Transport<RoleClient> for SseTransport<C> {
    type Error = HttpError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        self.track_sent(&message);
        let (client, endpoint) = (self.client.clone(), Arc::clone(&self.endpoint));
        let (headers, limits) = (self.headers.clone(), self.limits);
        let posted = self.posted_sender.clone();
        async move {
            let post =
                client.post_message_with_response_limits(endpoint, message, None, None, headers, limits);
            if let StreamableHttpPostResponse::Json(response, _) = post.await? {
                // Sending fails only after the end of the transport.
                let _ = posted.send(response).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = loop {
            let event = tokio::select! {
                Some(response) = self.posted.recv() => break response,
                event = self.stream.next() => event?,
            };
            let event = event.inspect_err(|error| tracing::warn!(%error, "the event stream broke")).ok()?;
            let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            if let Some(response) = self.parse_inexact(&data) {
                break response;
            }
            match serde_json::from_str(&data) {
                Ok(message) => break message,
                Err(error) => {
                    let data = without_hidden_chars(&data);
                    let data = truncate(&data, MAX_EXCERPT_BYTES);
                    tracing::warn!(%error, data, "dropped an invalid message from the server");
                }
            }
        };
        self.track_received(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.stream = futures::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn endpoint_has_the_origin_of_the_server() {
        let resolved =
            |endpoint| resolve("https://example.org/sse", endpoint).map_err(|error| error.to_string());
        assert_eq!(&*resolved("/messages?id=1").unwrap(), "https://example.org/messages?id=1");
        assert_eq!(&*resolved("https://example.org/m").unwrap(), "https://example.org/m");
        for foreign in ["https://evil.example/m", "http://example.org/m", "//evil.example/m"] {
            assert!(resolved(foreign).unwrap_err().contains("another origin"), "{foreign}");
        }
    }
}
