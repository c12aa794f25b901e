use std::{fmt, net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use haft_core::{limits, tool::Principal};

use super::{access::BearerTokens, authorization::ProtectedResource};

/// The default time without a message after which a session ends.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The default maximum time for receiving the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The default maximum number of sessions.
const MAX_SESSIONS: usize = 1024;
/// The default maximum number of sessions of a client.
const MAX_SESSIONS_PER_CLIENT: usize = 256;
/// The default maximum number of open connections of [`serve_http`](crate::serve_http).
const MAX_CONNECTIONS: usize = 1024;
/// The default maximum number of open connections of an address.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 256;
/// The default maximum number of calls in progress of a client.
const MAX_CONCURRENT_CALLS: usize = 1024;

/// The configuration of an [`McpService`](crate::McpService).
///
/// # Authentication
///
/// By default, every client that passes the checks of `Host` and `Origin` can call the tools.
/// [`with_bearer_token`](Self::with_bearer_token) permits fixed tokens.
/// [`with_protected_resource`](Self::with_protected_resource) accepts the access tokens of OAuth
/// authorization servers; see [`authorization`](crate::authorization). Both can be combined. The
/// header `Authorization` is removed from a request after its authentication, so handlers and logs
/// do not see the token.
///
/// # Limits
///
/// | limit | default | beyond it |
/// |---|---|---|
/// | length of a body, [`max_body_bytes`](Self::max_body_bytes) | 4 MiB | status 413 |
/// | time for a body, [`body_timeout`](Self::body_timeout) | 30 s | status 408 |
/// | time for headers, also on an idle connection ¹ | 30 s | closed connection |
/// | open connections, [`max_connections`](Self::max_connections) ¹ | 1,024 | clients wait |
/// | open connections of an address, [`max_connections_per_address`] ¹ | 256 | closed connection |
/// | time without progress of a response ¹ | 30 s | closed connection |
/// | requests of a client, [`max_requests_per_minute`] | none | status 429 |
/// | calls in progress of a client, [`max_concurrent_calls`] | 1,024 | JSON-RPC error −32000 |
/// | sessions, [`max_sessions`](Self::max_sessions) | 1,024 | status 503 |
/// | sessions of a client, [`max_sessions_per_client`] | 256 | status 429 |
/// | time without a message in a session, [`session_timeout`] | 5 min | status 404 |
/// | length of an access token | 16 KiB | status 401 |
///
/// ¹ of [`serve_http`](crate::serve_http)
///
/// [`max_connections_per_address`]: Self::max_connections_per_address
/// [`max_requests_per_minute`]: Self::max_requests_per_minute
/// [`max_concurrent_calls`]: Self::max_concurrent_calls
/// [`max_sessions_per_client`]: Self::max_sessions_per_client
/// [`session_timeout`]: Self::session_timeout
///
/// The responses 429 and 503 have the header `Retry-After`. A client is a principal, or without
/// authentication an address; see [`ClientAddress`](crate::ClientAddress).
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
    /// The maximum time for receiving the body of a request. A slower request is rejected with
    /// status 408. Default: 30 seconds.
    pub body_timeout: Duration,
    /// The maximum number of open connections of [`serve_http`](crate::serve_http), at least 1.
    /// Further clients wait until a connection is closed. Default: 1,024.
    pub max_connections: usize,
    /// The maximum number of open connections of an address with [`serve_http`](crate::serve_http),
    /// at least 1. Further connections are closed at once, so that one client cannot use the
    /// connections of the others. IPv6 addresses are grouped by /64 prefix. Behind a reverse proxy,
    /// all connections have its address: set it to `max_connections`. Default: 256.
    pub max_connections_per_address: usize,
    /// The sustained rate of requests of a client per minute, and the maximum burst (GCRA): after a
    /// burst of `n` requests, one more is permitted every `60 / n` seconds. Further requests are
    /// rejected with status 429. Requests without a valid token count for the address of their
    /// client, as do those for metadata and, with [`serve_http`](crate::serve_http), for other
    /// paths. The 16,384 latest clients are counted. Default: `None`, no limit.
    pub max_requests_per_minute: Option<NonZeroU32>,
    /// The maximum number of calls in progress of a client. Further calls fail with the JSON-RPC
    /// error −32000. A call of a session continues after a disconnect, so the number of connections
    /// does not bound it. Default: 1,024.
    pub max_concurrent_calls: usize,
    /// The maximum number of sessions of all clients. Further `initialize` requests are rejected
    /// with status 503. Revision 2026-07-28 has no sessions. Default: 1,024.
    pub max_sessions: usize,
    /// The maximum number of sessions of a client. Further `initialize` requests are rejected with
    /// status 429, so one client cannot use the sessions of the others. Clients without
    /// authentication and without a [`ClientAddress`](crate::ClientAddress) are not limited.
    /// Default: 256.
    pub max_sessions_per_client: usize,
    /// The time without a message after which a session ends, also during a call without progress.
    /// An elicitation must be answered in this time. Revision 2026-07-28 has no sessions. Default:
    /// five minutes.
    pub session_timeout: Duration,
    pub(super) tokens: BearerTokens,
    pub(super) resource: Option<ProtectedResource>,
    pub(super) rejection_hook: Option<RejectionHook>,
}

pub(super) type RejectionHook = Arc<dyn Fn(&RejectedRequest) + Send + Sync>;

/// A request that an [`McpService`](crate::McpService) rejected with status 401, 403 or 429. No
/// tool was called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedRequest {
    /// The status of the response.
    pub status: u16,
    /// The [address](crate::ClientAddress) of the client, if it is known.
    pub address: Option<IpAddr>,
    /// The id of the principal, if its token is valid.
    pub principal: Option<String>,
}

impl Default for HttpServiceConfig {
    fn default() -> Self {
        let origins = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:*"));
        Self {
            allowed_hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            allowed_origins: origins.to_vec(),
            max_body_bytes: limits::HTTP_BODY_BYTES,
            body_timeout: BODY_TIMEOUT,
            max_connections: MAX_CONNECTIONS,
            max_connections_per_address: MAX_CONNECTIONS_PER_ADDRESS,
            max_requests_per_minute: None,
            max_concurrent_calls: MAX_CONCURRENT_CALLS,
            max_sessions: MAX_SESSIONS,
            max_sessions_per_client: MAX_SESSIONS_PER_CLIENT,
            session_timeout: SESSION_TIMEOUT,
            tokens: BearerTokens::default(),
            resource: None,
            rejection_hook: None,
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

    /// Requires authentication, and permits requests with an access token that a verifier of
    /// `resource` accepts. Adds the host of the resource to the permitted values of the header
    /// `Host`.
    ///
    /// A request without a valid token is rejected with status 401, and one without the required
    /// scopes with status 403; see [`authorization`](crate::authorization).
    #[must_use]
    pub fn with_protected_resource(mut self, resource: ProtectedResource) -> Self {
        self.allowed_hosts.push(resource.host().to_owned());
        self.resource = Some(resource);
        self
    }

    /// Sets a function that receives each request with the response 401, 403 or 429, for example
    /// for an audit log. It should return quickly.
    #[must_use]
    pub fn with_rejection_hook(mut self, hook: impl Fn(&RejectedRequest) + Send + Sync + 'static) -> Self {
        self.rejection_hook = Some(Arc::new(hook));
        self
    }

    /// Sets the maximum time for receiving the body of a request.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the maximum number of open connections of [`serve_http`](crate::serve_http).
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets the maximum number of open connections of an address with
    /// [`serve_http`](crate::serve_http).
    #[must_use]
    pub fn with_max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = connections;
        self
    }

    /// Sets the maximum number of calls in progress of a client.
    #[must_use]
    pub fn with_max_concurrent_calls(mut self, calls: usize) -> Self {
        self.max_concurrent_calls = calls;
        self
    }

    /// Sets the maximum number of sessions of all clients.
    #[must_use]
    pub fn with_max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the maximum number of sessions of a client.
    #[must_use]
    pub fn with_max_sessions_per_client(mut self, sessions: usize) -> Self {
        self.max_sessions_per_client = sessions;
        self
    }

    /// Sets the time without a message after which a session ends.
    #[must_use]
    pub fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Returns `true` if requests without a permitted token are rejected.
    pub fn requires_authentication(&self) -> bool {
        self.tokens.len() > 0 || self.resource.is_some()
    }

    /// Sets the maximum length of a request body, in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the maximum number of requests of a client per minute.
    #[must_use]
    pub fn with_max_requests_per_minute(mut self, requests: NonZeroU32) -> Self {
        self.max_requests_per_minute = Some(requests);
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
            .field("body_timeout", &self.body_timeout)
            .field("max_connections", &self.max_connections)
            .field("max_connections_per_address", &self.max_connections_per_address)
            .field("max_requests_per_minute", &self.max_requests_per_minute)
            .field("max_concurrent_calls", &self.max_concurrent_calls)
            .field("max_sessions", &self.max_sessions)
            .field("max_sessions_per_client", &self.max_sessions_per_client)
            .field("session_timeout", &self.session_timeout)
            .field("bearer_tokens", &self.tokens.len())
            .field("resource", &self.resource)
            .finish()
    }
}
