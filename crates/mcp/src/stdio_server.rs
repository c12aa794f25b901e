use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use haft_core::limits;

/// The configuration of an MCP server that communicates over standard input and output.
///
/// The command is started directly, without a shell, in its own process group.
///
/// # Environment
///
/// The server gets only the variables in [`env`](Self::env). It inherits no variables of this
/// process, not even `PATH` and `HOME`, so the API keys of this process are invisible to the server
/// by default.
///
/// The command is looked up in the `PATH` of [`env`](Self::env), or in the `PATH` of this process
/// if `env` does not contain one. Launchers such as `npx` and `uvx` start other programs, so `env`
/// must contain `PATH` for them. Copy it with [`with_inherited_env`](Self::with_inherited_env).
///
/// # Examples
///
/// ```
/// use haft_mcp::StdioServer;
///
/// let server = StdioServer::new("npx")
///     .with_args(["-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"])
///     .with_inherited_env(["PATH", "HOME"])
///     .with_env("LOG_LEVEL", "warn");
/// assert_eq!(server.to_string(), "npx -y @modelcontextprotocol/server-filesystem /srv/notes");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioServer {
    /// The program, as a path or as a name that is looked up in `PATH`.
    pub command: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// All environment variables of the server. The server inherits no variables of this process.
    pub env: BTreeMap<String, String>,
    /// The working directory of the server. Default: the working directory of this process.
    pub cwd: Option<PathBuf>,
    /// The maximum duration of the handshake. Default: [`limits::HANDSHAKE_TIMEOUT`].
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
    pub max_line_bytes: usize,
}

impl StdioServer {
    /// Creates a configuration for `command` with the default limits. It has no arguments and no
    /// environment variables.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
            idle_timeout: limits::CALL_IDLE_TIMEOUT,
            list_timeout: limits::TOOL_LIST_TIMEOUT,
            max_list_pages: limits::TOOL_LIST_PAGES,
            max_line_bytes: limits::SERVER_MESSAGE_BYTES,
        }
    }

    /// Appends `args` to the arguments of the program.
    #[must_use]
    pub fn with_args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the environment variable `name` of the server to `value`.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Copies the variables `names` from the environment of this process to the environment of the
    /// server.
    ///
    /// A variable is skipped if it is not set or not valid Unicode.
    #[must_use]
    pub fn with_inherited_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let set =
            names.into_iter().map(Into::into).filter_map(|name| Some((std::env::var(&name).ok()?, name)));
        self.env.extend(set.map(|(value, name)| (name, value)));
        self
    }

    /// Sets the working directory of the server.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

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
    pub fn with_max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = bytes;
        self
    }
}

/// Writes the command and all its arguments, separated by spaces.
impl fmt::Display for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// The debug output contains no secrets. It omits the arguments and the values of the environment
/// variables.
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
