use std::{collections::BTreeMap, fmt};

use crate::ServerOptions;
#[cfg(feature = "oauth")]
use crate::{CredentialFile, client_credentials::ClientCredentials};

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
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpServer {
    /// The URL of the MCP endpoint, with the scheme `http` or `https`.
    pub url: String,
    /// The headers of every HTTP request to the server.
    pub headers: BTreeMap<String, String>,
    /// The HTTP transport of the server. Default: [`HttpTransport::Auto`].
    pub transport: HttpTransport,
    /// The OAuth tokens of the server. Default: none.
    #[cfg(feature = "oauth")]
    pub credentials: Option<CredentialFile>,
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
            transport: HttpTransport::default(),
            #[cfg(feature = "oauth")]
            credentials: None,
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

    /// Sends the access token in `credentials`, if there is one, and refreshes it when it expires.
    /// [`login`](crate::login) stores the token.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_credentials(mut self, credentials: CredentialFile) -> Self {
        self.credentials = Some(credentials);
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
