use std::time::Duration;

use haft_core::limits;

use crate::ToolFilter;

/// Limits for the connection to an MCP server, and the selection of its tools.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_mcp::{ServerOptions, StdioServer};
///
/// let options = ServerOptions::default().with_handshake_timeout(Duration::from_secs(60));
/// let server = StdioServer::new("npx").with_args(["-y", "server-memory"]).with_options(options);
/// assert_eq!(server.options.handshake_timeout, Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The maximum duration of the handshake. Default: [`limits::HANDSHAKE_TIMEOUT`], and one
    /// minute for a [`StdioServer`](crate::StdioServer) with a program such as `npx`, which
    /// downloads the server.
    pub handshake_timeout: Duration,
    /// The maximum time without a response or a progress notification during a call.
    ///
    /// Default: [`limits::CALL_IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// The maximum time for fetching all pages of the tool list. Default:
    /// [`limits::TOOL_LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// The maximum number of pages in the tool list. Default: [`limits::TOOL_LIST_PAGES`].
    pub max_list_pages: usize,
    /// The maximum length of a message from the server, in bytes. Default:
    /// [`limits::SERVER_MESSAGE_BYTES`].
    pub max_message_bytes: usize,
    /// The tools of the server that are offered. Default: all of them.
    pub tool_filter: ToolFilter,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
            idle_timeout: limits::CALL_IDLE_TIMEOUT,
            list_timeout: limits::TOOL_LIST_TIMEOUT,
            max_list_pages: limits::TOOL_LIST_PAGES,
            max_message_bytes: limits::SERVER_MESSAGE_BYTES,
            tool_filter: ToolFilter::default(),
        }
    }
}

impl ServerOptions {
    /// Sets the maximum duration of the handshake.
    ///
    /// A tool call made while the server starts waits up to the same time.
    ///
    /// The first handshake begins with `server/discover` of revision 2026-07-28. If the server does
    /// not respond within three seconds, or within a third of `timeout` if that is shorter, the
    /// client sends `initialize`.
    #[must_use]
    pub fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets the maximum time without a response or a progress notification during a call.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the maximum time for fetching all pages of the tool list.
    #[must_use]
    pub fn with_list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// Sets the maximum number of pages in the tool list.
    #[must_use]
    pub fn with_max_list_pages(mut self, pages: usize) -> Self {
        self.max_list_pages = pages;
        self
    }

    /// Sets the maximum length of a message from the server, in bytes.
    ///
    /// A call fails if its response exceeds this length.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the tools of the server that are offered.
    #[must_use]
    pub fn with_tool_filter(mut self, filter: ToolFilter) -> Self {
        self.tool_filter = filter;
        self
    }
}
