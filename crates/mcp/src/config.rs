//! The configuration of servers in `mcp.json` files.

mod entry;
mod expand;
mod gateway;
mod variables;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_core::{ToolContext, text::without_byte_order_mark};
use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use self::variables::{Variables, environment_variable};
#[cfg(feature = "http")]
use crate::ConnectionPool;
#[cfg(feature = "oauth")]
use crate::CredentialFile;
use crate::{
    HttpServer, McpSource, ServerOptions, StdioServer,
    call_data::RequestMetadata,
    callback::Callback,
    elicitation::{Elicitation, ElicitationHandler, ElicitationResponse},
    gateway::GatewayConfig,
    pins::PinFile,
    testing::InProcessServer,
    text_file,
};

/// The MCP servers configured in an `mcp.json` file, in the dialects of common editors.
///
/// The file is JSON, with comments and trailing commas permitted. Its root has one of these keys,
/// with an object of servers by name:
///
/// | key | written by |
/// |---|---|
/// | `mcpServers` | Claude, Cursor, Windsurf, Gemini, Cline, Roo |
/// | `servers`, or `servers` in `mcp` | VS Code |
/// | `context_servers` | Zed |
/// | `mcp` | opencode |
///
/// The entry of a server is an object with these keys:
///
/// | key | meaning |
/// |---|---|
/// | `command`, `args` | the program and its arguments |
/// | `env`, `environment`, `envFile` | the environment variables; see [`StdioServer`] |
/// | `cwd` | the working directory of the program |
/// | `url`, `serverUrl`, `httpUrl` | the endpoint of an HTTP server |
/// | `headers` | the headers of every HTTP request |
/// | `oauth` | an OAuth client that acts for itself; see below |
/// | `type`, `transport` | `stdio`, `http`, `streamable-http` or `sse` |
/// | `disabled`, `enabled` | `true` or `false` skips the entry |
/// | `timeout`, `tool_timeout_sec` | the [idle timeout](ServerOptions::idle_timeout) of calls |
/// | `startup_timeout_sec`, `startup_timeout_ms` | the timeout of the handshake |
/// | `isolated` | `true` starts the program as in [`StdioServer::isolated`] |
/// | `limits` | the [limits](crate::process::ProcessLimits) of the program; see below |
/// | `lazy` | `true` starts the server at its first call; see [`ServerOptions::with_lazy_start`] |
/// | `includeTools`, `allowedTools`, `enabledTools`, `tools` | the tools that are offered |
/// | `excludeTools`, `deniedTools`, `disabledTools`, `blockedTools` | the tools that are hidden |
///
/// `oauth` is an object with `"grantType": "client_credentials"`, `clientId`, `clientSecret` or
/// `privateKeyFile` (PKCS#8, PEM), and optionally `scope`, separated by spaces, and `issuer`; see
/// [`ClientCredentials`](crate::client_credentials::ClientCredentials). With the grant
/// `authorization_code`, or without `grantType`, it is ignored: the client of a user is that of a
/// [`login`](crate::login). Another grant is an error.
///
/// `timeout` is in seconds up to 3600, and otherwise in milliseconds, because editors differ. With
/// an idle timeout of more than five minutes, a call may also take as long in total.
///
/// `limits` is an object with `cpuSeconds`, `memoryMiB`, `openFiles` and `fileMiB`. A missing key
/// has its default, and an unknown key is an error.
///
/// `command` may also be a list with the arguments, or an object with `path`, `args` and `env`. The
/// lists of tools are a [`ToolFilter`](crate::ToolFilter).
///
/// Other keys are ignored. Approvals such as `autoApprove` are also ignored, because the server's
/// file must not lower the policy of the program.
///
/// # Gateway
///
/// The root may have an object `gateway` with the rules of a [gateway](crate::gateway):
///
/// | key | meaning |
/// |---|---|
/// | `prefix` | `false` offers the tools without the name of their server |
/// | `renameTools` | new names of tools by their names with the prefix |
/// | `includeTools`, `excludeTools` | the tools that are offered and hidden, by the new names |
/// | `approveTools` | the tools that need an approval |
/// | `clients` | by id: `token`, `scopes`, `includeTools` and `excludeTools` of a client |
///
/// # Variables
///
/// Strings may contain variables:
///
/// | variable | value |
/// |---|---|
/// | `${NAME}`, `${env:NAME}`, `{env:NAME}` | an environment variable |
/// | `${NAME:-default}` | the same, or the default if it is undefined or empty |
/// | `${input:ID}` | the environment variable `INPUT_ID`, or the `default` of the input |
/// | `${workspaceFolder}` | the working directory of this process |
/// | `${workspaceFolderBasename}` | its name |
/// | `${userHome}`, `${pathSeparator}` | the home folder, `/` |
///
/// A default may contain variables. The name of an `INPUT_ID` is in upper case, with underscores
/// instead of other characters.
///
/// # Invalid entries
///
/// An invalid entry does not affect the other servers. [`invalid_entries`](Self::invalid_entries)
/// returns the faults, and [`start`](Self::start) creates a source for it that reports the fault.
///
/// # Examples
///
/// ```
/// use haft_mcp::McpConfig;
///
/// let config = McpConfig::from_json(
///     r#"{
///         "mcpServers": {
///             "clock": { "command": "mcp-server-time", "env": { "TZ": "${NO_SUCH_ZONE:-UTC}" } }
///         }
///     }"#,
/// )?;
/// assert_eq!(config.server_names().collect::<Vec<_>>(), ["clock"]);
/// # Ok::<(), haft_mcp::McpConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    path: Option<PathBuf>,
    servers: Vec<Entry>,
    /// The rules in the object `gateway`, or the description of the fault in it. `None` if the file
    /// has no such object.
    gateway: Option<Result<GatewayConfig, String>>,
}

/// The name of a server and its configuration, or the description of the fault in its entry.
type Entry = (String, Result<ServerConfig, String>);

/// The configuration of one MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerConfig {
    /// A server that runs as a child process and communicates over standard input and output.
    Stdio(StdioServer),
    /// A server with an HTTP endpoint.
    Http(HttpServer),
    /// A server in this process.
    InProcess(InProcessServer),
}

impl From<StdioServer> for ServerConfig {
    fn from(server: StdioServer) -> Self {
        Self::Stdio(server)
    }
}

impl From<HttpServer> for ServerConfig {
    fn from(server: HttpServer) -> Self {
        Self::Http(server)
    }
}

impl From<InProcessServer> for ServerConfig {
    fn from(server: InProcessServer) -> Self {
        Self::InProcess(server)
    }
}

impl ServerConfig {
    /// Returns the limits for the connection and the selection of tools.
    pub fn options(&self) -> &ServerOptions {
        match self {
            Self::Stdio(server) => &server.options,
            Self::Http(server) => &server.options,
            Self::InProcess(server) => &server.options,
        }
    }

    fn options_mut(&mut self) -> &mut ServerOptions {
        match self {
            Self::Stdio(server) => &mut server.options,
            Self::Http(server) => &mut server.options,
            Self::InProcess(server) => &mut server.options,
        }
    }
}

/// An error from reading or parsing an `mcp.json` file.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
pub struct McpConfigError {
    /// The path of the file. `None` if the configuration was parsed from text.
    pub path: Option<PathBuf>,
    /// The cause of the error.
    pub problem: McpConfigProblem,
}

/// The cause of an [`McpConfigError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpConfigProblem {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The text is not valid JSON. The message contains the line and the column.
    #[error("not JSON: {0}")]
    InvalidJson(serde_json::Error),
    /// The root is not an object, or it has no object of servers.
    #[error(
        "the root must be an object with \"mcpServers\" or \"servers\", an object of servers by name; {0}"
    )]
    InvalidRoot(String),
    /// The object `gateway` is invalid. The message contains no tokens.
    #[error("the object \"gateway\" is invalid: {0}")]
    InvalidGateway(String),
}

impl McpConfig {
    /// Reads the `mcp.json` file at `path`. Variables are looked up in the environment of this
    /// process.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or in the cases of [`from_json`](Self::from_json).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, McpConfigError> {
        let path = path.as_ref();
        let with_path = |problem| McpConfigError { path: Some(path.to_owned()), problem };
        let text = text_file::read(path).map_err(|error| with_path(McpConfigProblem::Unreadable(error)))?;
        let config = parse(&text, &environment_variable).map_err(with_path)?;
        Ok(Self { path: Some(path.to_owned()), ..config })
    }

    /// Parses `text`, the content of an `mcp.json` file. Variables are looked up in the environment
    /// of this process.
    ///
    /// # Errors
    ///
    /// Fails if the text is not valid JSON, if its root is not an object, or if the root has no
    /// object of servers. An invalid entry of a server is no error; see
    /// [`invalid_entries`](Self::invalid_entries).
    pub fn from_json(text: &str) -> Result<Self, McpConfigError> {
        Self::from_json_with_variables(text, environment_variable)
    }

    /// Parses `text`, the content of an `mcp.json` file. Variables are looked up with `lookup`, for
    /// example in a secret store. It receives `NAME` for `${NAME}` and `${env:NAME}`, and
    /// `input:ID` for `${input:ID}`.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`from_json`](Self::from_json).
    pub fn from_json_with_variables(
        text: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, McpConfigError> {
        parse(text, &lookup).map_err(|problem| McpConfigError { path: None, problem })
    }

    /// Sends the access tokens in `credentials` to the HTTP servers without a header
    /// `Authorization`. See [`HttpServer::with_credentials`].
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_credentials(mut self, credentials: &CredentialFile) -> Self {
        for (_, server) in &mut self.servers {
            if let Ok(ServerConfig::Http(server)) = server
                && !server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
            {
                server.credentials = Some(credentials.clone());
            }
        }
        self
    }

    /// Withholds changed and new tools of the servers until they are accepted. The key of a server
    /// in `pins` is its name.
    #[must_use]
    pub fn with_pins(mut self, pins: &PinFile) -> Self {
        for (name, server) in &mut self.servers {
            if let Ok(server) = server {
                server.options_mut().pins = Some(pins.server(name.as_str()));
            }
        }
        self
    }

    /// Adds tools for the resources of the servers. See [`ServerOptions::with_resource_tools`].
    #[must_use]
    pub fn with_resource_tools(mut self) -> Self {
        self.each_options(|options| options.resource_tools = true);
        self
    }

    /// Adds tools for the prompts of the servers. See [`ServerOptions::with_prompt_tools`].
    #[must_use]
    pub fn with_prompt_tools(mut self) -> Self {
        self.each_options(|options| options.prompt_tools = true);
        self
    }

    /// Sets the function that returns metadata for the requests of a call, for all servers. See
    /// [`ServerOptions::with_request_metadata`].
    #[must_use]
    pub fn with_request_metadata<F>(mut self, metadata: F) -> Self
    where
        F: Fn(&str, &ToolContext) -> Map<String, Value> + Send + Sync + 'static,
    {
        let metadata: RequestMetadata = Callback::new(Arc::new(metadata));
        self.each_options(|options| options.request_metadata = Some(metadata.clone()));
        self
    }

    /// Stores protocol revisions that are slow to detect in the file at `path`. See
    /// [`ServerOptions::with_revision_cache`].
    #[must_use]
    pub fn with_revision_cache(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.each_options(|options| options.revision_cache = Some(path.clone()));
        self
    }

    fn each_options(&mut self, change: impl Fn(&mut ServerOptions)) {
        let servers = self.servers.iter_mut().filter_map(|(_, server)| server.as_mut().ok());
        servers.for_each(|server| change(server.options_mut()));
    }

    /// Sends pings to all servers. See [`ServerOptions::with_ping_interval`].
    #[must_use]
    pub fn with_ping_interval(mut self, interval: Duration) -> Self {
        for (_, server) in &mut self.servers {
            if let Ok(server) = server {
                server.options_mut().ping_interval = Some(interval);
            }
        }
        self
    }

    /// Sets the function that responds to the elicitations of all servers. Its first argument is
    /// the name of the server. See [`ServerOptions::with_elicitation_handler`].
    #[must_use]
    pub fn with_elicitation_handler<F, Response>(mut self, handler: F) -> Self
    where
        F: Fn(&str, Elicitation) -> Response + Send + Sync + 'static,
        Response: Future<Output = ElicitationResponse> + Send + 'static,
    {
        let handler = Arc::new(handler);
        for (name, server) in &mut self.servers {
            let Ok(server) = server else { continue };
            let options = server.options_mut();
            let (name, handler) = (name.clone(), Arc::clone(&handler));
            options.elicitation_handler =
                Some(ElicitationHandler::new(move |elicitation| handler(&name, elicitation)));
        }
        self
    }

    /// Returns the path of the file. `None` if the configuration was parsed from text.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the names and configurations of the servers with a valid entry, in file order.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().filter_map(|(name, server)| Some((name.as_str(), server.as_ref().ok()?)))
    }

    /// Returns the names of all servers that are not disabled, in file order.
    pub fn server_names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the names of the servers with an invalid entry, and a description of each fault. It
    /// contains no values of the file, because they may be secrets.
    ///
    /// An entry is invalid if it has both `command` and `url` or none of them, if a value has the
    /// wrong type, if a variable without a default is undefined, if a `${` has no matching `}`, or
    /// if variables are nested deeper than 16 levels.
    pub fn invalid_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers
            .iter()
            .filter_map(|(name, server)| Some((name.as_str(), server.as_ref().err()?.as_str())))
    }

    /// Returns the rules of the gateway in the object `gateway` of the file. Returns the default if
    /// the file has no such object.
    ///
    /// # Errors
    ///
    /// Fails if the object has an unknown key or an invalid value, or if a variable in it is
    /// undefined.
    pub fn gateway(&self) -> Result<GatewayConfig, McpConfigError> {
        let invalid = |fault: &String| McpConfigError {
            path: self.path.clone(),
            problem: McpConfigProblem::InvalidGateway(fault.clone()),
        };
        self.gateway
            .as_ref()
            .map_or(Ok(GatewayConfig::default()), |rules| rules.clone().map_err(|it| invalid(&it)))
    }

    /// Starts all servers in the background and returns one source per server, in file order. See
    /// [`McpSource::start`].
    ///
    /// The source of an invalid entry has no tools, and its listing fails with the fault of the
    /// entry.
    pub fn start(&self) -> Vec<McpSource> {
        let source = |(name, server): &Entry| match server {
            Ok(server) => McpSource::start(name, server.clone()),
            Err(reason) => {
                let file =
                    self.path.as_ref().map(|path| format!(" of {}", path.display())).unwrap_or_default();
                McpSource::failed(name, format!("the entry{file} is invalid: {reason}"))
            }
        };
        self.servers.iter().map(source).collect()
    }
}

/// Replaces the variables in `text` by their values in the environment of this process, with the
/// syntax of an `mcp.json` file; see [`McpConfig`]. For example, `Bearer ${TOKEN}` becomes a
/// header.
///
/// # Errors
///
/// Returns a description of the fault, which names the variable and does not contain `text`: a
/// variable without a default is undefined, a `}` is missing, or variables are nested deeper than
/// 16 levels.
pub fn expand_variables(text: &str) -> Result<String, String> {
    expand::expand(text, &Variables::new(&environment_variable, &Map::new()))
}

fn parse(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<McpConfig, McpConfigProblem> {
    let text = without_byte_order_mark(text);
    let root: Value = serde_json::from_str(text)
        .or_else(|error| parse_with_comments(text).ok_or(error))
        .map_err(McpConfigProblem::InvalidJson)?;
    let Value::Object(root) = root else {
        return Err(McpConfigProblem::InvalidRoot(format!("the root is {}", type_name(&root))));
    };
    let servers = find_servers(&root)?;
    let variables = Variables::new(lookup, &root);
    let enabled = servers.iter().filter(|(_, entry)| !entry::is_disabled(entry));
    let entries = enabled.map(|(name, entry)| (name.clone(), entry::parse_entry(entry, &variables)));
    #[cfg(feature = "http")]
    let entries = {
        let pool = ConnectionPool::default();
        entries.map(move |(name, server)| (name, server.map(|server| with_pool(server, &pool))))
    };
    let gateway = root.get(gateway::KEY).map(|rules| gateway::parse_gateway(rules, &variables));
    Ok(McpConfig { path: None, servers: entries.collect(), gateway })
}

#[cfg(feature = "http")]
fn with_pool(server: ServerConfig, pool: &ConnectionPool) -> ServerConfig {
    match server {
        ServerConfig::Http(server) => server.with_connection_pool(pool.clone()).into(),
        server @ (ServerConfig::Stdio(_) | ServerConfig::InProcess(_)) => server,
    }
}

/// Parses `text` as JSON with comments and trailing commas. Returns `None` if it is invalid.
fn parse_with_comments(text: &str) -> Option<Value> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    jsonc_parser::parse_to_serde_value(text, &options).ok()
}

/// Returns the object of servers in `root`.
fn find_servers(root: &Map<String, Value>) -> Result<&Map<String, Value>, McpConfigProblem> {
    let nested = root.get("mcp").and_then(|mcp| mcp.get("servers")).map(|servers| ("mcp.servers", servers));
    let direct = ["mcpServers", "servers", "context_servers", "mcp"];
    let mut direct = direct.into_iter().filter_map(|key| Some((key, root.get(key)?)));
    match nested.or_else(|| direct.next()) {
        Some((_, Value::Object(servers))) => Ok(servers),
        Some((key, other)) => {
            Err(McpConfigProblem::InvalidRoot(format!("\"{key}\" is {}", type_name(other))))
        }
        None => Err(McpConfigProblem::InvalidRoot(format!("the root has {}", quoted_keys(root)))),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn quoted_keys(object: &Map<String, Value>) -> String {
    if object.is_empty() {
        return "no keys".to_owned();
    }
    object.keys().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
