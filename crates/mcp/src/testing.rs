//! Servers in the process, for tests of tools and of clients.

use std::{fmt, sync::Arc};

use rmcp::ServerHandler;
use tokio::io::{DuplexStream, duplex, split};

use crate::{McpServer, ServerOptions, serve};

/// The number of bytes that a pipe buffers in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// A server that runs in this process, behind a pipe.
///
/// A [`McpSource`](crate::McpSource) starts it like any other server. All messages pass through the
/// pipe as JSON, so a test sees the tools as an MCP client does. The server runs in tasks of the
/// current tokio runtime, which end with the source.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool};
/// use haft_mcp::{McpSource, testing::InProcessServer};
/// use serde_json::json;
///
/// /// Adds two integers.
/// #[tool]
/// fn add(x: i64, y: i64) -> i64 {
///     x + y
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = InProcessServer::new(Toolset::new().with_tool(Add));
/// for server in [server.clone(), server.with_initialize()] {
///     let tools = Toolset::new().with_source(McpSource::connect("own", server).await?);
///     assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InProcessServer {
    /// Limits for the connection, and the selection of tools.
    pub options: ServerOptions,
    /// `true` if the handshake is `initialize` of revision 2025-11-25. Default: `false`, which
    /// means revision 2026-07-28.
    pub uses_initialize: bool,
    connect: Arc<dyn Fn() -> DuplexStream + Send + Sync>,
}

impl InProcessServer {
    /// Creates a configuration for `server`, usually a [`Toolset`](haft_core::Toolset).
    pub fn new<H: ServerHandler>(server: impl Into<McpServer<H>>) -> Self {
        let server = server.into();
        let connect = Arc::new(move || pipe(server.clone()));
        Self { options: ServerOptions::default(), uses_initialize: false, connect }
    }

    /// Uses the handshake `initialize` of revision 2025-11-25.
    #[must_use]
    pub fn with_initialize(mut self) -> Self {
        self.uses_initialize = true;
        self
    }

    /// Sets the limits for the connection and the selection of tools.
    #[must_use]
    pub fn with_options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        (self.connect)()
    }
}

/// Serves `server` over a pipe. Returns the client side of the pipe, for example for `rmcp`. The
/// server ends at most one second after that side is dropped.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
pub fn pipe<H: ServerHandler>(server: impl Into<McpServer<H>>) -> DuplexStream {
    let (client, peer) = duplex(PIPE_BYTES);
    let (reader, writer) = split(peer);
    let server = server.into();
    tokio::spawn(async move {
        if let Err(error) = serve(server, reader, writer).await {
            tracing::warn!(%error, "a server in the process failed");
        }
    });
    client
}

/// Servers are equal if one is a clone of the other and their options are equal.
impl PartialEq for InProcessServer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.connect, &other.connect)
            && (self.uses_initialize, &self.options) == (other.uses_initialize, &other.options)
    }
}

impl Eq for InProcessServer {}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessServer")
            .field("options", &self.options)
            .field("uses_initialize", &self.uses_initialize)
            .finish_non_exhaustive()
    }
}
