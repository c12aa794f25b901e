use std::{collections::BTreeMap, fmt, sync::Arc};

use haft_core::{ToolContext, ToolError};

#[cfg(feature = "http")]
use crate::ConnectionPool;
#[cfg(feature = "oauth")]
use crate::{CredentialFile, client_credentials::ClientCredentials};
use crate::{ServerOptions, call_data::CallHeaders, callback::Callback};

/// The configuration of an MCP server with an HTTP endpoint.
///
/// # Examples
///
/// ```
/// use haft_mcp::HttpServer;
///
/// let server = HttpServer::new("https://mcp.example.org/mcp").with_bearer_token("secret");
/// assert_eq!(format!("{server:?}").contains("secret"), false);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpServer {
    /// The URL of the MCP endpoint, with the scheme `http` or `https`.
    pub url: String,
    /// The headers of every HTTP request to the server.
    pub headers: BTreeMap<String, String>,
    pub(crate) call_headers: Option<CallHeaders>,
    /// The HTTP transport of the server. Default: [`HttpTransport::Auto`].
    pub transport: HttpTransport,
    /// The OAuth tokens of the server. Default: none.
    #[cfg(feature = "oauth")]
    pub credentials: Option<CredentialFile>,
    #[cfg(feature = "http")]
    pub(crate) connection_pool: ConnectionPool,
    /// The client that acts for itself at the server, without a user. It takes precedence over the
    /// tokens in [`credentials`](Self::credentials). Default: none.
    #[cfg(feature = "oauth")]
    pub client_credentials: Option<ClientCredentials>,
    /// Limits for the connection, and the selection of tools.
    pub options: ServerOptions,
}

/// An HTTP transport of the MCP specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP, or HTTP with SSE if the server rejects the first request with a client
    /// error (specification 2025-11-25, transports, "Backwards Compatibility").
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE of revision 2024-11-05, which later revisions replaced.
    Sse,
}

impl HttpServer {
    /// Creates a configuration for the endpoint `url` with the default limits and no headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: BTreeMap::new(),
            call_headers: None,
            transport: HttpTransport::default(),
            #[cfg(feature = "oauth")]
            credentials: None,
            #[cfg(feature = "http")]
            connection_pool: ConnectionPool::default(),
            #[cfg(feature = "oauth")]
            client_credentials: None,
            options: ServerOptions::default(),
        }
    }

    /// Adds the header `name` to every HTTP request to the server.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sends `token` as a bearer token in the header `Authorization` of every HTTP request.
    #[must_use]
    pub fn with_bearer_token(self, token: impl fmt::Display) -> Self {
        self.with_header("Authorization", format!("Bearer {token}"))
    }

    /// Sets a function that returns further headers for the requests of a call, for example the
    /// token of the user in the [principal](ToolContext::principal) of the call. The arguments of
    /// the function are the name that the server uses for the tool, and the context of the call. If
    /// the function fails, the call fails with its error and is not sent.
    ///
    /// A header replaces the header of the same name in [`headers`](Self::headers), and
    /// `Authorization` replaces the OAuth token. Like these, it is sent to the origin of the URL
    /// only, and is neither logged nor part of errors.
    ///
    /// The handshake, the tool list, cancellations, and the responses to elicitations of revisions
    /// up to 2025-11-25 are not requests of a call: they have only the headers of the server. The
    /// tool list must therefore be the same for all users.
    ///
    /// # Sessions
    ///
    /// A server of revision 2026-07-28 has no sessions, so each call has its own user. A server of
    /// an earlier revision may open a session for the source, which can be bound to the user whose
    /// token has opened it (MCP 2025-11-25, "Session Hijacking"). It then rejects the calls of
    /// other users: create one source per user for these servers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use haft_core::ToolError;
    /// use haft_mcp::HttpServer;
    ///
    /// # async fn token_of(user: &str) -> String { user.to_owned() }
    /// let server = HttpServer::new("https://mcp.example.org/mcp").with_call_headers(|_tool, cx| {
    ///     let user = cx.principal().map(|principal| principal.id.clone());
    ///     async move {
    ///         let user = user.ok_or_else(|| ToolError::Denied("log in first".to_owned()))?;
    ///         let token = token_of(&user).await;
    ///         Ok(BTreeMap::from([("Authorization".to_owned(), format!("Bearer {token}"))]))
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn with_call_headers<F, Headers>(mut self, headers: F) -> Self
    where
        F: Fn(&str, &ToolContext) -> Headers + Send + Sync + 'static,
        Headers: Future<Output = Result<BTreeMap<String, String>, ToolError>> + Send + 'static,
    {
        self.call_headers = Some(Callback::new(Arc::new(move |tool, cx| Box::pin(headers(tool, cx)))));
        self
    }

    /// Sends the access token in `credentials`, if there is one, and refreshes it when it expires.
    /// [`login`](crate::login) stores the token.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_credentials(mut self, credentials: CredentialFile) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the pool of HTTP connections. Default: a pool that only the clones of this value share.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_connection_pool(mut self, pool: ConnectionPool) -> Self {
        self.connection_pool = pool;
        self
    }

    /// Requests access tokens as a client that acts for itself, without a user. A token is
    /// requested when it is needed, and renewed when it expires or when the server rejects it.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_client_credentials(mut self, client: ClientCredentials) -> Self {
        self.client_credentials = Some(client.without_token());
        self
    }

    /// Returns the scheme, the host and the port of the URL. The other parts, such as a user name
    /// or a path, may contain secrets. Returns `unknown` for a URL without a scheme.
    pub fn origin(&self) -> String {
        let Some((scheme, rest)) = self.url.split_once("://") else { return "unknown".to_owned() };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}")
    }

    /// Sets the HTTP transport.
    #[must_use]
    pub fn with_transport(mut self, transport: HttpTransport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the limits for the connection and the selection of tools.
    #[must_use]
    pub fn with_options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }
}

/// Two configurations are equal if all settings are equal. The connection pools are not compared.
impl PartialEq for HttpServer {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            url,
            headers,
            call_headers,
            transport,
            #[cfg(feature = "oauth")]
            credentials,
            #[cfg(feature = "oauth")]
            client_credentials,
            #[cfg(feature = "http")]
                connection_pool: _,
            options,
        } = self;
        #[cfg(feature = "oauth")]
        if (credentials, client_credentials) != (&other.credentials, &other.client_credentials) {
            return false;
        }
        *url == other.url
            && *headers == other.headers
            && *call_headers == other.call_headers
            && *transport == other.transport
            && *options == other.options
    }
}

impl Eq for HttpServer {}

/// The debug output contains no secrets. Only the origin of the URL and the names of the headers
/// are printed.
impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("origin", &self.origin())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}
