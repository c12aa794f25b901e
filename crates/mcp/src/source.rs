//! Tool sources backed by MCP servers.

mod status;
mod supervisor;

use std::{borrow::Cow, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use haft_core::{
    ToolSource,
    toolset::{ListContext, SourceError, ToolList},
};
use rmcp::{
    RoleClient,
    service::{RunningService, Service},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::status::ServerStatus;

use crate::{
    ServerConfig, ServerOptions,
    connection::Connection,
    connection_handle::{ConnectionHandle, SourceStatus},
    listing::{ListLimits, Listing},
};

/// A tool source backed by an MCP server.
///
/// [`start`](Self::start) and [`connect`](Self::connect) run a [`StdioServer`](crate::StdioServer)
/// as a child process, or contact an [`HttpServer`](crate::HttpServer). The source negotiates the
/// protocol revision (2026-07-28, or 2025-11-25 and earlier), restarts the process after it exits,
/// and terminates it when the source is dropped.
/// [`from_service`](Self::from_service) uses an existing connection and never restarts the server.
///
/// The tools remain valid across restarts. After the source is dropped, calls to its tools fail.
///
/// # Failures
///
/// - **The server does not start:** `connect` returns an error. A source created by `start` tries
///   again, with a backoff from 250 ms to 30 s.
/// - **The server exits during a call:** the call fails with
///   [`ToolError::Unconfirmed`](haft_core::ToolError::Unconfirmed). It is never repeated.
/// - **A tool is called while the server restarts:** the call waits for the server, up to the
///   handshake timeout.
/// - **The latest attempt to start the server failed, or this wait timed out:** the call fails. The
///   `source` of the error is a [`NotConnected`](crate::NotConnected).
/// - **A tool has an invalid definition:** the tool is omitted from the list and reported in a
///   diagnostic.
///
/// # Processes
///
/// A server and its child processes form a process group. The group is terminated when the source
/// is dropped, and also when this process exits, panics or is killed with `SIGKILL`. The server has
/// two seconds to exit, and receives `SIGTERM` after the first. Then the remaining processes of the
/// group are killed. A process that leaves its group (a daemon with its own session) is not
/// terminated.
///
/// # Examples
///
/// ```no_run
/// use haft_core::Toolset;
/// use haft_mcp::{McpSource, StdioServer};
///
/// # async fn example() -> Result<(), haft_core::toolset::SourceError> {
/// let clock = McpSource::connect("clock", StdioServer::new("mcp-server-time")).await?;
/// let tools = Toolset::new().with_source(clock);
/// println!("{:?}", tools.names().await);
/// # Ok(())
/// # }
/// ```
pub struct McpSource {
    label: String,
    status: watch::Receiver<SourceStatus>,
    shutdown: DropGuard,
    /// Notified at each listing.
    listed: Arc<Notify>,
    /// The reason in errors that are returned after the background task of this source has ended.
    task_end_reason: Cow<'static, str>,
}

/// The beginning of the label of a source.
const LABEL_PREFIX: &str = "mcp:";

const NO_RUNTIME: &str = "the tokio runtime of the source was shut down, or has no I/O enabled";

/// Returns the label of the server `name`, such as `mcp:files`, for errors and logs.
pub(crate) fn label(name: &str) -> String {
    format!("{LABEL_PREFIX}{name}")
}

impl McpSource {
    /// Starts `server` in the background. `name` becomes a part of the source's label, for example
    /// `mcp:files`.
    ///
    /// Until the first tool list is fetched, [`tools`](ToolSource::tools) returns an error.
    ///
    /// Requires a tokio runtime with I/O and time enabled. The server is terminated when the
    /// runtime is shut down.
    pub fn start(name: &str, server: impl Into<ServerConfig>) -> Self {
        let server = server.into();
        let label = label(name);
        let (sender, status) = watch::channel(SourceStatus::Starting);
        let closed = CancellationToken::new();
        let listed = Arc::new(Notify::new());
        let start_timeout = server.options().handshake_timeout;
        let handle = ConnectionHandle::new(label.clone(), status.clone(), closed.clone(), start_timeout);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(supervisor::supervise(
                server,
                handle,
                sender,
                closed.clone(),
                Arc::clone(&listed),
            ))),
            Err(error) => drop(sender.send_replace(SourceStatus::Failed { reason: error.to_string() })),
        }
        let shutdown = closed.drop_guard();
        Self { label, status, shutdown, listed, task_end_reason: NO_RUNTIME.into() }
    }

    /// Starts `server` and waits until its tools are listed. With a
    /// [lazy start](ServerOptions::with_lazy_start), the server is not started yet.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be started, does not complete the handshake in time, or does not
    /// return a valid tool list in time. The server is terminated in that case.
    ///
    /// # Cancellation
    ///
    /// Dropping the future terminates the server.
    pub async fn connect(name: &str, server: impl Into<ServerConfig>) -> Result<Self, SourceError> {
        let source = Self::start(name, server);
        source.wait_until_ready().await?;
        Ok(source)
    }

    /// Creates a source whose listing fails with `reason`. It never starts a server.
    pub(crate) fn failed(name: &str, reason: String) -> Self {
        let (_, status) = watch::channel(SourceStatus::Failed { reason: reason.clone() });
        let shutdown = CancellationToken::new().drop_guard();
        Self { label: label(name), status, shutdown, listed: Arc::default(), task_end_reason: reason.into() }
    }

    /// Creates a source from `service`, an existing rmcp connection. The connection is closed when
    /// the source is dropped.
    ///
    /// The tool list is fetched only once, because notifications about changes are delivered to the
    /// handler of `service` and not to the source.
    ///
    /// # Errors
    ///
    /// Fails if the server does not return a valid tool list in time.
    pub async fn from_service<S: Service<RoleClient>>(
        service: RunningService<RoleClient, S>,
    ) -> Result<Self, SourceError> {
        let info = service.peer().peer_info();
        let name =
            info.as_ref().and_then(|info| info.server_info.as_ref()).map_or("server", |server| &server.name);
        let label = label(name);
        let connection = Arc::new(Connection::from_peer(service.peer().clone()));
        let (sender, status) = watch::channel(SourceStatus::Starting);
        let closed = CancellationToken::new();
        // The connection cannot be reopened, so calls must not wait for a new one.
        let handle = ConnectionHandle::new(label.clone(), status.clone(), closed.clone(), Duration::ZERO);
        let listing =
            Listing::fetch(&connection, &handle, None, ListLimits::from(&ServerOptions::default())).await;
        let tools = listing.map_err(|error| SourceError::new(&label, error.to_string()))?.tools;
        sender.send_replace(SourceStatus::Ready { connection, tools });
        tokio::spawn(hold_connection(service, sender, closed.clone()));
        let task_end_reason = "the connection is closed".into();
        let shutdown = closed.drop_guard();
        Ok(Self { label, status, shutdown, listed: Arc::default(), task_end_reason })
    }

    /// Waits until the first attempt to start the server succeeds or fails. With a
    /// [lazy start](ServerOptions::with_lazy_start), waits for the accepted definitions only.
    ///
    /// # Errors
    ///
    /// Fails if the latest attempt to start the server failed. The source then keeps retrying in
    /// the background. Also fails if the tokio runtime of the source was shut down before the first
    /// attempt finished.
    pub async fn wait_until_ready(&self) -> Result<(), SourceError> {
        let mut status = self.status.clone();
        let started = status.wait_for(|status| !matches!(status, SourceStatus::Starting)).await;
        match started.as_deref() {
            Ok(SourceStatus::Failed { reason }) => Err(SourceError::new(&self.label, reason)),
            Ok(_) => Ok(()),
            Err(_) => Err(self.task_ended_error()),
        }
    }

    /// Returns the name of the server, which is the label without `mcp:`.
    pub fn name(&self) -> &str {
        self.label.strip_prefix(LABEL_PREFIX).unwrap_or(&self.label)
    }

    /// Returns the current status of the server.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Toolset;
    /// use haft_mcp::{McpSource, source::ServerStatus, testing::InProcessServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), haft_core::toolset::SourceError> {
    /// let source = McpSource::start("own", InProcessServer::new(Toolset::new()));
    /// assert_eq!(source.status(), ServerStatus::Starting);
    /// source.wait_until_ready().await?;
    /// assert_eq!(source.status(), ServerStatus::Ready);
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(&self) -> ServerStatus {
        match &*self.status.borrow() {
            SourceStatus::Failed { reason } => ServerStatus::Failed { reason: reason.clone() },
            _ if self.status.has_changed().is_err() => ServerStatus::Closed,
            status => status.into(),
        }
    }

    fn task_ended_error(&self) -> SourceError {
        SourceError::new(&self.label, &*self.task_end_reason)
    }

    /// Terminates the server and waits until all processes of its group have exited.
    ///
    /// For a source from [`from_service`](Self::from_service), closes the connection and waits
    /// until it has ended.
    pub async fn close(self) {
        let Self { mut status, shutdown, .. } = self;
        drop(shutdown);
        // The background task drops its status sender after all processes have exited.
        while status.changed().await.is_ok() {}
    }
}

/// Keeps `service`, a user-supplied connection, open until the connection ends or the source is
/// dropped.
async fn hold_connection<S: Service<RoleClient>>(
    service: RunningService<RoleClient, S>,
    status: watch::Sender<SourceStatus>,
    closed: CancellationToken,
) {
    let stop = service.cancellation_token();
    let mut ended = pin!(service.waiting());
    tokio::select! {
        _ = &mut ended => {}
        () = closed.cancelled() => {
            stop.cancel();
            let _ = ended.await;
            status.send_replace(SourceStatus::closed());
        }
    }
}

#[async_trait]
impl ToolSource for McpSource {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
        self.listed.notify_one();
        if self.status.has_changed().is_err() {
            return Err(self.task_ended_error());
        }
        match &*self.status.borrow() {
            SourceStatus::Ready { tools, .. }
            | SourceStatus::Restarting { tools }
            | SourceStatus::Idle { tools } => Ok(tools.clone()),
            SourceStatus::Starting => Err(SourceError::new(&self.label, "the server is still starting")),
            SourceStatus::Failed { reason } => Err(SourceError::new(&self.label, reason)),
        }
    }
}

impl std::fmt::Debug for McpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSource").field("label", &self.label).finish_non_exhaustive()
    }
}
