//! Sessions over streamable HTTP.

use std::{sync::Arc, time::Duration};

#[cfg(feature = "oauth")]
use haft_core::text::ErrorChain;
#[cfg(feature = "oauth")]
use rmcp::transport::auth::AuthClient;
use rmcp::{
    ClientServiceExt as _, RoleClient,
    model::ProtocolVersion,
    service::{ClientInitializeError, ClientLifecycleMode, RunningService},
};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    DISCOVER_TIMEOUT, HandshakeMode, RequestHandler, ServerClient, Session, StartError, request_handler,
};
#[cfg(feature = "oauth")]
use crate::{CredentialFile, oauth::TokenSource};
use crate::{
    HttpServer, HttpTransport,
    connection::Connection,
    http::{self, HttpClient},
    transport::ServerEvents,
};

/// Contacts `server` and performs the handshake. Returns the session, and the kind of handshake for
/// the next session. Fails if `closed` is cancelled.
pub(super) async fn open(
    server: &HttpServer,
    handshake: HandshakeMode,
    closed: &CancellationToken,
) -> Result<(Session, HandshakeMode), StartError> {
    let deadline = Instant::now() + server.options.handshake_timeout;
    let client = http::new_client().map_err(StartError::without_process)?;
    let negotiated = tokio::select! {
        biased;
        () = closed.cancelled() => return Err(StartError::without_process("the source was closed")),
        negotiated = timeout_at(deadline, negotiate(server, &client, handshake)) => negotiated,
    };
    let after = server.options.handshake_timeout;
    let (service, events) = negotiated
        .unwrap_or_else(|_| Err(format!("no response to the handshake within {after:?}").into()))
        .map_err(|failure| StartError::without_process(failure.message(server)))?;
    let next_handshake = handshake.for_restart(service.peer());
    let connection = Connection::new(service.peer().clone(), Arc::clone(&events), &server.options);
    let client = ServerClient { service, events, connection };
    Ok((Session { process: None, client }, next_handshake))
}

/// The cause of a failed handshake.
struct Failure {
    reason: String,
    remedy: Option<&'static str>,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason, remedy: None }
    }
}

impl Failure {
    /// Returns the error message: the cause, the origin of the server, and the remedy.
    fn message(self, server: &HttpServer) -> String {
        let remedy = self.remedy.map(|remedy| format!("\nremedy: {remedy}")).unwrap_or_default();
        format!("{}\nserver: {}{remedy}", self.reason, server.origin())
    }
}

type Negotiated = (RunningService<RoleClient, RequestHandler>, Arc<ServerEvents>);

/// Performs the handshake. If the response to `server/discover` lists a revision up to 2025-11-25,
/// but not 2026-07-28, a handshake with `initialize` follows.
async fn negotiate(
    server: &HttpServer,
    client: &reqwest::Client,
    handshake: HandshakeMode,
) -> Result<Negotiated, Failure> {
    if server.transport == HttpTransport::Sse {
        return serve_sse(server, client).await;
    }
    let probe_timeout = DISCOVER_TIMEOUT.min(server.options.handshake_timeout / 3);
    match serve(server, client, handshake.lifecycle_mode(), probe_timeout).await? {
        Err(ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. })
            if server_supported.iter().any(ProtocolVersion::has_initialize) =>
        {
            let mode = ClientLifecycleMode::Initialize;
            serve(server, client, mode, probe_timeout).await?.map_err(|error| handshake_error(&error))
        }
        Err(error) if server.transport == HttpTransport::Auto && http::may_be_sse_server(&error) => {
            // Without an event stream, the first error describes the fault.
            serve_sse(server, client).await.map_err(|_| handshake_error(&error))
        }
        outcome => outcome.map_err(|error| handshake_error(&error)),
    }
}

async fn serve(
    server: &HttpServer,
    client: &reqwest::Client,
    mode: ClientLifecycleMode,
    probe_timeout: Duration,
) -> Result<Result<Negotiated, ClientInitializeError>, Failure> {
    let events = Arc::new(ServerEvents::default());
    let http_client = HttpClient::new(client.clone(), Arc::clone(&events), probe_timeout);
    #[cfg(feature = "oauth")]
    let http_client = with_client_credentials(server, http_client).await?;
    #[cfg(feature = "oauth")]
    if let (Some(credentials), false) = (&server.credentials, http_client.has_tokens()) {
        let transport = http::transport(server, authorized(server, credentials, http_client).await?)?;
        let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
        return Ok(service.map(|service| (service, events)));
    }
    let service =
        request_handler(&events).serve_with_lifecycle(http::transport(server, http_client)?, mode).await;
    Ok(service.map(|service| (service, events)))
}

/// Returns `client` with the access token in `credentials`.
#[cfg(feature = "oauth")]
async fn authorized(
    server: &HttpServer,
    credentials: &CredentialFile,
    client: HttpClient,
) -> Result<AuthClient<HttpClient>, Failure> {
    let mut manager = crate::oauth::manager(server, credentials).await?;
    crate::oauth::initialize(&mut manager, server, credentials).await?;
    Ok(AuthClient::new(client, manager))
}

/// Returns `client` with the access tokens of the client that acts for itself at `server`, if there
/// is one. A first token is requested, so that the error of this request is reported.
#[cfg(feature = "oauth")]
async fn with_client_credentials(server: &HttpServer, client: HttpClient) -> Result<HttpClient, Failure> {
    let Some(tokens) = TokenSource::open(server).await? else { return Ok(client) };
    tokens.token().await.map_err(|error| ErrorChain(&error).to_string())?;
    Ok(client.with_tokens(tokens))
}

/// Performs the handshake over HTTP with SSE.
async fn serve_sse(server: &HttpServer, client: &reqwest::Client) -> Result<Negotiated, Failure> {
    let events = Arc::new(ServerEvents::default());
    let failure = |(message, remedy)| Failure { reason: format!("the handshake failed: {message}"), remedy };
    let mode = ClientLifecycleMode::Initialize;
    let http_client = HttpClient::new(client.clone(), Arc::clone(&events), DISCOVER_TIMEOUT);
    #[cfg(feature = "oauth")]
    let http_client = with_client_credentials(server, http_client).await?;
    #[cfg(feature = "oauth")]
    if let (Some(credentials), false) = (&server.credentials, http_client.has_tokens()) {
        let http_client = authorized(server, credentials, http_client).await?;
        let transport = http::sse_transport(server, http_client).await.map_err(failure)?;
        let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
        return service.map(|service| (service, events)).map_err(|error| handshake_error(&error));
    }
    let transport = http::sse_transport(server, http_client).await.map_err(failure)?;
    let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
    service.map(|service| (service, events)).map_err(|error| handshake_error(&error))
}

fn handshake_error(error: &ClientInitializeError) -> Failure {
    let (message, remedy) = http::handshake_message(error);
    Failure { reason: format!("the handshake failed: {message}"), remedy }
}
