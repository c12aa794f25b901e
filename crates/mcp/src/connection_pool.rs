use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::http;

/// A pool of HTTP connections that several sources share.
///
/// Sources of clones of an [`HttpServer`](crate::HttpServer) share a pool, and so do all servers of
/// an [`McpConfig`](crate::McpConfig). With a shared pool, ten sources of one origin need one
/// connection for sequential requests, instead of ten. Each concurrent request and each open event
/// stream uses a connection of its own (HTTP/1.1).
///
/// An unused connection is closed after 90 seconds, and with the last source and configuration that
/// has the pool. Connections belong to the tokio runtime that opened them.
///
/// The proxy variables of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`)
/// are read when the first source starts.
///
/// # Examples
///
/// ```
/// use haft_mcp::{ConnectionPool, HttpServer};
///
/// let pool = ConnectionPool::default();
/// let servers = ["search", "mail"].map(|path| {
///     HttpServer::new(format!("https://mcp.example.org/{path}")).with_connection_pool(pool.clone())
/// });
/// # assert_eq!(servers.len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct ConnectionPool(Arc<OnceLock<reqwest::Client>>);

impl ConnectionPool {
    /// Returns the client of the pool, and creates it at the first call.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault in the TLS configuration.
    pub(crate) fn client(&self) -> Result<reqwest::Client, String> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = http::new_client()?;
        Ok(self.0.get_or_init(|| client).clone())
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool").finish_non_exhaustive()
    }
}
