//! Sessions over streamable HTTP.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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
    DISCOVER_TIMEOUT, HandshakeMode, OpenedSession, RequestHandler, ServerClient, Session, StartError,
    request_handler,
};
#[cfg(feature = "oauth")]
use crate::{CredentialFile, oauth::TokenSource};
use crate::{
    HttpServer, HttpTransport,
    connection::Connection,
    http::{self, HandshakeFailure, HttpClient},
    transport::ServerEvents,
};

/// Contacts `server` and performs the handshake. Fails if `closed` is cancelled.
pub(super) async fn open(
    server: &HttpServer,
    handshake: HandshakeMode,
    closed: &CancellationToken,
) -> Result<OpenedSession, StartError> {
    let deadline = Instant::now() + server.options.handshake_timeout;
    let client = server.connection_pool.client().map_err(StartError::without_process)?;
    let negotiated = tokio::select! {
        biased;
        () = closed.cancelled() => return Err(StartError::without_process("the source was closed")),
        negotiated = timeout_at(deadline, negotiate(server, &client, handshake)) => negotiated,
    };
    let after = server.options.handshake_timeout;
    let Negotiated { service, events, is_sse } = negotiated
        .unwrap_or_else(|_| Err(format!("no response to the handshake within {after:?}").into()))
        .map_err(|failure| StartError {
            is_rejection: failure.is_rejection,
            ..StartError::without_process(failure.message(server))
        })?;
    let next_handshake = if is_sse { HandshakeMode::Sse } else { handshake.for_restart(service.peer()) };
    // Before HTTP with SSE, the server has rejected two requests.
    let is_found_sse = is_sse && server.transport == HttpTransport::Auto && handshake != HandshakeMode::Sse;
    let is_slow = is_found_sse || events.has_unanswered_discover.load(Ordering::Relaxed);
    let connection = Connection::new(service.peer().clone(), Arc::clone(&events), &server.options)
        .with_call_headers(server.call_headers.clone());
    let client = ServerClient { service, events, connection: Arc::new(connection) };
    Ok(OpenedSession { session: Session { process: None, client }, next_handshake, is_slow })
}

/// A connection after its handshake.
struct Negotiated {
    service: RunningService<RoleClient, RequestHandler>,
    events: Arc<ServerEvents>,
    /// `true` if the transport is HTTP with SSE.
    is_sse: bool,
}

/// Performs the handshake. If the response to `server/discover` lists a revision up to 2025-11-25,
/// but not 2026-07-28, a handshake with `initialize` follows.
async fn negotiate(
    server: &HttpServer,
    client: &reqwest::Client,
    handshake: HandshakeMode,
) -> Result<Negotiated, HandshakeFailure> {
    if server.transport == HttpTransport::Sse || handshake == HandshakeMode::Sse {
        return serve_sse(server, client).await;
    }
    let probe_timeout = DISCOVER_TIMEOUT.min(server.options.handshake_timeout / 3);
    match serve(server, client, handshake.lifecycle_mode(), probe_timeout).await? {
        Err(ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. })
            if server_supported.iter().any(ProtocolVersion::has_initialize) =>
        {
            let mode = ClientLifecycleMode::Initialize;
            serve(server, client, mode, probe_timeout).await?.map_err(|error| HandshakeFailure::from(&error))
        }
        Err(error) if server.transport == HttpTransport::Auto && http::may_be_sse_server(&error) => {
            // Without an event stream, the first error describes the fault.
            serve_sse(server, client).await.map_err(|_| HandshakeFailure::from(&error))
        }
        outcome => outcome.map_err(|error| HandshakeFailure::from(&error)),
    }
}

async fn serve(
    server: &HttpServer,
    client: &reqwest::Client,
    mode: ClientLifecycleMode,
    probe_timeout: Duration,
) -> Result<Result<Negotiated, ClientInitializeError>, HandshakeFailure> {
    let events = Arc::new(ServerEvents::default());
    let http_client = HttpClient::new(client.clone(), Arc::clone(&events), probe_timeout);
    #[cfg(feature = "oauth")]
    let http_client = with_client_credentials(server, http_client).await?;
    #[cfg(feature = "oauth")]
    if let (Some(credentials), false) = (&server.credentials, http_client.has_tokens()) {
        let transport = http::transport(server, authorized(server, credentials, http_client).await?)?;
        let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
        return Ok(service.map(|service| Negotiated { service, events, is_sse: false }));
    }
    let service =
        request_handler(&events).serve_with_lifecycle(http::transport(server, http_client)?, mode).await;
    Ok(service.map(|service| Negotiated { service, events, is_sse: false }))
}

/// Returns `client` with the access token in `credentials`.
#[cfg(feature = "oauth")]
async fn authorized(
    server: &HttpServer,
    credentials: &CredentialFile,
    client: HttpClient,
) -> Result<AuthClient<HttpClient>, HandshakeFailure> {
    let manager = crate::oauth::stored_authorization(server, credentials).await?;
    Ok(AuthClient::new(client, manager))
}

/// Returns `client` with the access tokens of the client that acts for itself at `server`, if there
/// is one. A first token is requested, so that the error of this request is reported.
#[cfg(feature = "oauth")]
async fn with_client_credentials(
    server: &HttpServer,
    client: HttpClient,
) -> Result<HttpClient, HandshakeFailure> {
    let Some(tokens) = TokenSource::open(server).await? else { return Ok(client) };
    tokens.token().await.map_err(|error| ErrorChain(&error).to_string())?;
    Ok(client.with_tokens(tokens))
}

/// Performs the handshake over HTTP with SSE.
async fn serve_sse(server: &HttpServer, client: &reqwest::Client) -> Result<Negotiated, HandshakeFailure> {
    let events = Arc::new(ServerEvents::default());
    let mode = ClientLifecycleMode::Initialize;
    let http_client = HttpClient::new(client.clone(), Arc::clone(&events), DISCOVER_TIMEOUT);
    #[cfg(feature = "oauth")]
    let http_client = with_client_credentials(server, http_client).await?;
    #[cfg(feature = "oauth")]
    if let (Some(credentials), false) = (&server.credentials, http_client.has_tokens()) {
        let http_client = authorized(server, credentials, http_client).await?;
        let transport = http::sse_transport(server, http_client).await?;
        let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
        return service
            .map(|service| Negotiated { service, events, is_sse: true })
            .map_err(|error| HandshakeFailure::from(&error));
    }
    let transport = http::sse_transport(server, http_client).await?;
    let service = request_handler(&events).serve_with_lifecycle(transport, mode).await;
    service
        .map(|service| Negotiated { service, events, is_sse: true })
        .map_err(|error| HandshakeFailure::from(&error))
}
