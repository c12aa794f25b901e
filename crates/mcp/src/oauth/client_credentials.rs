//! OAuth clients that act for themselves, without a user.

use std::{fmt, sync::Arc};

use tokio::sync::Mutex;

use super::{TokenSource, access_token::AccessToken, signing_key::SigningKey};
use crate::{CredentialFile, HttpServer, LoginError};

/// The credentials of an OAuth client that acts for itself, without a user: the grant
/// `client_credentials` (RFC 6749, section 4.4; MCP extension *OAuth Client Credentials*,
/// SEP-1046).
///
/// A program that runs unattended uses them with [`HttpServer::with_client_credentials`]. An access
/// token is requested when it is needed, and kept in memory. It is renewed before it expires, or
/// when the server rejects it. [`login_client`] stores the credentials and the token in a file.
///
/// # Security
///
/// The MCP server names its authorization server, and the secret is sent to the token endpoint in
/// the metadata of the latter. A compromised MCP server can name a server of an attacker: set
/// [`with_issuer`](Self::with_issuer). A private key is never sent.
///
/// # Examples
///
/// ```no_run
/// use haft_mcp::{HttpServer, McpSource, client_credentials::ClientCredentials};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let credentials = ClientCredentials::with_secret("nightly-report", std::env::var("CLIENT_SECRET")?)
///     .with_issuer("https://auth.example.org");
/// let server = HttpServer::new("https://mcp.example.org/mcp").with_client_credentials(credentials);
/// let source = McpSource::connect("example", server).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientCredentials {
    pub(super) client_id: String,
    pub(super) authentication: Authentication,
    pub(super) scopes: Vec<String>,
    pub(super) issuer: Option<String>,
    /// The current access token, which the connections of a server share.
    pub(super) token: Arc<Mutex<Option<AccessToken>>>,
}

/// The proof of a client's identity at the token endpoint.
#[derive(Clone)]
pub(super) enum Authentication {
    /// A shared secret (`client_secret_basic` or `client_secret_post`).
    Secret(String),
    /// A signed assertion (`private_key_jwt`, RFC 7523), with the key and its PEM text.
    PrivateKey { pem: String, key: Arc<SigningKey> },
}

/// The error for a private key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the private key is no unencrypted PKCS#8 key (PEM) of P-256, P-384, Ed25519 or RSA with 2,048 bits or more: \
     convert it with `openssl pkcs8 -topk8 -nocrypt`"
)]
#[non_exhaustive]
pub struct InvalidPrivateKey;

impl ClientCredentials {
    /// Creates the credentials of the client `client_id` with a shared secret.
    pub fn with_secret(client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        Self::new(client_id.into(), Authentication::Secret(client_secret.into()))
    }

    /// Creates the credentials of the client `client_id` with a private key, in the form PKCS#8 and
    /// PEM. The client signs an assertion with ES256, ES384, EdDSA or RS256, depending on the key.
    ///
    /// # Errors
    ///
    /// Fails if `pem` is no key of this form, or if it is encrypted.
    pub fn with_private_key(
        client_id: impl Into<String>,
        pem: impl Into<String>,
    ) -> Result<Self, InvalidPrivateKey> {
        let pem = pem.into();
        let key = Arc::new(SigningKey::from_pem(&pem).ok_or(InvalidPrivateKey)?);
        Ok(Self::new(client_id.into(), Authentication::PrivateKey { pem, key }))
    }

    fn new(client_id: String, authentication: Authentication) -> Self {
        Self { client_id, authentication, scopes: Vec::new(), issuer: None, token: Arc::default() }
    }

    /// Sets the scopes to request. Default: the scopes of the challenge or of the server metadata.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the issuer of the authorization server. If the server names another one, no token is
    /// requested. Default: the authorization server that the server names for the first token.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Returns credentials that share no token with `self`. The token of a server is not valid for
    /// another one.
    pub(crate) fn without_token(mut self) -> Self {
        self.token = Arc::default();
        self
    }
}

/// Requests a token for `server` on behalf of `client` itself, and stores the token and the secret
/// or the private key of `client` in `credentials` (mode 0600). A source with these credentials
/// renews the token.
///
/// The authorization server is discovered as in [`login`](crate::login). Its issuer is stored as
/// well: if the server names another one later, no token is requested.
///
/// # Errors
///
/// Fails if the server names no authorization server or another one than that of `client`, if the
/// authorization server rejects the client, or if the credentials cannot be stored.
///
/// # Examples
///
/// ```no_run
/// use haft_mcp::{
///     CredentialFile, HttpServer,
///     client_credentials::{ClientCredentials, login_client},
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ClientCredentials::with_secret("nightly-report", std::env::var("CLIENT_SECRET")?);
/// let server = HttpServer::new("https://mcp.example.org/mcp");
/// login_client(&server, &CredentialFile::new("credentials.json"), client).await?;
/// # Ok(())
/// # }
/// ```
pub async fn login_client(
    server: &HttpServer,
    credentials: &CredentialFile,
    client: ClientCredentials,
) -> Result<(), LoginError> {
    TokenSource::new(server.clone(), client, credentials.clone()).token().await?;
    Ok(())
}

/// Tokens are not compared.
impl PartialEq for ClientCredentials {
    fn eq(&self, other: &Self) -> bool {
        self.client_id == other.client_id
            && self.authentication == other.authentication
            && self.scopes == other.scopes
            && self.issuer == other.issuer
    }
}

impl Eq for ClientCredentials {}

impl PartialEq for Authentication {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Secret(secret), Self::Secret(other)) => secret == other,
            (Self::PrivateKey { pem, .. }, Self::PrivateKey { pem: other, .. }) => pem == other,
            _ => false,
        }
    }
}

/// The debug output contains no secret.
impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials")
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
