//! A session with a server, from its start to its end.

mod handler;
#[cfg(feature = "http")]
mod http;
mod pipe;
mod stdio;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitationCapability, FormElicitationCapability, Implementation,
        JsonObject, ProtocolVersion, SubscriptionFilter, TASKS_EXTENSION_ID, UrlElicitationCapability,
    },
    service::{ClientLifecycleMode, Peer, RunningService},
};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use self::{handler::RequestHandler, stdio::ServerProcess};
use crate::{
    config::ServerConfig, connection::Connection, process::ProcessGroup, revision_cache::CachedRevision,
    transport::ServerEvents,
};

/// The maximum time to wait for the response to `server/discover`. Servers of revisions before
/// 2026-07-28 may never respond to this request.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum time for ending a session with an HTTP server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session with a running server that has completed the handshake.
pub(crate) struct Session {
    /// The process of the server. `None` for an HTTP server, and for a server in this process.
    process: Option<ServerProcess>,
    pub(crate) client: ServerClient,
}

/// The MCP connection of a session.
pub(crate) struct ServerClient {
    service: RunningService<RoleClient, RequestHandler>,
    events: Arc<ServerEvents>,
    pub(crate) connection: Arc<Connection>,
}

/// The kind of handshake with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeMode {
    /// A handshake that begins with `server/discover` (revision 2026-07-28) and falls back to
    /// `initialize`.
    Auto,
    /// A handshake with `initialize` only (revisions up to 2025-11-25).
    Initialize,
    /// A handshake with `initialize` over HTTP with SSE (revision 2024-11-05). Over standard input
    /// and output, it is the same as `Initialize`.
    Sse,
}

/// A new session, and the result of the detection of the protocol revision.
struct OpenedSession {
    session: Session,
    /// The kind of handshake for the next start of the same server.
    next_handshake: HandshakeMode,
    /// `true` if the detection was slow, so that the result should be stored.
    is_slow: bool,
}

/// The error for a server that could not be started, or that failed during the handshake or the
/// first listing of its tools.
pub(crate) struct StartError {
    pub(crate) reason: String,
    /// The process group of the server, which the caller must terminate. `None` if there is no
    /// process.
    pub(crate) group: Option<ProcessGroup>,
    /// `true` if the server rejected the handshake, or exited during the handshake.
    pub(crate) is_rejection: bool,
}

/// The end of a session.
pub(crate) struct SessionEnd<'a> {
    process: Option<&'a mut ServerProcess>,
    events: Arc<ServerEvents>,
}

impl SessionEnd<'_> {
    /// Waits until the server exits, closes its standard output, or ends the HTTP session. Returns
    /// an error message that describes the end.
    pub(crate) async fn wait(self) -> String {
        match self.process {
            Some(process) => process.exited().await,
            None => {
                self.events.closed.cancelled().await;
                "the connection was closed".to_owned()
            }
        }
    }
}

impl StartError {
    /// Creates an error without a process.
    pub(crate) fn without_process(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), group: None, is_rejection: false }
    }
}

impl Session {
    /// Starts or contacts `server` and performs the handshake. Returns the session, and the kind of
    /// handshake for the next start of the same server. Fails if `closed` is cancelled.
    pub(crate) async fn open(
        server: &ServerConfig,
        handshake: HandshakeMode,
        closed: &CancellationToken,
    ) -> Result<(Self, HandshakeMode), StartError> {
        let cache = CachedRevision::of(server);
        let known = match (handshake, &cache) {
            (HandshakeMode::Auto, Some(cache)) => cache.read().await.unwrap_or(handshake),
            _ => handshake,
        };
        let started = Instant::now();
        let opened = match Self::open_with(server, known, closed).await {
            // The server may have been updated since `known` was detected.
            Err(StartError { group, is_rejection: true, .. }) if known != HandshakeMode::Auto => {
                if let Some(group) = group {
                    group.terminate().await;
                }
                if let Some(cache) = &cache {
                    cache.remove().await;
                }
                Self::open_with(server, HandshakeMode::Auto, closed).await?
            }
            Err(error) => {
                // A server that needs another handshake may not respond to this one.
                let has_timed_out = started.elapsed() >= server.options().handshake_timeout;
                if let Some(cache) = cache.as_ref().filter(|_| known != HandshakeMode::Auto && has_timed_out)
                {
                    cache.remove().await;
                }
                return Err(error);
            }
            Ok(opened) => opened,
        };
        if let Some(cache) = cache.filter(|_| opened.is_slow) {
            cache.write(opened.next_handshake).await;
        }
        Ok((opened.session, opened.next_handshake))
    }

    async fn open_with(
        server: &ServerConfig,
        handshake: HandshakeMode,
        closed: &CancellationToken,
    ) -> Result<OpenedSession, StartError> {
        match server {
            ServerConfig::Stdio(server) => stdio::open(server, handshake, closed).await,
            ServerConfig::InProcess(server) => {
                let session = pipe::open(server, closed).await?;
                Ok(OpenedSession { session, next_handshake: handshake, is_slow: false })
            }
            #[cfg(feature = "http")]
            ServerConfig::Http(server) => http::open(server, handshake, closed).await,
            #[cfg(not(feature = "http"))]
            ServerConfig::Http(_) => {
                Err(StartError::without_process("haft-mcp is compiled without the feature `http`"))
            }
        }
    }

    /// Returns the process, for its end, and the connection.
    pub(crate) fn parts(&mut self) -> (SessionEnd<'_>, &ServerClient) {
        (SessionEnd { process: self.process.as_mut(), events: Arc::clone(&self.client.events) }, &self.client)
    }

    /// Closes the MCP connection, and the standard input of the server. Calls in progress fail.
    /// Returns the process group, if any, which the caller must terminate.
    pub(crate) async fn disconnect(self) -> Option<ProcessGroup> {
        let Some(process) = self.process else {
            // The client ends the session of the server.
            let _ = timeout(CLOSE_TIMEOUT, self.client.service.cancel()).await;
            return None;
        };
        drop(self.client);
        Some(process.into_group())
    }

    /// Ends the session and waits until all processes of the server have exited.
    pub(crate) async fn close(self) {
        if let Some(group) = self.disconnect().await {
            group.terminate().await;
        }
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

    /// Returns `true` while the server reports changes of the tool list to a subscription.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.events.is_subscribed.load(Ordering::Relaxed)
    }

    /// Returns `true` if the tool list has a time to live (revision 2026-07-28, "Caching").
    pub(crate) fn has_list_ttl(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
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
                let _active = ActiveSubscription::begin(&self.events);
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

/// An active subscription to changes of the tool list.
struct ActiveSubscription<'a>(&'a ServerEvents);

impl<'a> ActiveSubscription<'a> {
    fn begin(events: &'a ServerEvents) -> Self {
        events.is_subscribed.store(true, Ordering::Relaxed);
        Self(events)
    }
}

impl Drop for ActiveSubscription<'_> {
    fn drop(&mut self) {
        self.0.is_subscribed.store(false, Ordering::Relaxed);
    }
}

impl HandshakeMode {
    fn lifecycle_mode(self) -> ClientLifecycleMode {
        match self {
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions: versions_for_discover(),
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Initialize | Self::Sse => ClientLifecycleMode::Initialize,
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

fn request_handler(events: &Arc<ServerEvents>) -> RequestHandler {
    let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(
        ElicitationCapability::new()
            .with_form(FormElicitationCapability::new())
            .with_url(UrlElicitationCapability::new()),
    );
    // A server may then respond to a call with a task.
    capabilities.extensions = Some(BTreeMap::from_iter([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())]));
    let config = ClientConfig::new(capabilities, implementation)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    RequestHandler::new(config, Arc::clone(events))
}
