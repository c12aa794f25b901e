use std::{num::NonZeroU32, time::Duration};

use haft_core::tool::Principal;
use haft_http::server::{AccessConfig, ListenerConfig, RejectedRequest, authorization::ProtectedResource};

/// The default time without a message after which a session ends.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The default maximum number of sessions.
const MAX_SESSIONS: usize = 1024;
/// The default maximum number of sessions of a client.
const MAX_SESSIONS_PER_CLIENT: usize = 256;
/// The default maximum number of calls in progress of a client.
const MAX_CONCURRENT_CALLS: usize = 1024;

/// The configuration of an [`McpService`](crate::McpService): the checks of its requests, the
/// connections of [`serve_http`](crate::serve_http), and the limits of calls and sessions.
///
/// # Authentication
///
/// By default, every client that passes the checks of `Host` and `Origin` can call the tools.
/// [`with_bearer_token`](Self::with_bearer_token) permits fixed tokens.
/// [`with_protected_resource`](Self::with_protected_resource) accepts the access tokens of OAuth
/// authorization servers; see [`authorization`](crate::authorization). Both can be combined. A
/// session can be used only by the principal that opened it.
///
/// # Limits
///
/// | limit | default | beyond it |
/// |---|---|---|
/// | length of a body, [`with_max_body_bytes`] | 4 MiB | status 413 |
/// | time for a body, [`with_body_timeout`] | 30 s | status 408 |
/// | time for headers, also on an idle connection ¹ | 30 s | closed connection |
/// | open connections, [`with_max_connections`] ¹ | 1,024 | clients wait |
/// | open connections of an address, [`with_max_connections_per_address`] ¹ | 256 | closed connection |
/// | time without progress of a response ¹ | 30 s | closed connection |
/// | requests of a client, [`with_max_requests_per_minute`] | none | status 429 |
/// | calls in progress of a client, [`max_concurrent_calls`] | 1,024 | JSON-RPC error −32000 |
/// | sessions, [`max_sessions`](Self::max_sessions) | 1,024 | status 503 |
/// | sessions of a client, [`max_sessions_per_client`] | 256 | status 429 |
/// | time without a message in a session, [`session_timeout`] | 5 min | status 404 |
/// | length of an access token | 16 KiB | status 401 |
///
/// ¹ of [`serve_http`](crate::serve_http)
///
/// [`with_max_body_bytes`]: Self::with_max_body_bytes
/// [`with_body_timeout`]: Self::with_body_timeout
/// [`with_max_connections`]: Self::with_max_connections
/// [`with_max_connections_per_address`]: Self::with_max_connections_per_address
/// [`with_max_requests_per_minute`]: Self::with_max_requests_per_minute
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpServiceConfig {
    /// The checks of each request.
    pub access: AccessConfig,
    /// The limits of the connections of [`serve_http`](crate::serve_http).
    pub listener: ListenerConfig,
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
}

impl Default for HttpServiceConfig {
    fn default() -> Self {
        Self {
            access: AccessConfig::default(),
            listener: ListenerConfig::default(),
            max_concurrent_calls: MAX_CONCURRENT_CALLS,
            max_sessions: MAX_SESSIONS,
            max_sessions_per_client: MAX_SESSIONS_PER_CLIENT,
            session_timeout: SESSION_TIMEOUT,
        }
    }
}

impl HttpServiceConfig {
    /// Sets the checks of each request.
    #[must_use]
    pub fn with_access(mut self, access: AccessConfig) -> Self {
        self.access = access;
        self
    }

    /// Adds permitted hosts: see [`AccessConfig::with_allowed_hosts`].
    #[must_use]
    pub fn with_allowed_hosts<H: Into<String>>(self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.map_access(|access| access.with_allowed_hosts(hosts))
    }

    /// Adds permitted origins: see [`AccessConfig::with_allowed_origins`].
    #[must_use]
    pub fn with_allowed_origins<O: Into<String>>(self, origins: impl IntoIterator<Item = O>) -> Self {
        self.map_access(|access| access.with_allowed_origins(origins))
    }

    /// Adds a permitted token: see [`AccessConfig::with_bearer_token`].
    #[must_use]
    pub fn with_bearer_token(self, token: impl Into<String>, principal: Principal) -> Self {
        self.map_access(|access| access.with_bearer_token(token, principal))
    }

    /// Permits the tokens of authorization servers: see [`AccessConfig::with_protected_resource`].
    #[must_use]
    pub fn with_protected_resource(self, resource: ProtectedResource) -> Self {
        self.map_access(|access| access.with_protected_resource(resource))
    }

    /// Sets a function for rejected requests: see [`AccessConfig::with_rejection_hook`].
    #[must_use]
    pub fn with_rejection_hook(self, hook: impl Fn(&RejectedRequest) + Send + Sync + 'static) -> Self {
        self.map_access(|access| access.with_rejection_hook(hook))
    }

    /// Sets the maximum length of a request body: see [`AccessConfig::max_body_bytes`].
    #[must_use]
    pub fn with_max_body_bytes(self, bytes: usize) -> Self {
        self.map_access(|access| access.with_max_body_bytes(bytes))
    }

    /// Sets the maximum time for a request body: see [`AccessConfig::body_timeout`].
    #[must_use]
    pub fn with_body_timeout(self, timeout: Duration) -> Self {
        self.map_access(|access| access.with_body_timeout(timeout))
    }

    /// Sets the maximum rate of requests: see [`AccessConfig::max_requests_per_minute`].
    #[must_use]
    pub fn with_max_requests_per_minute(self, requests: NonZeroU32) -> Self {
        self.map_access(|access| access.with_max_requests_per_minute(requests))
    }

    /// Sets the maximum number of connections: see [`ListenerConfig::max_connections`].
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.listener.max_connections = connections;
        self
    }

    /// Sets the maximum number of connections of an address: see
    /// [`ListenerConfig::max_connections_per_address`].
    #[must_use]
    pub fn with_max_connections_per_address(mut self, connections: usize) -> Self {
        self.listener.max_connections_per_address = connections;
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
        self.access.requires_authentication()
    }

    fn map_access(mut self, change: impl FnOnce(AccessConfig) -> AccessConfig) -> Self {
        self.access = change(self.access);
        self
    }
}
