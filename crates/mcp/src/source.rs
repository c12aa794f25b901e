mod supervisor;

use std::{pin::pin, time::Duration};

use async_trait::async_trait;
use haft_core::{
    ToolSource,
    toolset::{ListContext, SourceError, ToolList},
};
use rmcp::{
    RoleClient,
    service::{RunningService, Service},
};
use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    StdioServer,
    connection::Connection,
    link::{Link, Status},
    listing::{Bounds, Listing},
};

/// The tools of an MCP server.
///
/// The source owns the server: it is started in the background, greeted in the words of either era (2026-07-28
/// or up to 2025-11-25), started again when it dies, and ended with everything that it started when the source
/// is dropped. Its tools survive a restart; once the source is gone they fail.
///
/// # Failures
///
/// A server that does not start is tried again, less and less often (from a quarter of a second up to half a
/// minute). A call that is under way when the server dies fails with
/// [`ToolError::Unconfirmed`](haft_core::ToolError::Unconfirmed) and is never made twice; a call that comes while
/// it starts again waits for it, as long as the handshake may take. A call that finds no server fails with a
/// [`ConnectionLost`](crate::ConnectionLost) as its source. A tool whose definition is refused is missing from the
/// list, which says why.
///
/// # Processes
///
/// A server and what it starts are one process group. It ends, by force after two seconds, when the source is
/// dropped and also when this process ends in any way: panic, signal or `SIGKILL`. A process that leaves its
/// group on purpose (a daemon with a session of its own) is out of reach.
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
    status: watch::Receiver<Status>,
    closing: DropGuard,
    /// What it means that nobody keeps the connection any more.
    abandoned: &'static str,
}

const NO_RUNTIME: &str = "the runtime that kept it is gone, or has no I/O enabled";

/// Names a server in errors and logs.
pub(crate) fn label(name: &str) -> String {
    format!("mcp:{name}")
}

impl McpSource {
    /// Starts a server in the background. Until it has listed its tools the source says that it starts, and
    /// nobody waits for it.
    ///
    /// This needs a tokio runtime with its I/O and time enabled, which the server does not outlive.
    pub fn start(name: &str, server: StdioServer) -> Self {
        let label = label(name);
        let (sender, status) = watch::channel(Status::Starting);
        let closed = CancellationToken::new();
        let patience = server.handshake_timeout;
        let link = Link::new(label.clone(), status.clone(), closed.clone(), patience);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(supervisor::run(server, link, sender, closed.clone()))),
            Err(error) => drop(sender.send_replace(Status::Failed { reason: error.to_string() })),
        }
        Self { label, status, closing: closed.drop_guard(), abandoned: NO_RUNTIME }
    }

    /// Starts a server and waits for its tools.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be started, does not answer the handshake in time, or has no list of tools
    /// that can be read. It is ended then.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the server.
    pub async fn connect(name: &str, server: StdioServer) -> Result<Self, SourceError> {
        let source = Self::start(name, server);
        source.ready().await?;
        Ok(source)
    }

    /// Makes a source of a connection that you have; it ends with the source.
    ///
    /// The list of tools is read once: notices of changes go to your handler.
    ///
    /// # Errors
    ///
    /// Fails when the server has no list of tools that can be read.
    pub async fn from_service<S: Service<RoleClient>>(
        service: RunningService<RoleClient, S>,
    ) -> Result<Self, SourceError> {
        let info = service.peer().peer_info();
        let name =
            info.as_ref().and_then(|info| info.server_info.as_ref()).map_or("server", |server| &server.name);
        let label = label(name);
        let connection = Connection::foreign(service.peer().clone());
        let (sender, status) = watch::channel(Status::Starting);
        let closed = CancellationToken::new();
        // There is nothing to wait for: it does not come back.
        let link = Link::new(label.clone(), status.clone(), closed.clone(), Duration::ZERO);
        let listing = Listing::read(&connection, &link, None, Bounds::default()).await;
        let tools = listing.map_err(|error| SourceError::new(&label, error.to_string()))?.tools;
        sender.send_replace(Status::Ready { connection, tools });
        tokio::spawn(hold(service, sender, closed.clone()));
        let abandoned = "the connection is closed";
        Ok(Self { label, status, closing: closed.drop_guard(), abandoned })
    }

    /// Waits until the server has listed its tools, or failed to.
    ///
    /// # Errors
    ///
    /// Fails when the first attempt fails; others follow.
    pub async fn ready(&self) -> Result<(), SourceError> {
        let mut status = self.status.clone();
        let started = status.wait_for(|status| !matches!(status, Status::Starting)).await;
        match started.as_deref() {
            Ok(Status::Failed { reason }) => Err(SourceError::new(&self.label, reason)),
            Ok(_) => Ok(()),
            Err(_) => Err(self.abandoned()),
        }
    }

    fn abandoned(&self) -> SourceError {
        SourceError::new(&self.label, self.abandoned)
    }

    /// Ends the server and waits until it and everything that it started are gone. Of a given connection it is the
    /// connection that ends.
    pub async fn close(self) {
        let Self { mut status, closing, .. } = self;
        drop(closing);
        // Who keeps the connection lets go of this end when it is done.
        while status.changed().await.is_ok() {}
    }
}

/// Keeps a given connection until it ends or its source does.
async fn hold<S: Service<RoleClient>>(
    service: RunningService<RoleClient, S>,
    _status: watch::Sender<Status>,
    closed: CancellationToken,
) {
    let stop = service.cancellation_token();
    let mut ended = pin!(service.waiting());
    tokio::select! {
        _ = &mut ended => {}
        () = closed.cancelled() => {
            stop.cancel();
            let _ = ended.await;
        }
    }
}

#[async_trait]
impl ToolSource for McpSource {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
        if self.status.has_changed().is_err() {
            return Err(self.abandoned());
        }
        match &*self.status.borrow() {
            Status::Ready { tools, .. } | Status::Restarting { tools } => Ok(tools.clone()),
            Status::Starting => Err(SourceError::new(&self.label, "it is still starting")),
            Status::Failed { reason } => Err(SourceError::new(&self.label, reason)),
        }
    }
}

impl std::fmt::Debug for McpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSource").field("label", &self.label).finish_non_exhaustive()
    }
}
