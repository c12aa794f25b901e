use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use ::http::{HeaderName, HeaderValue, StatusCode};
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use haft_http::{client, tls::RootCertificates};
use reqwest::redirect;
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetExtensions as _, JsonRpcMessage,
        NumberOrString, ProgressNotificationParam, ProgressToken, ServerJsonRpcMessage, ServerResult,
    },
    transport::{
        common::http_header::HEADER_LAST_EVENT_ID,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
            StreamableHttpResponseLimits,
        },
    },
};
use sse_stream::Sse;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::{
    awaited::AwaitedResponse,
    error::{Refusal, describe},
    forgotten::ForgottenSessions,
    oversized::{Oversized, ReopenedStream},
    post::{Posted, post},
    reply::{self, RequestHeads},
    resumption::{ResumableStreams, StreamOwner},
    secrets::Secrets,
};
use crate::call_data::RequestHeaders;
#[cfg(feature = "oauth")]
use crate::oauth::TokenSource;
use crate::transport::{Envelope, EventForwarder, ServerEvents};

/// The error of an HTTP request to an MCP server.
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;

/// The minimum number of progress subscriptions at which closed ones are removed.
const MIN_SWEPT_SUBSCRIPTIONS: usize = 64;

/// Builds an HTTP client. It honours the proxy variables of the environment. It follows a redirect
/// only within the origin, because requests have credentials, and only with status 307 or 308,
/// which keep the method and the body. After the other redirects, the server may have processed the
/// call.
///
/// # Errors
///
/// Returns a description of the fault in the TLS configuration.
pub(crate) fn new_client() -> Result<reqwest::Client, String> {
    client_builder()?.build().map_err(|error| format!("cannot create the HTTP client: {error}"))
}

/// Returns the builder of [`new_client`].
pub(crate) fn client_builder() -> Result<reqwest::ClientBuilder, String> {
    let builder = client::builder(RootCertificates::SystemIfPresent)
        .map_err(|error| format!("invalid TLS configuration: {error}"))?;
    Ok(builder.redirect(redirect::Policy::custom(|attempt| match attempt.status().as_u16() {
        307 | 308 => client::follow_within_origin(attempt),
        _ => attempt.stop(),
    })))
}

/// Removes the URL from `error`, because rmcp logs errors, and a URL may contain a secret.
fn without_url(error: HttpError) -> HttpError {
    match error {
        HttpError::Client(error) => HttpError::Client(error.without_url()),
        other => other,
    }
}

/// The HTTP backend of rmcp's transport.
///
/// It sends requests with `reqwest`. Before rmcp reads an event of a stream, it forwards progress
/// notifications to the callers in order, and detects changes of the tool list.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    events: Arc<ServerEvents>,
    subscriptions: Arc<Subscriptions>,
    resumable: Arc<ResumableStreams>,
    forgotten: Arc<ForgottenSessions>,
    reopened: Arc<ReopenedStream>,
    probe_timeout: Duration,
    /// The tokens of a client that acts for itself.
    #[cfg(feature = "oauth")]
    tokens: Option<Arc<TokenSource>>,
    /// Cancels [`ServerEvents::closed`] when the transport is dropped.
    _closed: Arc<DropGuard>,
}

/// The recipients of progress notifications.
#[derive(Default)]
struct Subscriptions(Mutex<SubscriptionMap>);

#[derive(Default)]
struct SubscriptionMap {
    by_token: HashMap<ProgressToken, EventForwarder>,
    /// The number of subscriptions at which closed ones are removed.
    sweep_at: usize,
}

impl Subscriptions {
    fn add(&self, forwarder: EventForwarder) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.by_token.len() >= map.sweep_at.max(MIN_SWEPT_SUBSCRIPTIONS) {
            map.by_token.retain(|_, forwarder| !forwarder.is_closed());
            map.sweep_at = 2 * map.by_token.len();
        }
        map.by_token.insert(forwarder.token().clone(), forwarder);
    }

    fn forward(&self, report: &ProgressNotificationParam) {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(forwarder) = map.by_token.get(&report.progress_token) {
            forwarder.forward(report);
        }
    }

    /// Returns the open calls, the latest first.
    fn open(&self) -> Vec<EventForwarder> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open: Vec<_> = map.by_token.values().filter(|it| it.may_elicit()).cloned().collect();
        open.sort_unstable_by_key(|forwarder| match &forwarder.token().0 {
            NumberOrString::Number(number) => Reverse(*number),
            NumberOrString::String(_) => Reverse(i64::MIN),
        });
        open
    }
}

impl HttpClient {
    /// Creates a backend over `client`. `probe_timeout` is the maximum time to wait for the
    /// response to `server/discover`.
    pub(crate) fn new(client: reqwest::Client, events: Arc<ServerEvents>, probe_timeout: Duration) -> Self {
        let closed = Arc::new(events.closed.clone().drop_guard());
        Self {
            client,
            events,
            subscriptions: Arc::default(),
            resumable: Arc::default(),
            forgotten: Arc::default(),
            reopened: Arc::default(),
            probe_timeout,
            #[cfg(feature = "oauth")]
            tokens: None,
            _closed: closed,
        }
    }

    /// Sends the tokens of `tokens`.
    #[cfg(feature = "oauth")]
    pub(crate) fn with_tokens(mut self, tokens: TokenSource) -> Self {
        self.tokens = Some(Arc::new(tokens));
        self
    }

    /// Returns `true` if the requests have the tokens of a client that acts for itself.
    #[cfg(feature = "oauth")]
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Sends a request with `send`, which gets the access token, or `token` without client
    /// credentials. If the server rejects the token, or requires further scopes, sends the request
    /// once more with another token. A request whose `own_headers` have an authorization gets no
    /// access token.
    async fn authorized<T, F>(
        &self,
        token: Option<String>,
        own_headers: Option<&RequestHeaders>,
        send: impl Fn(Option<String>) -> F,
    ) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        #[cfg(feature = "oauth")]
        if let Some(tokens) = &self.tokens
            && !own_headers.is_some_and(RequestHeaders::has_authorization)
        {
            let token = tokens.token().await?;
            let send = |token: String| send(Some(token));
            return match send(token.clone()).await {
                Err(HttpError::AuthRequired(_)) => send(tokens.replacement(&token).await?).await,
                Err(HttpError::InsufficientScope(error)) => {
                    match tokens.with_scopes(&token, error.required_scope.as_deref()).await {
                        Ok(Some(token)) => send(token).await,
                        Ok(None) => Err(HttpError::InsufficientScope(error)),
                        Err(denied) => {
                            tracing::debug!(%denied, "the further scopes are not granted");
                            Err(HttpError::InsufficientScope(error))
                        }
                    }
                }
                sent => sent,
            };
        }
        #[cfg(not(feature = "oauth"))]
        let _ = own_headers;
        send(token).await
    }

    /// Posts `message` with `heads`. The errors in the response contain neither the URL nor the
    /// secrets of the request.
    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        heads: RequestHeads,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let secrets = Secrets::new(heads.token.as_ref(), &heads.headers);
        let posted = post(&self.client, uri, message, heads, limits).await;
        let redact = |error| secrets.redact_error(without_url(error));
        let response = match posted.map_err(redact) {
            Ok(Posted::Response(response)) => *response,
            Ok(Posted::SessionForgotten { error, reason }) => {
                return self.forgotten_session(message, error, &reason, &secrets);
            }
            Err(error) => return Err(self.failed_post(message, error)),
        };
        Ok(match response {
            StreamableHttpPostResponse::Json(mut response, session_id) => {
                secrets.redact_message(&mut response);
                if is_initialize(message) && !matches!(response, JsonRpcMessage::Error(_)) {
                    self.forgotten.set_open();
                }
                StreamableHttpPostResponse::Json(response, session_id)
            }
            StreamableHttpPostResponse::Sse(stream, session_id) => {
                if is_initialize(message) {
                    self.forgotten.set_open();
                }
                StreamableHttpPostResponse::Sse(secrets.redact_stream(stream), session_id)
            }
            other => other,
        })
    }

    /// Handles a response to `message` about a session that the server does not know. After the
    /// first response, rmcp opens the session again. The second one is the response to the request.
    fn forgotten_session(
        &self,
        message: &ClientJsonRpcMessage,
        error: Option<ErrorData>,
        reason: &str,
        secrets: &Secrets,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let Some(awaited) = AwaitedResponse::to(message) else { return Err(HttpError::SessionExpired) };
        if self.forgotten.record(awaited.id()) {
            // A server that has started again may have other tools.
            if !awaited.is_list() {
                self.events.list_changed.notify_one();
            }
            return Err(HttpError::SessionExpired);
        }
        let Some(mut error) = error else {
            return Err(HttpError::UnexpectedServerResponse(secrets.redact(reason).into()));
        };
        secrets.redact_data(&mut error);
        Ok(StreamableHttpPostResponse::Json(awaited.error(error), None))
    }

    /// Returns the error for `message`, whose POST has failed with `error`. It is marked if a
    /// session cannot be opened again: the error must not look like a response to the repeated
    /// request.
    fn failed_post(&self, message: &ClientJsonRpcMessage, error: HttpError) -> HttpError {
        let is_login = matches!(error, HttpError::AuthRequired(_) | HttpError::InsufficientScope(_));
        if is_login || !is_initialize(message) || !self.forgotten.was_open() {
            return error;
        }
        Refusal::NoSession(describe(&error)).into()
    }

    /// Handles the messages in `stream`, the events of the response to `request`, or of a session.
    /// `owner` is the request that the stream belongs to.
    fn watch(
        &self,
        stream: BoxStream<'static, Result<Sse, SseError>>,
        request: Option<EventForwarder>,
        owner: Option<StreamOwner>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let (events, subscriptions) = (Arc::clone(&self.events), Arc::clone(&self.subscriptions));
        let resumable = Arc::clone(&self.resumable);
        let mut last_id: Option<String> = None;
        let oversized = match owner.as_ref() {
            Some(owner) => Oversized::EndsRequest(owner.awaited.clone()),
            None => Oversized::Reopens(Arc::clone(&self.reopened)),
        };
        let reopened = owner.is_none().then(|| Arc::clone(&self.reopened));
        let inspect = move |mut event: Sse| {
            if let Some(owner) = &owner {
                if let Some(id) = &event.id {
                    resumable.record(id.clone(), last_id.as_deref(), owner.clone());
                    last_id = Some(id.clone());
                }
                event = owner.awaited.correct(event);
            }
            if let Some(reopened) = &reopened {
                reopened.record(&event);
            }
            handle(&event, &events, &subscriptions, request.as_ref());
            event
        };
        oversized.handle(stream.map_ok(inspect).boxed())
    }
}

/// Returns `true` if `message` is `initialize`.
fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

/// Handles the message in `event`, if it is about progress, a change of the tool list, or an
/// elicitation. rmcp receives the message afterwards. `request` is the request that the stream
/// belongs to. An elicitation on the stream of a session may belong to any open request.
fn handle(
    event: &Sse,
    events: &ServerEvents,
    subscriptions: &Subscriptions,
    request: Option<&EventForwarder>,
) {
    // A response has no method.
    let data = event.data.as_deref().filter(|data| data.contains("\"method\"")).unwrap_or_default();
    let Ok(message) = serde_json::from_str::<Envelope<'_>>(data) else { return };
    match (message.method.as_deref(), message.params) {
        (Some("notifications/progress"), Some(params)) => {
            if let Ok(report) = serde_json::from_str(params.get()) {
                subscriptions.forward(&report);
            }
        }
        (Some("notifications/tools/list_changed"), _) => events.list_changed.notify_one(),
        (Some("elicitation/create"), _) => {
            let calls = request.map_or_else(|| subscriptions.open(), |request| vec![request.clone()]);
            events.elicitations.record(&message, calls);
        }
        _ => {}
    }
}

/// Returns `true` if `message` is an error, or a valid response to `server/discover`. Some servers
/// respond to an unknown method with an empty result.
fn is_discover_response(message: &ServerJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Error(_) => true,
        JsonRpcMessage::Response(response) => matches!(response.result, ServerResult::DiscoverResult(_)),
        _ => false,
    }
}

/// Returns the response "method not found" to `message` if it is `server/discover`, so that rmcp
/// falls back to `initialize`.
fn unanswered_discover(message: &ClientJsonRpcMessage, after: Duration) -> Option<ServerJsonRpcMessage> {
    let JsonRpcMessage::Request(request) = message else { return None };
    if !matches!(request.request, ClientRequest::DiscoverRequest(_)) {
        return None;
    }
    let reason = format!("no response within {after:?}");
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None);
    Some(JsonRpcMessage::error(error, Some(request.id.clone())))
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        mut auth_header: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let (request, own_headers) = match &message {
            JsonRpcMessage::Request(request) => {
                let own_headers = request.request.extensions().get::<RequestHeaders>().cloned();
                (EventForwarder::from_request(&request.request), own_headers)
            }
            _ => (None, None),
        };
        if let Some(own_headers) = &own_headers {
            own_headers.add_to(&mut headers, &mut auth_header);
        }
        if let Some(forwarder) = request.clone() {
            self.subscriptions.add(forwarder);
        }
        let is_resumable = super::has_sessions(&headers);
        let no_response = unanswered_discover(&message, self.probe_timeout);
        let owner = AwaitedResponse::to(&message)
            .map(|awaited| StreamOwner { awaited, headers: own_headers.clone() });
        let send = |token| {
            let heads = RequestHeads { session_id: session_id.clone(), token, headers: headers.clone() };
            self.post(&uri, &message, heads, limits)
        };
        let post = self.authorized(auth_header, own_headers.as_ref(), send);
        let response = match no_response {
            Some(error) => {
                let response = async { post.await?.expect_initialized::<reqwest::Error>().await };
                return match timeout(self.probe_timeout, response).await {
                    Ok(Ok((message, session_id))) if is_discover_response(&message) => {
                        Ok(StreamableHttpPostResponse::Json(message, session_id))
                    }
                    Ok(Err(failed)) => Err(failed),
                    Ok(Ok(_)) => Ok(StreamableHttpPostResponse::Json(error, None)),
                    Err(_) => {
                        self.events.has_unanswered_discover.store(true, Ordering::Relaxed);
                        Ok(StreamableHttpPostResponse::Json(error, None))
                    }
                };
            }
            None => post.await?,
        };
        Ok(match response {
            StreamableHttpPostResponse::Sse(mut stream, session_id) => {
                if !is_resumable {
                    // rmcp resumes each stream that has event ids.
                    stream = stream.map_ok(|event| Sse { id: None, ..event }).boxed();
                }
                StreamableHttpPostResponse::Sse(self.watch(stream, request, owner), session_id)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let send =
            |token| self.client.delete_session(uri.clone(), session_id.clone(), token, headers.clone());
        self.authorized(auth_header, None, send).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        mut auth_header: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
        max_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let owner = last_event_id.as_deref().and_then(|id| self.resumable.owner(id));
        let own_headers = owner.as_ref().and_then(|owner| owner.headers.as_ref());
        if let Some(own_headers) = own_headers {
            own_headers.add_to(&mut headers, &mut auth_header);
        }
        let send = async |token: Option<String>| {
            let secrets = Secrets::new(token.as_ref(), &headers);
            let mut request = self.client.get(&*uri);
            if let Some(id) = last_event_id.as_ref().filter(|id| !self.reopened.ends_at(id)) {
                request = request.header(HEADER_LAST_EVENT_ID, id);
            }
            let heads = RequestHeads { session_id: session_id.clone(), token, headers: headers.clone() };
            let opened = open_stream(request, heads, max_bytes).await;
            let stream = opened.map_err(|error| secrets.redact_error(without_url(error)))?;
            Ok(secrets.redact_stream(stream))
        };
        let stream = self.authorized(auth_header, own_headers, send).await?;
        Ok(self.watch(stream, None, owner))
    }
}

/// Sends `request` for an event stream.
async fn open_stream(
    request: reqwest::RequestBuilder,
    heads: RequestHeads,
    max_bytes: usize,
) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
    let reply = reply::send(request, heads).await?;
    let status = reply.status();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return Err(HttpError::ServerDoesNotSupportSse);
    }
    if !status.is_success() {
        return Err(match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            true => HttpError::HttpStatus(reply.status_error()),
            false => HttpError::UnexpectedServerResponse(format!("HTTP {status}").into()),
        });
    }
    if !reply.is_event_stream() && !reply.is_json() {
        return Err(HttpError::UnexpectedContentType(reply.content_type().map(str::to_owned)));
    }
    reply.events(max_bytes)
}
