//! Sessions over standard input and output.

use std::{
    process::ExitStatus,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_core::text::without_hidden_chars;
use rmcp::{
    ClientServiceExt as _, RoleClient,
    model::ProtocolVersion,
    service::{ClientInitializeError, ClientLifecycleMode, RunningService},
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    DISCOVER_TIMEOUT, HandshakeMode, OpenedSession, RequestHandler, ServerClient, Session, StartError,
    request_handler, versions_for_discover,
};
use crate::{
    StdioServer,
    connection::Connection,
    process::{ProcessGroup, StderrTail, StdioStreams},
    start_failure::{StartFailure, exit_text, with_stderr},
    transport::{ClientTransport, ServerEvents, TransportLimits},
};

/// The maximum time to wait for the remaining output of a server after its exit, or for its exit
/// after the end of its output.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The server process of a session.
pub(super) struct ServerProcess {
    group: ProcessGroup,
    stderr: StderrTail,
    events: Arc<ServerEvents>,
}

/// Starts `server` and performs the handshake. Fails if `closed` is cancelled.
///
/// Some servers exit if the first MCP request is not `initialize`, either without a response or
/// after an error response. If a server exits during [`HandshakeMode::Auto`], it is started a
/// second time with [`HandshakeMode::Initialize`].
pub(super) async fn open(
    server: &StdioServer,
    handshake: HandshakeMode,
    closed: &CancellationToken,
) -> Result<OpenedSession, StartError> {
    let deadline = Instant::now() + server.options.handshake_timeout;
    match start_session(server, handshake, deadline, closed).await {
        Err(HandshakeError::Exited { group, .. }) if handshake == HandshakeMode::Auto => {
            group.terminate().await;
            let opened = start_session(server, HandshakeMode::Initialize, deadline, closed).await;
            opened.map(|opened| OpenedSession { is_slow: true, ..opened }).map_err(StartError::from)
        }
        outcome => outcome.map_err(StartError::from),
    }
}

impl ServerProcess {
    /// Waits until the server exits or closes its standard output. Returns an error message that
    /// describes the exit.
    pub(super) async fn exited(&mut self) -> String {
        let status = tokio::select! {
            status = self.group.wait_for_exit() => {
                // The pipe may still contain responses. The transport gets 200 ms to read the rest
                // of standard output.
                let _ = timeout(DRAIN_TIMEOUT, self.events.closed.cancelled()).await;
                status.ok()
            }
            () = self.events.closed.cancelled() => wait_for_exit_status(&mut self.group).await,
        };
        let stderr = self.stderr.last_lines(DRAIN_TIMEOUT).await;
        with_stderr(exit_text("", status), &stderr)
    }

    /// Returns the process group. The caller must terminate it.
    pub(super) fn into_group(self) -> ProcessGroup {
        self.group
    }
}

/// An error from starting a server, or from the handshake with it.
enum HandshakeError {
    NotStarted(String),
    /// The server closed the connection during the handshake, usually because it exited.
    Exited {
        group: ProcessGroup,
        reason: String,
    },
    /// The server rejected the handshake.
    Rejected {
        group: ProcessGroup,
        reason: String,
    },
    /// The server did not respond in time, or the source was closed.
    Failed {
        group: ProcessGroup,
        reason: String,
    },
}

async fn start_session(
    server: &StdioServer,
    handshake: HandshakeMode,
    deadline: Instant,
    closed: &CancellationToken,
) -> Result<OpenedSession, HandshakeError> {
    let (mut group, StdioStreams { stdin, stdout, mut stderr }) = ProcessGroup::spawn(server)
        .map_err(|error| HandshakeError::NotStarted(StartFailure::NotStarted(error).message(server, "")))?;
    let events = Arc::new(ServerEvents::default());
    let limits = TransportLimits {
        line_bytes: server.options.max_message_bytes,
        probe_timeout: DISCOVER_TIMEOUT.min(server.options.handshake_timeout / 3),
    };
    let transport = ClientTransport::new(stdout, stdin, Arc::clone(&events), limits);
    let service = tokio::select! {
        biased;
        () = closed.cancelled() => {
            return Err(HandshakeError::Failed { group, reason: "the source was closed".to_owned() });
        }
        service = timeout_at(deadline, negotiate(handshake, transport, &events)) => service,
    };
    let failure = match service {
        Ok(Ok(service)) => {
            let next_handshake = handshake.for_restart(service.peer());
            let is_slow = events.has_unanswered_discover.load(Ordering::Relaxed);
            let connection = Connection::new(service.peer().clone(), Arc::clone(&events), &server.options);
            let client =
                ServerClient { service, events: Arc::clone(&events), connection: Arc::new(connection) };
            let process = ServerProcess { group, stderr, events };
            let session = Session { process: Some(process), client };
            return Ok(OpenedSession { session, next_handshake, is_slow });
        }
        Ok(Err(error)) if is_connection_closed(&error) => {
            let failure = StartFailure::Exited(wait_for_exit_status(&mut group).await);
            let reason = failure.message(server, &stderr.last_lines(DRAIN_TIMEOUT).await);
            return Err(HandshakeError::Exited { group, reason });
        }
        Ok(Err(ClientInitializeError::LegacyFallbackFailed { discover, fallback })) => {
            let text = format!("`server/discover`: {discover}; `initialize`: {fallback}");
            StartFailure::Handshake(without_hidden_chars(&text).into_owned())
        }
        Ok(Err(error)) => StartFailure::Handshake(without_hidden_chars(&error.to_string()).into_owned()),
        Err(_) => StartFailure::NoResponse,
    };
    // The server is still running, so its standard error stays open.
    let reason = failure.message(server, &stderr.last_lines(Duration::ZERO).await);
    Err(match failure {
        StartFailure::Handshake(_) => HandshakeError::Rejected { group, reason },
        _ => HandshakeError::Failed { group, reason },
    })
}

/// Performs the handshake over `transport`. In two cases, a second handshake follows:
///
/// - with `server/discover`, if the first handshake failed and a valid response to
///   `server/discover` arrived after the probe timeout
/// - with `initialize`, if the response to `server/discover` lists a revision up to 2025-11-25, but
///   not 2026-07-28
async fn negotiate(
    handshake: HandshakeMode,
    transport: ClientTransport<ChildStdout, ChildStdin>,
    events: &Arc<ServerEvents>,
) -> Result<RunningService<RoleClient, RequestHandler>, ClientInitializeError> {
    let second_transport = transport.with_same_streams();
    let mode = match request_handler(events).serve_with_lifecycle(transport, handshake.lifecycle_mode()).await
    {
        Err(_) if events.has_late_discover.load(Ordering::Relaxed) => {
            ClientLifecycleMode::Discover { preferred_versions: versions_for_discover() }
        }
        Err(ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. })
            if server_supported.iter().any(ProtocolVersion::has_initialize) =>
        {
            ClientLifecycleMode::Initialize
        }
        outcome => return outcome,
    };
    request_handler(events).serve_with_lifecycle(second_transport, mode).await
}

fn is_connection_closed(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_connection_closed(fallback),
        _ => false,
    }
}

impl From<HandshakeError> for StartError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::NotStarted(reason) => Self::without_process(reason),
            HandshakeError::Exited { group, reason } | HandshakeError::Rejected { group, reason } => {
                Self { reason, group: Some(group), is_rejection: true }
            }
            HandshakeError::Failed { group, reason } => {
                Self { reason, group: Some(group), is_rejection: false }
            }
        }
    }
}

/// Returns the exit status of a server that has closed its standard output. Returns `None` if the
/// server is still running 200 ms later.
async fn wait_for_exit_status(group: &mut ProcessGroup) -> Option<ExitStatus> {
    timeout(DRAIN_TIMEOUT, group.wait_for_exit()).await.ok().and_then(Result::ok)
}
