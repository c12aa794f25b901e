//! A toolset as an MCP server with an HTTP endpoint.

mod access;
mod listener;

use std::{
    convert::Infallible,
    fmt::{self, Display},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures::future::BoxFuture;
use haft_core::{limits, tool::Principal};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::local::{LocalSessionManager, SessionConfig},
    },
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use self::access::{Access, BearerTokens};
pub use self::listener::serve_http;
use super::{McpServer, NoHandler, ToolServer};

/// The time without a request after which a session ends.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The body of a response of [`McpService`].
type ResponseBody = BoxBody<Bytes, Infallible>;

/// The configuration of an [`McpService`].
///
/// # Examples
///
/// ```
/// use haft_core::tool::Principal;
/// use haft_mcp::HttpServiceConfig;
///
/// let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
/// let config = HttpServiceConfig::default()
///     .with_allowed_hosts(["mcp.example.org"])
///     .with_bearer_token("secret", ann);
/// assert!(!format!("{config:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpServiceConfig {
    /// The permitted values of the header `Host`, as `host` for any port or as `host:port`. An
    /// empty list permits all values.
    ///
    /// Default: the loopback names. The check prevents DNS rebinding: a web page cannot reach a
    /// server on the machine of its reader through a name that resolves to a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The permitted values of the header `Origin`, as `scheme://host:port`, with the port `*` for
    /// any port. A request without `Origin` does not come from a web page and is permitted.
    ///
    /// Default: `http://localhost:*`, `http://127.0.0.1:*` and `http://[::1]:*`.
    pub allowed_origins: Vec<String>,
    /// The maximum length of a request body, in bytes. A longer body is rejected with status 413.
    /// Default: [`limits::HTTP_BODY_BYTES`].
    pub max_body_bytes: usize,
    /// The time without a message after which a session ends, also during a call without progress.
    /// An elicitation must be answered in this time. Revision 2026-07-28 has no sessions. Default:
    /// five minutes.
    pub session_timeout: Duration,
    tokens: BearerTokens,
}

impl Default for HttpServiceConfig {
    fn default() -> Self {
        let origins = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:*"));
        Self {
            allowed_hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            allowed_origins: origins.to_vec(),
            max_body_bytes: limits::HTTP_BODY_BYTES,
            session_timeout: SESSION_TIMEOUT,
            tokens: BearerTokens::default(),
        }
    }
}

impl HttpServiceConfig {
    /// Adds `hosts` to the permitted values of the header `Host`.
    #[must_use]
    pub fn with_allowed_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.allowed_hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Adds `origins` to the permitted values of the header `Origin`.
    #[must_use]
    pub fn with_allowed_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.allowed_origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Requires authentication, and permits requests with the bearer token `token`. Their calls
    /// have the principal `principal`.
    ///
    /// A request without a permitted token is rejected with status 401. Tokens are compared in
    /// constant time.
    #[must_use]
    pub fn with_bearer_token(mut self, token: impl Into<String>, principal: Principal) -> Self {
        self.tokens.add(token.into(), principal);
        self
    }

    /// Returns `true` if requests without a permitted bearer token are rejected.
    pub fn requires_authentication(&self) -> bool {
        self.tokens.len() > 0
    }

    /// Sets the maximum length of a request body, in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }
}

/// The debug output contains no tokens.
impl fmt::Debug for HttpServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServiceConfig")
            .field("allowed_hosts", &self.allowed_hosts)
            .field("allowed_origins", &self.allowed_origins)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("session_timeout", &self.session_timeout)
            .field("bearer_tokens", &self.tokens.len())
            .finish()
    }
}

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
/// The headers `Host` and `Origin` are checked by default; see [`HttpServiceConfig`]. Without a
/// bearer token, every client that passes these checks can call the tools.
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
    inner: StreamableHttpService<ToolServer<H>, LocalSessionManager>,
    access: Arc<Access>,
    stop: CancellationToken,
}

impl<H: ServerHandler> McpService<H> {
    /// Creates a service for `server`, usually a [`Toolset`](haft_core::Toolset).
    pub fn new(server: impl Into<McpServer<H>>, config: HttpServiceConfig) -> Self {
        let stop = CancellationToken::new();
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(config.session_timeout);
        sessions.session_config = session_config;
        let server_config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(config.allowed_hosts)
            .with_allowed_origins(config.allowed_origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(config.max_body_bytes)
            .with_cancellation_token(stop.clone());
        let server = ToolServer::new(server.into(), CancellationToken::new());
        let inner = StreamableHttpService::new(move || Ok(server.clone()), Arc::new(sessions), server_config);
        Self { inner, access: Arc::new(Access::new(config.tokens)), stop }
    }

    /// Ends all sessions and cancels their calls. Further requests fail with status 503.
    pub fn close(&self) {
        self.stop.cancel();
    }
}

impl<H: ServerHandler> McpService<H> {
    /// Passes `request` to the sessions. The end of a session has status 204, because the official
    /// Python SDK logs a warning for 202, the status of rmcp 3.11.
    fn forward<B>(&mut self, request: Request<B>) -> <Self as Service<Request<B>>>::Future
    where
        B: Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        let is_delete = request.method() == Method::DELETE;
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await?;
            if is_delete && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            Ok(response)
        })
    }
}

impl<H> Clone for McpService<H> {
    fn clone(&self) -> Self {
        let Self { inner, access, stop } = self;
        Self { inner: inner.clone(), access: Arc::clone(access), stop: stop.clone() }
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if self.stop.is_cancelled() {
            let response = text_response(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n");
            return Box::pin(async move { Ok(response) });
        }
        let principal = match self.access.authenticate(request.headers()) {
            Ok(principal) => principal.cloned(),
            Err(challenge) => return Box::pin(async move { Ok(unauthorized(challenge)) }),
        };
        let Some(principal) = principal else {
            request.extensions_mut().remove::<Principal>();
            return self.forward(request);
        };
        if !self.access.may_use_session(request.headers(), &principal) {
            let response = text_response(StatusCode::NOT_FOUND, "unknown session\n");
            return Box::pin(async move { Ok(response) });
        }
        request.extensions_mut().insert(principal.clone());
        let (access, response) = (Arc::clone(&self.access), self.forward(request));
        Box::pin(async move {
            let response = response.await?;
            access.record_session(response.headers(), &principal);
            Ok(response)
        })
    }
}

/// Returns a response with status 401 and `challenge` in the header `WWW-Authenticate` (RFC 6750,
/// section 3).
fn unauthorized(challenge: HeaderValue) -> Response<ResponseBody> {
    let mut response = text_response(StatusCode::UNAUTHORIZED, "a valid bearer token is required\n");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn text_response(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
