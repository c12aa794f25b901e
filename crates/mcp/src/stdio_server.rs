use std::{borrow::Cow, collections::BTreeMap, ffi::OsString, fmt, path::PathBuf, time::Duration};

use crate::{ServerOptions, process::ProcessLimits, start_failure};

/// The handshake timeout of a server that may have to be downloaded.
const LAUNCHER_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The configuration of an MCP server that communicates over standard input and output.
///
/// The command is started directly, without a shell, in its own process group.
///
/// # Environment
///
/// The server inherits the variables [`DEFAULT_ENV`](Self::DEFAULT_ENV) of this process, which are
/// the ones that the official MCP SDKs pass on. [`env`](Self::env) adds further variables. The API
/// keys of this process are invisible to the server, unless the configuration names them.
///
/// The command is looked up in the `PATH` of the server.
///
/// # Examples
///
/// ```
/// use haft_mcp::StdioServer;
///
/// let server = StdioServer::new("npx")
///     .with_args(["-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"])
///     .with_inherited_env(["HTTPS_PROXY"])
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
    /// The environment variables of the server, in addition to the inherited ones. They take
    /// precedence over inherited variables of the same name.
    pub env: BTreeMap<String, String>,
    /// The names of the variables that the server inherits from this process. Default:
    /// [`DEFAULT_ENV`](Self::DEFAULT_ENV).
    ///
    /// A variable is skipped if it is not set. It is also skipped if its value begins with `()`,
    /// because such a value is a function of a shell.
    pub inherited_env: Vec<String>,
    /// The working directory of the server. Default: the working directory of this process, or a
    /// temporary directory if the server is [isolated](Self::isolated).
    pub cwd: Option<PathBuf>,
    /// The limits for the resources of the server. Default: none.
    pub limits: Option<ProcessLimits>,
    /// Limits for the connection, and the selection of tools.
    pub options: ServerOptions,
    /// The command line as written in a configuration file, in which variables stand for secrets.
    command_line: Option<String>,
    is_isolated: bool,
}

impl StdioServer {
    /// The names of the environment variables that a server inherits by default.
    ///
    /// The official Python and TypeScript SDKs pass on the same variables. On Windows, they are
    /// `APPDATA`, `HOMEDRIVE`, `HOMEPATH`, `LOCALAPPDATA`, `PATH`, `PROCESSOR_ARCHITECTURE`,
    /// `SYSTEMDRIVE`, `SYSTEMROOT`, `TEMP`, `USERNAME` and `USERPROFILE`.
    pub const DEFAULT_ENV: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

    /// Creates a configuration for `command` with the default limits. It has no arguments, and only
    /// the inherited environment variables.
    ///
    /// Programs such as `npx`, `uvx` and `docker` download a server before they start it. Their
    /// handshake timeout is one minute.
    pub fn new(command: impl Into<String>) -> Self {
        let command = command.into();
        let mut options = ServerOptions::default();
        if start_failure::is_launcher(&command) {
            options.handshake_timeout = LAUNCHER_HANDSHAKE_TIMEOUT;
        }
        Self {
            command,
            args: Vec::new(),
            env: BTreeMap::new(),
            inherited_env: Self::DEFAULT_ENV.map(str::to_owned).to_vec(),
            cwd: None,
            limits: None,
            options,
            command_line: None,
            is_isolated: false,
        }
    }

    /// Creates a configuration for `command`, usually a program of your own whose tools may crash
    /// or use too many resources. The server has the default [`ProcessLimits`], no inherited
    /// environment variables, and a temporary working directory, which is deleted when the server
    /// ends. The command must be a path.
    ///
    /// A crash of the server fails the calls in progress, and the source restarts the server. The
    /// isolation is no sandbox: the server runs as the same user, so it can read the files of the
    /// user and use the network.
    ///
    /// # Examples
    ///
    /// A program that runs its own tools in a child process:
    ///
    /// ```no_run
    /// use haft_core::Toolset;
    /// use haft_mcp::{McpSource, StdioServer, serve_stdio};
    ///
    /// # async fn example(tools: Toolset) -> Result<(), Box<dyn std::error::Error>> {
    /// if std::env::args().nth(1).as_deref() == Some("serve-tools") {
    ///     return Ok(serve_stdio(tools).await?);
    /// }
    /// let program = std::env::current_exe()?;
    /// let server = StdioServer::isolated(program.to_string_lossy()).with_args(["serve-tools"]);
    /// let tools = Toolset::new().with_source(McpSource::connect("own", server).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn isolated(command: impl Into<String>) -> Self {
        let limits = Some(ProcessLimits::default());
        Self { limits, is_isolated: true, ..Self::new(command).without_inherited_env() }
    }

    /// Sets the limits for the resources of the server.
    #[must_use]
    pub fn with_limits(mut self, limits: ProcessLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Returns `true` if the server runs in a new temporary directory.
    pub(crate) fn has_temporary_cwd(&self) -> bool {
        self.is_isolated && self.cwd.is_none()
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

    /// Adds `names` to the variables that the server inherits from this process. Their values are
    /// read when the server is started.
    #[must_use]
    pub fn with_inherited_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inherited_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Removes all inherited variables, so that the server gets only the variables in
    /// [`env`](Self::env). Its command must then be a path, or `env` must contain `PATH`.
    #[must_use]
    pub fn without_inherited_env(mut self) -> Self {
        self.inherited_env.clear();
        self
    }

    /// Returns the environment of the server. `lookup` returns a variable of this process.
    pub(crate) fn environment(
        &self,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> BTreeMap<String, OsString> {
        let is_function = |value: &OsString| value.as_encoded_bytes().starts_with(b"()");
        let inherited = self.inherited_env.iter().filter_map(|name| Some((name.clone(), lookup(name)?)));
        let inherited = inherited.filter(|(_, value)| !is_function(value));
        let own = self.env.iter().map(|(name, value)| (name.clone(), value.into()));
        inherited.chain(own).collect()
    }

    /// Sets the working directory of the server.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets the limits for the connection and the selection of tools.
    #[must_use]
    pub fn with_options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the command and the arguments that are shown to people.
    pub(crate) fn set_command_line<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        self.command_line = Some(quote(words, "${}"));
    }
}

/// Writes the command and all its arguments, with quotes where a shell needs them. For a server
/// from an [`McpConfig`](crate::McpConfig), writes them as in the file: with variables instead of
/// their values.
impl fmt::Display for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command_line {
            Some(command_line) => f.write_str(command_line),
            None => {
                let words = std::iter::once(&*self.command).chain(self.args.iter().map(|arg| &**arg));
                f.write_str(&quote(words, ""))
            }
        }
    }
}

/// Joins `words` with spaces. A word that a shell would split or change is in single quotes, unless
/// its characters are letters, digits, usual in paths and options, or in `plain`.
fn quote<'a>(words: impl Iterator<Item = &'a str>, plain: &str) -> String {
    let is_plain =
        |letter: char| letter.is_alphanumeric() || "_-./:=@%+,".contains(letter) || plain.contains(letter);
    let quoted = words.map(|word| match word.chars().all(is_plain) && !word.is_empty() {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The debug output contains no secrets. It omits the arguments and the values of the environment
/// variables.
impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("inherited_env", &self.inherited_env)
            .field("cwd", &self.cwd)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
