//! A toolset as an MCP server with an HTTP endpoint.

mod accept;
mod call_slots;
mod config;
mod json_only;
mod listener;
mod message;
mod sessions;

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use haft_core::{schema::first_rounded_number, tool::Principal};
use haft_http::server::{
    Access, AccessLayer, ClientKey, LimitedBody, ListenerConfig, Rejection, ResponseBody, retry_response,
    text_response,
};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use rmcp::{
    ServerHandler,
    model::{ErrorData, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::local::{LocalSessionManager, SessionConfig},
    },
};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;
use tower_service::Service;

pub(crate) use haft_http::server::ClientSlots;
pub use haft_http::server::{ClientAddress, authorization};

pub(crate) use self::call_slots::acquire_slot;
pub use self::config::HttpServiceConfig;
pub use self::listener::serve_http;
use self::{
    accept::Accepted,
    json_only::{into_json, is_event_stream, with_content_type},
    message::MessageKind,
    sessions::{OpeningSession, SESSION_HEADER, Sessions, TooManySessions},
};
use super::{McpServer, NoHandler, ToolServer, catch_panic, list_contexts::ListContexts};
use crate::transport::{Envelope, inexact_client_response, inexact_reason};

/// The time after which a client should try again to open a session.
const SESSION_PAUSE: Duration = Duration::from_secs(60);

/// The byte order mark in UTF-8, which a client may send (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A `tower` service that serves a toolset over streamable HTTP, in revision 2026-07-28 and in
/// revisions up to 2025-11-25 with sessions.
///
/// Mount it at a path of an `axum` router with `Router::route_service`, or serve it alone with
/// [`serve_http`]. Clones share the sessions.
///
/// Calls run as in [`serve_stdio`](crate::serve_stdio). If a client of revision 2026-07-28 closes
/// the connection, its calls are cancelled. The calls of a session continue, so that the client can
/// resume the response.
///
/// # Security
///
/// The headers `Host` and `Origin` are checked by default, and requests are limited; see
/// [`HttpServiceConfig`]. Without authentication, every client that passes these checks can call
/// the tools.
///
/// # Examples
///
/// ```no_run
/// use haft_core::Toolset;
/// use haft_mcp::{HttpServiceConfig, McpService, serve_http};
/// use tokio::net::TcpListener;
///
/// # async fn example() -> std::io::Result<()> {
/// let service = McpService::new(Toolset::new(), HttpServiceConfig::default());
/// let listener = TcpListener::bind("127.0.0.1:8000").await?;
/// serve_http(service, listener, std::future::pending()).await
/// # }
/// ```
pub struct McpService<H = NoHandler> {
    inner: Access<Endpoint<H>>,
}

/// The service behind the checks of access.
struct Endpoint<H> {
    shared: Arc<Shared<H>>,
}

/// The parts of a service that its clones share.
struct Shared<H> {
    inner: StreamableHttpService<ToolServer<H>, LocalSessionManager>,
    server: McpServer<H>,
    list_contexts: ListContexts,
    access: AccessLayer,
    listener: ListenerConfig,
    sessions: Sessions,
    stop: CancellationToken,
}

impl<H: ServerHandler> McpService<H> {
    /// Creates a service for `server`, usually a [`Toolset`](haft_core::Toolset).
    pub fn new(server: impl Into<McpServer<H>>, config: HttpServiceConfig) -> Self {
        let server = server.into();
        let stop = CancellationToken::new();
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(config.session_timeout);
        sessions.session_config = session_config;
        let sessions = Arc::new(sessions);
        let server_config = StreamableHttpServerConfig::default()
            // The access layer has checked both.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(config.access.max_body_bytes)
            .with_cancellation_token(stop.clone());
        let calls = ClientSlots::new(config.max_concurrent_calls);
        let tools = ToolServer::new(server.clone(), CancellationToken::new()).with_call_slots(calls);
        let inner =
            StreamableHttpService::new(move || Ok(tools.clone()), Arc::clone(&sessions), server_config);
        let access = AccessLayer::new(config.access);
        let shared = Arc::new(Shared {
            inner,
            server,
            list_contexts: ListContexts::default(),
            access: access.clone(),
            listener: config.listener,
            sessions: Sessions::new(config.max_sessions, config.max_sessions_per_client, sessions),
            stop,
        });
        Self { inner: access.layer(Endpoint { shared }) }
    }

    /// Ends all sessions and cancels their calls. Further requests fail with status 503.
    pub fn close(&self) {
        self.inner.get_ref().shared.stop.cancel();
    }
}

impl<H> McpService<H> {
    fn access_layer(&self) -> &AccessLayer {
        self.inner.access_layer()
    }

    fn listener_config(&self) -> &ListenerConfig {
        &self.inner.get_ref().shared.listener
    }
}

impl<H> Clone for McpService<H> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<H> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<H> fmt::Debug for McpService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").finish_non_exhaustive()
    }
}

impl<H, B> Service<Request<B>> for McpService<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.inner.call(request)
    }
}

impl<H, B> Service<Request<LimitedBody<B>>> for Endpoint<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<LimitedBody<B>>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let response = shared.respond(request).await.unwrap_or_else(|rejected| *rejected);
            Ok(with_content_type(response))
        })
    }
}

/// A response, or the response that rejects the request.
type Handled<T> = Result<T, Box<Response<ResponseBody>>>;

impl<H: ServerHandler> Shared<H> {
    async fn respond<B: Body>(
        &self,
        mut request: Request<LimitedBody<B>>,
    ) -> Handled<Response<ResponseBody>> {
        if self.stop.is_cancelled() {
            return Err(Box::new(text_response(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n")));
        }
        self.check_session(&request)?;
        let accepted = negotiate(&mut request)?;
        let (parts, body) = request.into_parts();
        let body = match parts.method {
            Method::POST => read_body(body).await?,
            _ => Bytes::new(),
        };
        let (id, body) = check_body(body, accepted)?;
        let opening = self.check_message(&parts, &body).await?;
        let is_delete = parts.method == Method::DELETE;
        let mut response = self.inner.handle(Request::from_parts(parts, Full::new(body))).await;
        if is_delete && response.status() == StatusCode::ACCEPTED {
            // The official Python SDK logs a warning for 202, the status of rmcp 3.11.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(opening) = opening {
            opening.record(response.headers());
        }
        if !accepted.events && is_event_stream(&response) {
            return Ok(into_json(response, id).await);
        }
        Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    /// Checks the owner of the session of `request`.
    fn check_session<B>(&self, request: &Request<B>) -> Handled<()> {
        let extensions = request.extensions();
        let is_allowed = extensions.get::<Principal>().is_none()
            || extensions
                .get::<ClientKey>()
                .is_some_and(|client| self.sessions.may_use(request.headers(), client));
        match is_allowed {
            true => Ok(()),
            false => Err(Box::new(text_response(StatusCode::NOT_FOUND, "unknown session\n"))),
        }
    }

    /// Checks the maximum number of sessions, and the scopes of a call. Returns the permission to
    /// open a session, which is valid until the response.
    async fn check_message(&self, parts: &Parts, body: &[u8]) -> Handled<Option<OpeningSession<'_>>> {
        if body.is_empty() {
            return Ok(None);
        }
        match MessageKind::of(body) {
            MessageKind::Initialize if !parts.headers.contains_key(SESSION_HEADER) => {
                let client = parts.extensions.get().cloned().unwrap_or(ClientKey::Unknown);
                let opening = self.sessions.open(client).await.map_err(|too_many| {
                    let (status, text) = match too_many {
                        TooManySessions::OfAllClients => {
                            (StatusCode::SERVICE_UNAVAILABLE, "too many sessions\n")
                        }
                        TooManySessions::OfClient => {
                            (StatusCode::TOO_MANY_REQUESTS, "too many sessions of this client\n")
                        }
                    };
                    Box::new(retry_response(status, text, SESSION_PAUSE))
                })?;
                Ok(Some(opening))
            }
            MessageKind::CallTool(name) => {
                if let Some(principal) = parts.extensions.get() {
                    self.check_scopes(principal, &name).await?;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Checks that `principal` has the scopes of `tool`. Without a protected resource, a client
    /// cannot request scopes: the pipeline denies the call, and the model reads the missing scope.
    async fn check_scopes(&self, principal: &Principal, tool: &str) -> Handled<()> {
        let Some(resource) = self.access.resource() else { return Ok(()) };
        let list_cx = self.list_contexts.get(Some(principal));
        // After a panic, the call fails for the same reason.
        let Ok(tools) = catch_panic(self.server.tools.list(&list_cx)).await else { return Ok(()) };
        let Some(tool) = tools.get(tool) else { return Ok(()) };
        let checked = resource.check_scopes(principal, &tool.definition().policy().required_scopes);
        checked.map_err(|rejection| Box::new(rejection.into_response()))
    }
}

/// Reads the body of a POST, without a byte order mark.
async fn read_body<B: Body>(body: LimitedBody<B>) -> Handled<Bytes> {
    let body = body.collect().await.map_err(|error| Box::new(Rejection::Body(error).into_response()))?;
    let mut body = body.to_bytes();
    if body.starts_with(BYTE_ORDER_MARK) {
        body.advance(BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

/// Returns the media types that `request` accepts, and replaces its header `Accept` for rmcp, which
/// compares names and no ranges.
///
/// # Errors
///
/// Returns the response 406 if the request accepts no response that the server could send. A POST
/// must accept JSON, and a GET an event stream.
fn negotiate<B>(request: &mut Request<B>) -> Handled<Accepted> {
    let accepted = Accepted::of(request.headers());
    let fault = match *request.method() {
        Method::POST if !accepted.json => "the header Accept must cover application/json\n",
        Method::GET if !accepted.events => "the header Accept must cover text/event-stream\n",
        _ => {
            Accepted::replace(request.headers_mut());
            return Ok(accepted);
        }
    };
    Err(Box::new(text_response(StatusCode::NOT_ACCEPTABLE, fault)))
}

/// Checks `body`, the message of a POST, before rmcp parses it. Returns its id and the body for
/// rmcp: a response with a number that cannot be held exactly is replaced with an error.
///
/// # Errors
///
/// Returns the response 406 to a subscription of a client that accepts no event stream, and an
/// error response to a request with a number that cannot be held exactly.
fn check_body(body: Bytes, accepted: Accepted) -> Handled<(Option<RequestId>, Bytes)> {
    let Ok(text) = str::from_utf8(&body) else { return Ok((None, body)) };
    let Ok(message) = serde_json::from_str::<Envelope<'_>>(text) else { return Ok((None, body)) };
    if !accepted.events && message.method.as_deref() == Some("subscriptions/listen") {
        let fault = "the header Accept must cover text/event-stream\n";
        return Err(Box::new(text_response(StatusCode::NOT_ACCEPTABLE, fault)));
    }
    let is_request = message.method.is_some() && message.id.is_some();
    match first_rounded_number(text).filter(|_| is_request) {
        Some(number) => {
            let error = ErrorData::invalid_params(inexact_reason(number), None);
            let error = ServerJsonRpcMessage::error(error, message.id);
            Err(Box::new(json_response(StatusCode::BAD_REQUEST, &error)))
        }
        None => {
            let error = inexact_client_response(&message).and_then(|error| serde_json::to_vec(&error).ok());
            Ok((message.id, error.map_or_else(|| body.clone(), Bytes::from)))
        }
    }
}

/// Returns a response with `message`, a JSON-RPC error.
fn json_response(status: StatusCode, message: &ServerJsonRpcMessage) -> Response<ResponseBody> {
    let mut response = json_body(serde_json::to_vec(message).unwrap_or_default());
    *response.status_mut() = status;
    response
}

/// Returns a response with the JSON text `text`.
fn json_body(text: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(text.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(accept::JSON));
    response
}

#[cfg(test)]
mod tests;
