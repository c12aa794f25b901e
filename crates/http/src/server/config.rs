use std::{fmt, net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use haft_core::{limits, tool::Principal};

use super::{authentication::BearerTokens, authorization::ProtectedResource};

/// The default maximum time for receiving the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The configuration of an [`AccessLayer`](super::AccessLayer).
///
/// # Authentication
///
/// By default, every client that passes the checks of `Host` and `Origin` is admitted.
/// [`with_bearer_token`](Self::with_bearer_token) permits fixed tokens.
/// [`with_protected_resource`](Self::with_protected_resource) accepts the access tokens of OAuth
/// authorization servers; see [`authorization`](super::authorization). Both can be combined. The
/// header `Authorization` is removed from a request after its authentication, so handlers and logs
/// do not see the token.
///
/// # Limits
///
/// | limit | default | beyond it |
/// |---|---|---|
/// | length of a body, [`max_body_bytes`](Self::max_body_bytes) | 4 MiB | status 413 |
/// | time for a body, [`body_timeout`](Self::body_timeout) | 30 s | status 408 |
/// | requests of a client, [`max_requests_per_minute`] | none | status 429 |
/// | length of an access token | 16 KiB | status 401 |
///
/// [`max_requests_per_minute`]: Self::max_requests_per_minute
///
/// The response 429 has the header `Retry-After`. A client is a principal, or without
/// authentication an address; see [`ClientAddress`](super::ClientAddress).
///
/// # Examples
///
/// ```
/// use haft_core::tool::Principal;
/// use haft_http::server::AccessConfig;
///
/// let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
/// let config = AccessConfig::default()
///     .with_allowed_hosts(["tools.example.org"])
///     .with_bearer_token("secret", ann);
/// assert!(!format!("{config:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct AccessConfig {
    /// The permitted values of the header `Host`, as `host` for any port or as `host:port`. An
    /// empty list permits all values.
    ///
    /// Default: the loopback names. The check prevents DNS rebinding: a web page cannot reach a
    /// server on the machine of its reader through a name that resolves to a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The permitted values of the header `Origin`, as `scheme://host:port`, with the port `*` for
    /// any port. Without a port, the port is the default of `http` or `https`. The value `null`
    /// permits sandboxed pages. A request without `Origin` does not come from a web page and is
    /// permitted.
    ///
    /// Default: `http://localhost:*`, `http://127.0.0.1:*` and `http://[::1]:*`.
    pub allowed_origins: Vec<String>,
    /// The maximum length of a request body, in bytes. A longer body is rejected with status 413.
    /// Default: [`limits::HTTP_BODY_BYTES`].
    pub max_body_bytes: usize,
    /// The maximum time for receiving the body of a request. A slower request is rejected with
    /// status 408. Default: 30 seconds.
    pub body_timeout: Duration,
    /// The sustained rate of requests of a client per minute, and the maximum burst (GCRA): after a
    /// burst of `n` requests, one more is permitted every `60 / n` seconds. Further requests are
    /// rejected with status 429. Requests without a valid token count for the address of their
    /// client, as do those for metadata and those [without
    /// authentication](super::AccessLayer::without_authentication). The 16,384 latest clients are
    /// counted. Default: `None`, no limit.
    pub max_requests_per_minute: Option<NonZeroU32>,
    pub(super) tokens: BearerTokens,
    pub(super) resource: Option<ProtectedResource>,
    pub(super) rejection_hook: Option<RejectionHook>,
}

pub(super) type RejectionHook = Arc<dyn Fn(&RejectedRequest) + Send + Sync>;

/// A request whose response has status 401, 403 or 429, from [`Access`](super::Access) or from its
/// service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedRequest {
    /// The status of the response.
    pub status: u16,
    /// The [address](super::ClientAddress) of the client, if it is known.
    pub address: Option<IpAddr>,
    /// The id of the principal, if its token is valid.
    pub principal: Option<String>,
}

impl Default for AccessConfig {
    fn default() -> Self {
        let origins = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:*"));
        Self {
            allowed_hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            allowed_origins: origins.to_vec(),
            max_body_bytes: limits::HTTP_BODY_BYTES,
            body_timeout: BODY_TIMEOUT,
            max_requests_per_minute: None,
            tokens: BearerTokens::default(),
            resource: None,
            rejection_hook: None,
        }
    }
}

impl AccessConfig {
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

    /// Requires authentication, and permits requests with the bearer token `token`. They have the
    /// principal `principal`.
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
    /// scopes with status 403; see [`authorization`](super::authorization).
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

    /// Sets the maximum length of a request body, in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the maximum time for receiving the body of a request.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the maximum number of requests of a client per minute.
    #[must_use]
    pub fn with_max_requests_per_minute(mut self, requests: NonZeroU32) -> Self {
        self.max_requests_per_minute = Some(requests);
        self
    }

    /// Returns `true` if requests without a permitted token are rejected.
    pub fn requires_authentication(&self) -> bool {
        self.tokens.len() > 0 || self.resource.is_some()
    }
}

/// The debug output contains no tokens.
impl fmt::Debug for AccessConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessConfig")
            .field("allowed_hosts", &self.allowed_hosts)
            .field("allowed_origins", &self.allowed_origins)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("body_timeout", &self.body_timeout)
            .field("max_requests_per_minute", &self.max_requests_per_minute)
            .field("bearer_tokens", &self.tokens.len())
            .field("resource", &self.resource)
            .finish()
    }
}
