use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use haft_core::limits;

/// The command of an MCP server that communicates over standard input and output.
///
/// The command is started directly, without a shell, in its own process group.
///
/// # Environment
///
/// The child gets only the variables of [`env`](Self::env). It inherits nothing from this process,
/// not even `PATH` and `HOME`, so an API key of this process is not visible to servers by default.
///
/// The command is looked up in the `PATH` of [`env`](Self::env), or in the `PATH` of this process
/// if `env` has none. Launchers that start other programs (`npx`, `uvx`) need `PATH` in their own
/// environment: use [`with_inherited`](Self::with_inherited).
///
/// # Examples
///
/// ```
/// use haft_mcp::StdioServer;
///
/// let server = StdioServer::new("npx")
///     .with_args(["-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"])
///     .with_inherited(["PATH", "HOME"])
///     .with_env("LOG_LEVEL", "warn");
/// assert_eq!(server.to_string(), "npx -y @modelcontextprotocol/server-filesystem /srv/notes");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioServer {
    /// The program: a path, or a name to look up in `PATH`.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// The complete environment of the child.
    pub env: BTreeMap<String, String>,
    /// Working directory. Default: the working directory of this process.
    pub cwd: Option<PathBuf>,
    /// Maximum duration of the handshake. Default: [`limits::HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// Maximum time of a call without a response or a progress notification.
    ///
    /// Default: [`limits::CALL_IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// Maximum time to list the tools. Default: [`limits::LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// Maximum number of pages of the tool list. Default: [`limits::LIST_PAGES`].
    pub list_pages: usize,
    /// Maximum length of a message from the server, in bytes. Default: [`limits::LINE_BYTES`].
    pub line_bytes: usize,
}

impl StdioServer {
    /// Creates the configuration of a command without arguments, with an empty environment.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
            idle_timeout: limits::CALL_IDLE_TIMEOUT,
            list_timeout: limits::LIST_TIMEOUT,
            list_pages: limits::LIST_PAGES,
            line_bytes: limits::LINE_BYTES,
        }
    }

    /// Appends arguments.
    #[must_use]
    pub fn with_args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the child.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Copies environment variables of this process to the child.
    ///
    /// Variables that are not set or not valid Unicode are skipped.
    #[must_use]
    pub fn with_inherited<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let set =
            names.into_iter().map(Into::into).filter_map(|name| Some((std::env::var(&name).ok()?, name)));
        self.env.extend(set.map(|(value, name)| (name, value)));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets the maximum duration of the handshake.
    ///
    /// Calls during a start wait for at most this time.
    ///
    /// The first request is `server/discover` of revision 2026-07-28. If the server does not
    /// respond within a third of this time, at most three seconds, `initialize` follows.
    #[must_use]
    pub fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets the maximum time of a call without a response or a progress notification.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the maximum time to list the tools.
    #[must_use]
    pub fn with_list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// Sets the maximum number of pages of the tool list.
    #[must_use]
    pub fn with_list_pages(mut self, pages: usize) -> Self {
        self.list_pages = pages;
        self
    }

    /// Sets the maximum length of a message from the server, in bytes.
    ///
    /// A longer response fails its call.
    #[must_use]
    pub fn with_line_bytes(mut self, bytes: usize) -> Self {
        self.line_bytes = bytes;
        self
    }
}

/// Writes the command line, with all arguments.
impl fmt::Display for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Omits the arguments and the values of the environment, since these may be secrets.
impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
