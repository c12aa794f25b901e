//! A toolset as an MCP server with an HTTP endpoint.

mod accept;
mod access;
pub mod authorization;
mod body;
mod client;
mod config;
mod json_only;
mod listener;
mod message;
mod rate_limit;
mod response;
mod sessions;
mod write_deadline;

use std::{
    convert::Infallible,
    fmt::{self, Display},
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts, uri::Scheme,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use haft_core::{schema::first_rounded_number, tool::Principal};
use http_body::Body;
use http_body_util::Full;
use rmcp::{
    ServerHandler,
    model::{ErrorData, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::local::{LocalSessionManager, SessionConfig},
    },
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub use self::client::ClientAddress;
pub(crate) use self::client::{ClientSlots, acquire_slot};
pub use self::config::HttpServiceConfig;
use self::config::RejectionHook;
pub use self::listener::serve_http;
use self::{
    accept::Accepted,
    access::Access,
    body::read_body,
    client::ClientKey,
    json_only::{into_json, is_event_stream, with_content_type},
    message::MessageKind,
    rate_limit::RequestLimit,
    response::{ResponseBody, json_response, metadata_response, retry_response, text_response},
    sessions::{OpeningSession, SESSION_HEADER, Sessions, TooManySessions},
};
use super::{McpServer, NoHandler, ToolServer, catch_panic, list_contexts::ListContexts};
use crate::transport::{Envelope, inexact_client_response, inexact_reason};

/// The time after which a client should try again to open a session.
const SESSION_PAUSE: Duration = Duration::from_secs(60);

/// The headers that a request must not repeat.
const SINGULAR_HEADERS: [HeaderName; 3] = [header::HOST, header::ORIGIN, header::AUTHORIZATION];

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
    shared: Arc<Shared<H>>,
}

/// The parts of a service that its clones share.
struct Shared<H> {
    inner: StreamableHttpService<ToolServer<H>, LocalSessionManager>,
    server: McpServer<H>,
    list_contexts: ListContexts,
    access: Access,
    requests: Option<RequestLimit>,
    sessions: Sessions,
    max_body_bytes: usize,
    body_timeout: Duration,
    max_connections: usize,
    max_connections_per_address: usize,
    rejection_hook: Option<RejectionHook>,
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
            .with_allowed_hosts(config.allowed_hosts)
            .with_allowed_origins(config.allowed_origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(config.max_body_bytes)
            .with_cancellation_token(stop.clone());
        let calls = ClientSlots::new(config.max_concurrent_calls);
        let tools = ToolServer::new(server.clone(), CancellationToken::new()).with_call_slots(calls);
        let inner =
            StreamableHttpService::new(move || Ok(tools.clone()), Arc::clone(&sessions), server_config);
        let shared = Shared {
            inner,
            server,
            list_contexts: ListContexts::default(),
            access: Access::new(config.tokens, config.resource),
            requests: config.max_requests_per_minute.map(RequestLimit::per_minute),
            sessions: Sessions::new(config.max_sessions, config.max_sessions_per_client, sessions),
            max_body_bytes: config.max_body_bytes,
            body_timeout: config.body_timeout,
            max_connections: config.max_connections,
            max_connections_per_address: config.max_connections_per_address,
            rejection_hook: config.rejection_hook,
            stop,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Ends all sessions and cancels their calls. Further requests fail with status 503.
    pub fn close(&self) {
        self.shared.stop.cancel();
    }
}

impl<H> McpService<H> {
    /// Returns `true` if `path` is a path of the metadata of the protected resource.
    fn is_metadata_path(&self, path: &str) -> bool {
        self.shared.access.resource().is_some_and(|resource| resource.is_metadata_path(path))
    }

    fn max_connections(&self) -> usize {
        self.shared.max_connections
    }

    fn max_connections_per_address(&self) -> usize {
        self.shared.max_connections_per_address
    }

    /// Returns the response with status 404 to a request of `address` for another path, or with
    /// status 429 after too many requests.
    fn not_found(&self, address: ClientAddress, text: &'static str) -> Response<ResponseBody> {
        let counted = self.shared.count(&ClientKey::new(None, Some(address)));
        let response =
            counted.map_or_else(|limited| *limited, |()| text_response(StatusCode::NOT_FOUND, text));
        self.shared.report(&response, Some(address.0), None);
        response
    }
}

impl<H> Clone for McpService<H> {
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
    B::Data: Send + 'static,
    B::Error: Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let address = request.extensions().get::<ClientAddress>().map(|address| address.0);
            let mut principal = None;
            let response = shared.respond(request, &mut principal).await.unwrap_or_else(|rejected| *rejected);
            let response = with_content_type(response);
            shared.report(&response, address, principal);
            Ok(response)
        })
    }
}

/// A response, or the response that rejects the request.
type Handled<T> = Result<T, Box<Response<ResponseBody>>>;

impl<H> Shared<H> {
    /// Counts a request of `client`.
    fn count(&self, client: &ClientKey) -> Handled<()> {
        let Some(limit) = &self.requests else { return Ok(()) };
        limit.count(client).map_err(|after| {
            Box::new(retry_response(StatusCode::TOO_MANY_REQUESTS, "too many requests\n", after))
        })
    }

    /// Passes a request to the hook of the configuration if `response` rejects it.
    fn report(
        &self,
        response: &Response<ResponseBody>,
        address: Option<IpAddr>,
        principal: Option<Principal>,
    ) {
        if let (Some(hook), status @ (401 | 403 | 429)) = (&self.rejection_hook, response.status().as_u16()) {
            let principal = principal.map(|principal| principal.id);
            hook(&authorization::RejectedRequest { status, address, principal });
        }
    }
}

impl<H: ServerHandler> Shared<H> {
    /// Responds to `request`, and sets `caller` to the principal of its token.
    async fn respond<B: Body>(
        &self,
        mut request: Request<B>,
        caller: &mut Option<Principal>,
    ) -> Handled<Response<ResponseBody>> {
        if self.stop.is_cancelled() {
            return Err(Box::new(text_response(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n")));
        }
        let metadata = self.access.resource().filter(|it| it.is_metadata_path(request.uri().path()));
        if let Some(resource) = metadata {
            self.count(&ClientKey::new(None, request.extensions().get::<ClientAddress>().copied()))?;
            return Ok(respond_with_metadata(request.method(), &resource.metadata()));
        }
        self.admit(&mut request, caller).await?;
        let accepted = negotiate(&mut request)?;
        let (parts, body) = request.into_parts();
        let body = match parts.method {
            Method::POST => read_body(body, self.max_body_bytes, self.body_timeout)
                .await
                .map_err(|error| Box::new(error.into()))?,
            _ => Bytes::new(),
        };
        let (id, body) = check_body(body, accepted)?;
        let opening = self.check_message(&parts, caller.as_ref(), &body).await?;
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
            response = into_json(response, id).await;
        }
        Ok(response)
    }

    /// Authenticates and counts a request, and checks the owner of its session. Replaces the token
    /// of the request by its principal. Sets `caller` to the principal before the other checks.
    async fn admit<B>(&self, request: &mut Request<B>, caller: &mut Option<Principal>) -> Handled<()> {
        let address = request.extensions().get::<ClientAddress>().copied();
        let authenticated = self.access.authenticate(request.headers()).await;
        let principal = authenticated.as_ref().ok().and_then(Option::as_ref);
        *caller = principal.cloned();
        let client = ClientKey::new(principal, address);
        self.count(&client)?;
        check_singular_headers(request)?;
        let principal = authenticated.map_err(|rejection| Box::new(rejection.into()))?;
        let is_allowed = principal.is_none() || self.sessions.may_use(request.headers(), &client);
        let extensions = request.extensions_mut();
        extensions.insert(client);
        extensions.remove::<Principal>();
        if let Some(principal) = principal {
            extensions.insert(principal);
            request.headers_mut().remove(header::AUTHORIZATION);
        }
        match is_allowed {
            true => Ok(()),
            false => Err(Box::new(text_response(StatusCode::NOT_FOUND, "unknown session\n"))),
        }
    }

    /// Checks the maximum number of sessions, and the scopes of a call. Returns the permission to
    /// open a session, which is valid until the response.
    async fn check_message(
        &self,
        parts: &Parts,
        principal: Option<&Principal>,
        body: &[u8],
    ) -> Handled<Option<OpeningSession<'_>>> {
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
                if let Some(principal) = principal {
                    self.check_scopes(principal, &name).await.map_err(|it| Box::new(it.into()))?;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    async fn check_scopes(&self, principal: &Principal, tool: &str) -> Result<(), access::Rejection> {
        if self.access.resource().is_none() {
            return Ok(());
        }
        let list_cx = self.list_contexts.get(Some(principal));
        // After a panic, the call fails for the same reason.
        let Ok(tools) = catch_panic(self.server.tools.list(&list_cx)).await else { return Ok(()) };
        match tools.get(tool) {
            Some(tool) => self.access.check_scopes(principal, &tool.definition().policy().required_scopes),
            None => Ok(()),
        }
    }
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

/// Rejects a request whose headers contradict one another: a proxy in front of the server may have
/// checked another line than the server does (RFC 9112, section 3.2).
fn check_singular_headers<B>(request: &Request<B>) -> Handled<()> {
    let headers = request.headers();
    let is_repeated = SINGULAR_HEADERS.iter().any(|name| headers.get_all(name).iter().nth(1).is_some());
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let is_other = host.zip(request.uri().authority()).is_some_and(|(host, authority)| {
        let scheme = request.uri().scheme();
        let authority = without_default_port(authority.as_str().as_bytes(), scheme);
        !without_default_port(host, scheme).eq_ignore_ascii_case(authority)
    });
    match is_repeated || is_other {
        true => Err(Box::new(text_response(StatusCode::BAD_REQUEST, "the headers are ambiguous\n"))),
        false => Ok(()),
    }
}

/// Returns `authority` without an empty port, and without the default port of `scheme`, which may
/// be omitted (RFC 9110, section 4.2.3).
fn without_default_port<'a>(authority: &'a [u8], scheme: Option<&Scheme>) -> &'a [u8] {
    let port: &[u8] = match scheme.map(Scheme::as_str) {
        Some("http") => b":80",
        Some("https") => b":443",
        _ => b":",
    };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

fn respond_with_metadata(method: &Method, metadata: &serde_json::Value) -> Response<ResponseBody> {
    match *method {
        Method::GET | Method::HEAD => metadata_response(metadata),
        _ => text_response(StatusCode::METHOD_NOT_ALLOWED, "the method must be GET\n"),
    }
}

#[cfg(test)]
mod tests;
