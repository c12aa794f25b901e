//! A session with a server process, from the start of the process to its exit.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rmcp::{
    ClientServiceExt as _, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter},
    service::{ClientInitializeError, ClientLifecycleMode, Peer, RunningService},
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    StdioServer,
    connection::Connection,
    process::{ProcessGroup, StderrTail, StdioStreams},
    transport::{ClientTransport, ServerEvents, TransportLimits},
};

/// The maximum time to wait for the response to `server/discover`. Servers of revisions before
/// 2026-07-28 may never respond to this request.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum time to wait for the remaining output of a server after its exit, or for its exit
/// after the end of its output.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// A session with a running server that has completed the handshake.
pub(crate) struct Session {
    pub(crate) process: ServerProcess,
    pub(crate) client: ServerClient,
}

/// The server process of a session.
pub(crate) struct ServerProcess {
    group: ProcessGroup,
    stderr: StderrTail,
    events: Arc<ServerEvents>,
}

/// The MCP connection of a session.
pub(crate) struct ServerClient {
    service: RunningService<RoleClient, ClientConfig>,
    events: Arc<ServerEvents>,
    pub(crate) connection: Connection,
}

/// The kind of handshake with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeMode {
    /// A handshake that begins with `server/discover` (revision 2026-07-28) and falls back to
    /// `initialize`.
    Auto,
    /// A handshake with `initialize` only (revisions up to 2025-11-25).
    Initialize,
}

/// The error for a server that could not be started, or that failed during the handshake or the
/// first listing of its tools.
pub(crate) struct StartError {
    pub(crate) reason: String,
    /// The process group of the server, which the caller must terminate. `None` if no process was
    /// started.
    pub(crate) group: Option<ProcessGroup>,
}

impl Session {
    /// Starts `server` and performs the handshake. Returns the session, and the kind of handshake
    /// for the next start of the same server. Fails if `closed` is cancelled.
    ///
    /// Some servers exit if the first MCP request is not `initialize`, either without a response or
    /// after an error response. If a server exits during [`HandshakeMode::Auto`], it is started a
    /// second time with [`HandshakeMode::Initialize`].
    pub(crate) async fn open(
        server: &StdioServer,
        handshake: HandshakeMode,
        closed: &CancellationToken,
    ) -> Result<(Self, HandshakeMode), StartError> {
        let deadline = Instant::now() + server.handshake_timeout;
        match start_session(server, handshake, deadline, closed).await {
            Err(HandshakeError::Exited { group, .. }) if handshake == HandshakeMode::Auto => {
                group.terminate().await;
                start_session(server, HandshakeMode::Initialize, deadline, closed)
                    .await
                    .map_err(StartError::from)
            }
            outcome => outcome.map_err(StartError::from),
        }
    }

    /// Closes the MCP connection and the standard input of the server. Calls in progress fail.
    /// Returns the process group, which the caller must terminate.
    pub(crate) fn disconnect(self) -> ProcessGroup {
        drop(self.client);
        self.process.group
    }
}

impl ServerProcess {
    /// Waits until the server exits or closes its standard output. Returns an error message that
    /// describes the exit.
    pub(crate) async fn exited(&mut self) -> String {
        let status = tokio::select! {
            status = self.group.wait_for_exit() => {
                // The pipe may still contain responses. The transport gets 200 ms to read the rest
                // of standard output.
                let _ = timeout(DRAIN_TIMEOUT, self.events.closed.cancelled()).await;
                status.ok()
            }
            () = self.events.closed.cancelled() => wait_for_exit_status(&mut self.group).await,
        };
        exit_message("", status, &mut self.stderr).await
    }
}

impl ServerClient {
    /// Waits for the notification `notifications/tools/list_changed`, or for the beginning of a
    /// subscription.
    pub(crate) async fn wait_for_list_change(&self) {
        self.events.list_changed.notified().await;
    }

    /// Returns `true` if the server reports changes of the tool list only to subscribers.
    ///
    /// Revision 2026-07-28 requires a subscription with `subscriptions/listen`. Up to revision
    /// 2025-11-25, servers with the capability `tools.listChanged` notify every client.
    pub(crate) fn needs_subscription(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| {
            let list_changed = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
            list_changed == Some(true) && !info.protocol_version.has_initialize()
        })
    }

    /// Subscribes to changes of the tool list. If the server accepts the subscription, waits until
    /// the subscription ends and returns `true`.
    ///
    /// Returns `false` if the server rejects the subscription or does not respond within
    /// `ack_timeout`.
    pub(crate) async fn hold_subscription(&self, ack_timeout: Duration) -> bool {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match timeout(ack_timeout, self.service.peer().listen(filter)).await {
            Ok(Ok(mut subscription)) => {
                // The tool list may have changed before the subscription became active.
                self.events.list_changed.notify_one();
                // The transport has already handled these notifications. The loop only removes them
                // from the queue of rmcp.
                while let Ok(Some(_)) = subscription.next().await {}
                return true;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the server rejected the subscription to list changes"),
            Err(_) => tracing::debug!("no response to the subscription to list changes"),
        }
        false
    }
}

/// An error from starting a server, or from the handshake with it.
enum HandshakeError {
    NotStarted(io::Error),
    /// The server closed the connection during the handshake, usually because it exited.
    Exited {
        group: ProcessGroup,
        reason: String,
    },
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
) -> Result<(Session, HandshakeMode), HandshakeError> {
    let (mut group, StdioStreams { stdin, stdout, mut stderr }) =
        ProcessGroup::spawn(server).map_err(HandshakeError::NotStarted)?;
    let events = Arc::new(ServerEvents::default());
    let limits = TransportLimits {
        line_bytes: server.max_line_bytes,
        probe_timeout: DISCOVER_TIMEOUT.min(server.handshake_timeout / 3),
    };
    let transport = ClientTransport::new(stdout, stdin, Arc::clone(&events), limits);
    let service = tokio::select! {
        biased;
        () = closed.cancelled() => {
            return Err(HandshakeError::Failed { group, reason: "the source was closed".to_owned() });
        }
        service = timeout_at(deadline, negotiate(handshake, transport, &events)) => service,
    };
    let reason = match service {
        Ok(Ok(service)) => {
            let next_handshake = handshake.for_restart(service.peer());
            let connection =
                Connection::new(service.peer().clone(), Arc::clone(&events), server.idle_timeout);
            let client = ServerClient { service, events: Arc::clone(&events), connection };
            let process = ServerProcess { group, stderr, events };
            return Ok((Session { process, client }, next_handshake));
        }
        Ok(Err(error)) if is_connection_closed(&error) => {
            let status = wait_for_exit_status(&mut group).await;
            let reason = exit_message(" during the handshake", status, &mut stderr).await;
            return Err(HandshakeError::Exited { group, reason });
        }
        Ok(Err(ClientInitializeError::LegacyFallbackFailed { discover, fallback })) => {
            format!("the handshake failed: `server/discover`: {discover}; `initialize`: {fallback}")
        }
        Ok(Err(error)) => format!("the handshake failed: {error}"),
        Err(_) => format!("no response to the handshake within {:?}", server.handshake_timeout),
    };
    Err(HandshakeError::Failed { group, reason })
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
    events: &ServerEvents,
) -> Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError> {
    let second_transport = transport.with_same_streams();
    let mode = match client_config().serve_with_lifecycle(transport, handshake.lifecycle_mode()).await {
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
    client_config().serve_with_lifecycle(second_transport, mode).await
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
            HandshakeError::NotStarted(error) => {
                Self { reason: format!("cannot start the server: {error}"), group: None }
            }
            HandshakeError::Exited { group, reason } | HandshakeError::Failed { group, reason } => {
                Self { reason, group: Some(group) }
            }
        }
    }
}

impl HandshakeMode {
    fn lifecycle_mode(self) -> ClientLifecycleMode {
        match self {
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions: versions_for_discover(),
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Initialize => ClientLifecycleMode::Initialize,
        }
    }

    /// Returns the kind of handshake for the next start of the same server. Returns `Initialize` if
    /// the negotiated revision uses `initialize`, and `self` if it does not.
    fn for_restart(self, peer: &Peer<RoleClient>) -> Self {
        match peer.peer_info() {
            Some(info) if info.protocol_version.has_initialize() => Self::Initialize,
            _ => self,
        }
    }
}

/// Returns the supported protocol revisions that use `server/discover`.
fn versions_for_discover() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

fn client_config() -> ClientConfig {
    let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), implementation)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// Returns the exit status of a server that has closed its standard output. Returns `None` if the
/// server is still running 200 ms later.
async fn wait_for_exit_status(group: &mut ProcessGroup) -> Option<ExitStatus> {
    timeout(DRAIN_TIMEOUT, group.wait_for_exit()).await.ok().and_then(Result::ok)
}

/// Formats an error message about the exit of a server, with the last lines of its standard error.
/// `phase` is inserted into the message. It is empty or a phrase such as ` during the handshake`.
async fn exit_message(phase: &str, status: Option<ExitStatus>, stderr: &mut StderrTail) -> String {
    let mut text = match status {
        Some(status) => format!("the server exited{phase} ({status})"),
        None => format!("the server closed its standard output{phase}"),
    };
    let last_lines = stderr.last_lines(DRAIN_TIMEOUT).await;
    if !last_lines.is_empty() {
        text += "; stderr:\n";
        text += &last_lines;
    }
    // A shell exits with status 127 if it does not find a command.
    if status.and_then(|status| status.code()) == Some(127) {
        text += "\nset `PATH` in the server's `env`, or use an absolute path";
    }
    text
}
