//! OAuth 2.1 for HTTP servers: the login of a user or of a client without a user, and stored
//! credentials.

mod access_token;
mod callback;
pub mod client_credentials;
mod credentials;
mod endpoint_response;
mod http;
mod issuer;
mod signing_key;
mod token_source;

use std::{io, sync::Arc, time::Duration};

use haft_core::text::ErrorChain;
use haft_http::oauth::IssuerClient;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig,
};
use serde_json::Value;
use tokio::time::timeout;

pub use self::credentials::CredentialFile;
use self::issuer::{IssuerError, issuer_metadata, trusted_metadata};
pub(crate) use self::token_source::TokenSource;
use self::{callback::CallbackListener, http::OAuthHttp};
use crate::{
    HttpServer,
    http::{challenge::BearerChallenge, new_client},
};

/// The time for the user to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The name of the client in a dynamic registration.
const CLIENT_NAME: &str = "haft";
/// The error for stored credentials without an issuer: any authorization server that the server
/// names would get them.
const NO_STORED_ISSUER: &str = "the stored credentials have no issuer: log in again with `haft mcp login`";

/// An error from [`login`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server does not require authorization.
    #[error("the server does not require authorization")]
    NotRequired,
    /// The server cannot be reached, or the HTTP client cannot be created.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// The metadata of the server or of its authorization server is missing or invalid, the
    /// registration was rejected, or the response of the authorization server is invalid.
    #[error("the authorization failed")]
    Authorization(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server names another authorization server than [`LoginOptions::issuer`].
    #[error("the server names the authorization server {found:?}, not {expected:?}")]
    OtherIssuer {
        /// The issuer in the options.
        expected: String,
        /// The issuer in the metadata. Empty if the metadata has none.
        found: String,
    },
    /// The authorization server returned an error, for example because the user denied the request.
    #[error("the authorization was denied: {0}")]
    Denied(String),
    /// The authorization URL is no `https` URL, and no `http` URL of a server with an `http` URL.
    #[error(
        "the authorization URL has the scheme {0:?}: only https is opened, and http if the server has an http URL"
    )]
    UnsafeUrl(String),
    /// The user did not log in within five minutes.
    #[error("no login within {0:?}")]
    TimedOut(Duration),
    /// The loopback listener failed, or the credentials cannot be stored.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<IssuerError> for LoginError {
    fn from(error: IssuerError) -> Self {
        match error {
            IssuerError::Other { expected, found } => Self::OtherIssuer { expected, found },
            IssuerError::Invalid(reason) => Self::Authorization(reason.into()),
        }
    }
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Authorization(Box::new(error))
    }
}

/// Options for [`login`].
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoginOptions {
    /// The id of a client that is registered with the authorization server. Default: the client is
    /// registered dynamically (RFC 7591).
    pub client_id: Option<String>,
    /// The secret of the client `client_id`. It is stored beside the tokens, because their refresh
    /// needs it.
    pub client_secret: Option<String>,
    /// The URL of a client id metadata document, which is used instead of a registration if the
    /// authorization server supports it.
    pub client_metadata_url: Option<String>,
    /// The scopes to request, besides those that the stored token has. Default: the scopes of the
    /// challenge or of the server metadata.
    pub scopes: Vec<String>,
    /// The issuer of the authorization server. If the server names another one, the login fails,
    /// and no secret is sent. Default: the authorization server that the server names.
    pub issuer: Option<String>,
}

/// The debug output contains no secret.
impl std::fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginOptions")
            .field("client_id", &self.client_id)
            .field("client_metadata_url", &self.client_metadata_url)
            .field("scopes", &self.scopes)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Logs a user in to `server`, and stores the tokens in `credentials`.
///
/// Discovers the authorization server (RFC 9728 and RFC 8414), registers a client if necessary, and
/// passes the authorization URL to `open`, which shows it to the user. The authorization server
/// redirects the browser of the user to a listener of this function on the loopback interface. The
/// code is exchanged with PKCE and the resource indicator of the server (RFC 8707). The `iss`
/// parameter is validated (RFC 9207).
///
/// The endpoints are those in the metadata at the well-known URLs of the issuer, whatever document
/// the server names. For a server with an `https` URL, they are `https` URLs.
///
/// Addresses in the metadata are checked after name resolution: a public server cannot direct
/// requests to loopback, private or link-local addresses. With a proxy, the proxy resolves the
/// names, and only addresses without a name are checked.
///
/// # Errors
///
/// Fails if the server requires no authorization, if a step of the protocol fails, if the user
/// denies the request, or if no login happens within five minutes.
///
/// # Examples
///
/// ```no_run
/// use haft_mcp::{CredentialFile, HttpServer, LoginOptions, McpSource, login};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = HttpServer::new("https://mcp.example.org/mcp");
/// let credentials = CredentialFile::new("credentials.json");
/// login(&server, &credentials, LoginOptions::default(), |url| println!("open {url}")).await?;
/// let source = McpSource::connect("example", server.with_credentials(credentials)).await?;
/// # Ok(())
/// # }
/// ```
pub async fn login(
    server: &HttpServer,
    credentials: &CredentialFile,
    options: LoginOptions,
    open: impl FnOnce(&str) + Send,
) -> Result<(), LoginError> {
    let probe = probe(server).await?;
    let http = IssuerClient::new(&server.url).await.map_err(LoginError::Unreachable)?;
    let http = Arc::new(http);
    let mut manager = manager(server, &http).await.map_err(LoginError::Unreachable)?;
    let challenge = probe.challenge().map(ToString::to_string);
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
    let is_discovered = found.as_ref().is_ok_and(|found| found.source.is_discovered());
    match probe {
        // A server may require a token for calls only. Its metadata names the authorization server.
        Probe::Accepted if !is_discovered => return Err(LoginError::NotRequired),
        Probe::Rejected(status) if !is_discovered => {
            return Err(LoginError::Unreachable(format!("HTTP {status}")));
        }
        _ => {}
    }
    let metadata = trusted_metadata(&http, &found?.metadata, options.issuer.as_deref()).await?;
    manager.set_credential_store(credentials.store_of(&server.url, metadata.issuer.clone()));
    let supports_client_metadata =
        metadata.additional_fields.get("client_id_metadata_document_supported") == Some(&Value::Bool(true));
    manager.set_metadata(metadata);
    let mut scopes = options.scopes;
    if !scopes.is_empty() {
        // A token with other scopes replaces the stored one.
        let granted = credentials.granted_scopes(&server.url).await?;
        scopes.extend(granted.into_iter().filter(|scope| !scopes.contains(scope)).collect::<Vec<_>>());
    }
    let listener = CallbackListener::bind().await?;
    let mut request = AuthorizationRequest::new(listener.redirect_uri()).with_initial_scope_selection();
    (request.client_id, request.client_secret) = (options.client_id, options.client_secret);
    request.client_metadata_url = options.client_metadata_url.filter(|_| supports_client_metadata);
    if request.client_id.is_none() && request.client_metadata_url.is_none() {
        let client = register(&mut manager, listener.redirect_uri(), &scopes).await?;
        (request.client_id, request.client_secret) = (Some(client.client_id), client.client_secret);
    }
    let secret = request.client_id.clone().zip(request.client_secret.clone());
    let request = request.with_scopes(scopes);
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
    let url = reqwest::Url::parse(session.get_authorization_url())
        .map_err(|error| LoginError::Authorization(Box::new(error)))?;
    if !http.permits_scheme(&url) {
        return Err(LoginError::UnsafeUrl(url.scheme().to_owned()));
    }
    open(url.as_str());
    let state = callback::parameter(&url, "state").unwrap_or_default();
    let redirect = timeout(LOGIN_TIMEOUT, listener.redirect(&state))
        .await
        .map_err(|_| LoginError::TimedOut(LOGIN_TIMEOUT))??;
    if let Some(error) = callback::error(&redirect) {
        return Err(LoginError::Denied(error));
    }
    session.handle_callback_url(redirect.as_str()).await?;
    if let Some((client_id, secret)) = secret {
        credentials.save_client_secret(&server.url, client_id, secret).await?;
    }
    Ok(())
}

/// Registers a client (RFC 7591). A session of rmcp would register it as well, but keeps its
/// secret.
async fn register(
    manager: &mut AuthorizationManager,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<OAuthClientConfig, AuthError> {
    let initial;
    let scopes = match scopes {
        [] => {
            initial = manager.select_initial_scopes(&[]).await;
            &initial
        }
        scopes => scopes,
    };
    let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
    manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await
}

/// The response of a server to a request without credentials.
enum Probe {
    /// The challenge in `WWW-Authenticate`. Without parameters if there is none.
    Challenge(BearerChallenge),
    Accepted,
    Rejected(reqwest::StatusCode),
}

impl Probe {
    fn challenge(&self) -> Option<&BearerChallenge> {
        match self {
            Self::Challenge(challenge) => Some(challenge),
            Self::Accepted | Self::Rejected(_) => None,
        }
    }
}

/// Sends a request without credentials to `server`.
async fn probe(server: &HttpServer) -> Result<Probe, LoginError> {
    let client = new_client().map_err(LoginError::Unreachable)?;
    let request = client
        .post(&server.url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#)
        .timeout(server.options.handshake_timeout);
    let response =
        request.send().await.map_err(|error| LoginError::Unreachable(error.without_url().to_string()))?;
    match response.status() {
        reqwest::StatusCode::UNAUTHORIZED => {}
        status if status.is_success() => return Ok(Probe::Accepted),
        // A server of HTTP with SSE accepts no message at its URL.
        reqwest::StatusCode::METHOD_NOT_ALLOWED => {}
        // A server may check the message before the token.
        status @ (reqwest::StatusCode::BAD_REQUEST | reqwest::StatusCode::FORBIDDEN) => {
            return Ok(Probe::Rejected(status));
        }
        status => return Err(LoginError::Unreachable(format!("HTTP {status}"))),
    }
    Ok(Probe::Challenge(BearerChallenge::of(response.headers()).unwrap_or_default()))
}

/// Creates the authorization manager for `server`. Until it gets a credential store, it keeps
/// tokens in memory.
///
/// # Errors
///
/// Returns a description of the fault.
async fn manager(server: &HttpServer, http: &Arc<IssuerClient>) -> Result<AuthorizationManager, String> {
    AuthorizationManager::new_with_oauth_http_client(
        server.url.as_str(),
        Arc::new(OAuthHttp(Arc::clone(http))),
    )
    .await
    .map_err(|error| error.to_string())
}

/// Creates the authorization manager for `server`, with the tokens in `credentials`, and with the
/// secret of the client, which the refresh of a token needs.
///
/// A refresh token and a secret are sent to the issuer that they were stored with. If the server
/// names another issuer, the tokens are discarded.
///
/// # Errors
///
/// Returns a description of the fault.
pub(crate) async fn stored_authorization(
    server: &HttpServer,
    credentials: &CredentialFile,
) -> Result<AuthorizationManager, String> {
    let describe = |error: AuthError| ErrorChain(&error).to_string();
    let http = Arc::new(IssuerClient::new(&server.url).await?);
    let mut manager = manager(server, &http).await?;
    let unreadable = |error: io::Error| error.to_string();
    if !credentials.has_token(&server.url).await.map_err(unreadable)? {
        manager.set_credential_store(credentials.store_of(&server.url, None));
        return Ok(manager);
    }
    let issuer = credentials.issuer(&server.url).await.map_err(unreadable)?;
    let issuer = issuer.ok_or(NO_STORED_ISSUER)?;
    manager.set_credential_store(credentials.store_of(&server.url, Some(issuer.clone())));
    let found = manager.resolve_metadata().await.map_err(describe)?;
    let metadata = match trusted_metadata(&http, &found.metadata, Some(&issuer)).await {
        // With this metadata, the manager discards the tokens.
        Err(IssuerError::Other { found: other, .. }) if found.source.is_discovered() && !other.is_empty() => {
            found.metadata
        }
        // The server names none. Its own URLs are no substitute.
        Err(IssuerError::Other { .. }) => with_issuer(issuer_metadata(&http, &issuer).await?, &issuer),
        // rmcp compares the issuers exactly.
        metadata => metadata.map(|metadata| with_issuer(metadata, &issuer))?,
    };
    manager.set_metadata(metadata);
    if !manager.initialize_from_store().await.map_err(describe)? {
        return Ok(manager);
    }
    let secret = credentials.client_secret(&server.url, &issuer).await.map_err(unreadable)?;
    if let Some((client_id, secret)) = secret {
        let client = OAuthClientConfig::new(client_id, server.url.as_str()).with_client_secret(secret);
        manager.configure_client(client).map_err(describe)?;
    }
    Ok(manager)
}

fn with_issuer(mut metadata: AuthorizationMetadata, issuer: &str) -> AuthorizationMetadata {
    metadata.issuer = Some(issuer.to_owned());
    metadata
}
