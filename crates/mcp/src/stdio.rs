use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use haft_core::limits;

/// How a server is started that speaks over its standard input and output.
///
/// The command is started as it stands, without a shell, in a process group of its own.
///
/// # Environment
///
/// The child sees exactly the variables that are named here, and nothing of the parent's environment, `PATH`
/// and `HOME` included: an API key of the parent is in no child unless it is handed over by name. The command
/// itself is looked up in the `PATH` that the child is given, or else in the parent's. A script that starts
/// other programs (`npx`, `uvx`) needs a `PATH` of its own: [`with_inherited`](Self::with_inherited).
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
    /// The program: a name that is looked up, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs. Default: where the parent runs.
    pub cwd: Option<PathBuf>,
    /// How long the handshake may take. Default: [`limits::HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// How long a call may stay silent, without an answer or progress. Default: [`limits::CALL_IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// How long listing the tools may take. Default: [`limits::LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// How many pages the list of tools may have. Default: [`limits::LIST_PAGES`].
    pub list_pages: usize,
    /// How long one message of the server may be, in bytes. Default: [`limits::LINE_BYTES`].
    pub line_bytes: usize,
}

impl StdioServer {
    /// Names the program.
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

    /// Adds arguments.
    #[must_use]
    pub fn with_args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Gives the child a variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Gives the child these variables of the parent, as far as they are set and are Unicode.
    #[must_use]
    pub fn with_inherited<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let set =
            names.into_iter().map(Into::into).filter_map(|name| Some((std::env::var(&name).ok()?, name)));
        self.env.extend(set.map(|(value, name)| (name, value)));
        self
    }

    /// Sets where the child runs.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets how long the handshake may take. A call that comes while the server starts waits as long. A server that
    /// does not say within a third of it, or within three seconds, that it is of the newer era is taken for one of
    /// the older.
    #[must_use]
    pub fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets how long a call may stay silent.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets how long listing the tools may take.
    #[must_use]
    pub fn with_list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// Sets how many pages the list of tools may have.
    #[must_use]
    pub fn with_list_pages(mut self, pages: usize) -> Self {
        self.list_pages = pages;
        self
    }

    /// Sets how long one message of the server may be, in bytes. A longer one fails the call that it answers.
    #[must_use]
    pub fn with_line_bytes(mut self, bytes: usize) -> Self {
        self.line_bytes = bytes;
        self
    }
}

/// The command line, for people: what would be started, with all that stands in its arguments.
impl fmt::Display for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Without the arguments and the values of the environment, which may be secrets.
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
