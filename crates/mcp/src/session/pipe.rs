//! Sessions with a server in the process.

use std::sync::Arc;

use rmcp::{ClientServiceExt as _, service::ClientLifecycleMode};
use tokio::{io::split, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{DISCOVER_TIMEOUT, ServerClient, Session, StartError, request_handler, versions_for_discover};
use crate::{
    connection::Connection,
    testing::InProcessServer,
    transport::{ClientTransport, ServerEvents, TransportLimits},
};

/// Starts `server` and performs the handshake. Fails if `closed` is cancelled.
pub(super) async fn open(
    server: &InProcessServer,
    closed: &CancellationToken,
) -> Result<Session, StartError> {
    let options = &server.options;
    let events = Arc::new(ServerEvents::default());
    let limits = TransportLimits { line_bytes: options.max_message_bytes, probe_timeout: DISCOVER_TIMEOUT };
    let (reader, writer) = split(server.connect());
    let transport = ClientTransport::new(reader, writer, Arc::clone(&events), limits);
    let mode = match server.uses_initialize {
        true => ClientLifecycleMode::Initialize,
        false => ClientLifecycleMode::Discover { preferred_versions: versions_for_discover() },
    };
    let handshake = request_handler(&events).serve_with_lifecycle(transport, mode);
    let service = tokio::select! {
        biased;
        () = closed.cancelled() => return Err(StartError::without_process("the source was closed")),
        service = timeout(options.handshake_timeout, handshake) => service,
    };
    let failed = |reason: String| StartError::without_process(format!("the handshake failed: {reason}"));
    let service =
        service.map_err(|_| failed(format!("no response within {:?}", options.handshake_timeout)))?;
    let service = service.map_err(|error| failed(error.to_string()))?;
    let connection = Connection::new(service.peer().clone(), Arc::clone(&events), options);
    Ok(Session { process: None, client: ServerClient { service, events, connection: Arc::new(connection) } })
}
