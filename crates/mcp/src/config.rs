mod expand;

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{McpSource, StdioServer};

/// The MCP servers configured in an `mcp.json` file. Common editors use the same format.
///
/// The root of the file is an object with the key `mcpServers`. The value of this key is an object
/// with one entry per server. The key of an entry is the name of the server, and its value is an
/// object with these keys:
///
/// | key | meaning |
/// |---|---|
/// | `command`, `args`, `env`, `cwd` | the configuration of a server that runs as a child process |
/// | `url`, `headers` | the configuration of an HTTP server; [`start`](Self::start) rejects it |
/// | `disabled` | `true` skips the entry |
///
/// Other keys are ignored.
///
/// Environment variables in strings are expanded. They are written as `${NAME}` or
/// `${NAME:-default}`. The default is used if the variable is undefined or empty, and may contain
/// further variables.
///
/// All entries that are not disabled are validated before any server is started.
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
    servers: Vec<(String, ServerConfig)>,
}

/// The configuration of one MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerConfig {
    /// A server that runs as a child process and communicates over standard input and output.
    Stdio(StdioServer),
    /// A server with an HTTP endpoint. [`McpConfig::start`] does not support it yet.
    Http(HttpServer),
}

/// The configuration of an MCP server with an HTTP endpoint.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpServer {
    /// The URL of the MCP endpoint.
    pub url: String,
    /// The headers of every HTTP request to the server.
    pub headers: BTreeMap<String, String>,
}

/// An error from reading or parsing an `mcp.json` file, or from starting its servers.
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
    /// The root is not an object, or `mcpServers` is missing or not an object.
    #[error("the root must be an object with \"mcpServers\", an object of servers by name; {0}")]
    InvalidRoot(String),
    /// The entry of a server is invalid or not supported.
    #[error("server \"{name}\": {reason}")]
    InvalidEntry {
        /// The name of the server, which is the key of its entry in `mcpServers`.
        name: String,
        /// A description of the fault. It contains no values from the file, because they may be
        /// secrets.
        reason: String,
    },
}

impl McpConfig {
    /// Reads the `mcp.json` file at `path`. Variables are looked up in the environment of this
    /// process.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read. Also fails if its text is invalid; see
    /// [`from_json`](Self::from_json).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, McpConfigError> {
        let path = path.as_ref();
        let with_path = |problem| McpConfigError { path: Some(path.to_owned()), problem };
        let text =
            fs::read_to_string(path).map_err(|error| with_path(McpConfigProblem::Unreadable(error)))?;
        let servers = parse(&text, &|name| env::var(name).ok()).map_err(with_path)?;
        Ok(Self { path: Some(path.to_owned()), servers })
    }

    /// Parses `text`, the content of an `mcp.json` file. Variables are looked up in the environment
    /// of this process.
    ///
    /// # Errors
    ///
    /// Fails if the text is not valid JSON, if its root is not an object, or if `mcpServers` is
    /// missing or not an object. Also fails if an entry is invalid: `command` and `url` are both
    /// present or both missing, `command` is empty, a value has the wrong type, a variable without
    /// a default is undefined, a `${` has no matching `}`, or variables are nested deeper than 16
    /// levels. The error message for an invalid entry contains the name of the server.
    pub fn from_json(text: &str) -> Result<Self, McpConfigError> {
        Self::from_json_with_variables(text, |name| env::var(name).ok())
    }

    /// Parses `text`, the content of an `mcp.json` file. Variables are looked up with `lookup`, for
    /// example in a secret store.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`from_json`](Self::from_json).
    pub fn from_json_with_variables(
        text: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, McpConfigError> {
        let servers = parse(text, &lookup).map_err(|problem| McpConfigError { path: None, problem })?;
        Ok(Self { path: None, servers })
    }

    /// Returns the names and configurations of the servers, in file order.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Returns the names of the servers, in file order.
    pub fn server_names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }

    /// Starts all servers in the background and returns one source per server. See
    /// [`McpSource::start`].
    ///
    /// # Errors
    ///
    /// Fails if an entry has a `url`, which is not supported yet. In that case, no server is
    /// started.
    pub fn start(&self) -> Result<Vec<McpSource>, McpConfigError> {
        let servers = self.servers().map(|(name, server)| match server {
            ServerConfig::Stdio(server) => Ok((name, server)),
            ServerConfig::Http(_) => Err(entry_error(name, "servers with a \"url\" are not supported yet")),
        });
        let servers: Vec<_> = servers
            .collect::<Result<_, _>>()
            .map_err(|problem| McpConfigError { path: self.path.clone(), problem })?;
        Ok(servers.into_iter().map(|(name, server)| McpSource::start(name, server.clone())).collect())
    }
}

type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn parse(text: &str, lookup: VariableLookup<'_>) -> Result<Vec<(String, ServerConfig)>, McpConfigProblem> {
    let root: Value = serde_json::from_str(text).map_err(McpConfigProblem::InvalidJson)?;
    let Value::Object(root) = root else {
        return Err(McpConfigProblem::InvalidRoot(format!("the root is {}", type_name(&root))));
    };
    let servers = match root.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(other) => {
            return Err(McpConfigProblem::InvalidRoot(format!("\"mcpServers\" is {}", type_name(other))));
        }
        None => return Err(McpConfigProblem::InvalidRoot(format!("the root has {}", quoted_keys(&root)))),
    };
    let servers = servers.iter().filter(|(_, entry)| entry.get("disabled") != Some(&Value::Bool(true)));
    let servers = servers.map(|(name, entry)| {
        let server = parse_entry(entry, lookup).map_err(|reason| entry_error(name, reason))?;
        Ok((name.clone(), server))
    });
    servers.collect()
}

fn parse_entry(entry: &Value, lookup: VariableLookup<'_>) -> Result<ServerConfig, String> {
    let Value::Object(fields) = entry else {
        return Err(format!(
            "the entry must be an object with \"command\" or \"url\", not {}",
            type_name(entry)
        ));
    };
    let entry = EntryReader { fields, lookup };
    if let Some(other) = entry.get_non_null("disabled").filter(|value| !value.is_boolean()) {
        return Err(format!("\"disabled\" must be a boolean, not {}", type_name(other)));
    }
    match (entry.expanded_text("command")?, entry.expanded_text("url")?) {
        (Some(command), None) => {
            let mut server = StdioServer::new(command);
            server.args = entry.expanded_list("args")?;
            server.env = entry.expanded_map("env")?;
            server.cwd = entry.expanded_text("cwd")?.map(PathBuf::from);
            if server.command.trim().is_empty() {
                return Err("\"command\" is empty".to_owned());
            }
            Ok(ServerConfig::Stdio(server))
        }
        (None, Some(url)) => {
            Ok(ServerConfig::Http(HttpServer { url, headers: entry.expanded_map("headers")? }))
        }
        (None, None) => Err("neither \"command\" nor \"url\": add one of them".to_owned()),
        (Some(_), Some(_)) => Err("both \"command\" and \"url\": remove one of them".to_owned()),
    }
}

/// A reader for a server entry. It expands the variables in strings, and treats a key with the
/// value `null` as missing.
///
/// Error messages contain the key but not the value, because the value may be a secret.
struct EntryReader<'a> {
    fields: &'a Map<String, Value>,
    lookup: VariableLookup<'a>,
}

impl EntryReader<'_> {
    fn expanded_text(&self, key: &str) -> Result<Option<String>, String> {
        let text = |value| self.expand(value, || format!("\"{key}\""));
        self.get_non_null(key).map(text).transpose()
    }

    fn expanded_list(&self, key: &str) -> Result<Vec<String>, String> {
        let path = |index| format!("item {} of \"{key}\"", index + 1);
        match self.get_non_null(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                let texts = values.iter().enumerate();
                texts.map(|(index, value)| self.expand(value, || path(index))).collect()
            }
            Some(other) => Err(format!("\"{key}\" must be a list of strings, not {}", type_name(other))),
        }
    }

    fn expanded_map(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        match self.get_non_null(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(values)) => {
                let texts = values.iter().map(|(name, value)| {
                    let text = self.expand(value, || format!("\"{name}\" of \"{key}\""))?;
                    Ok((name.clone(), text))
                });
                texts.collect()
            }
            Some(other) => Err(format!("\"{key}\" must be an object of strings, not {}", type_name(other))),
        }
    }

    fn get_non_null(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn expand(&self, value: &Value, path: impl Fn() -> String) -> Result<String, String> {
        let text =
            value.as_str().ok_or_else(|| format!("{} must be a string, not {}", path(), type_name(value)))?;
        expand::expand(text, self.lookup).map_err(|reason| format!("{}: {reason}", path()))
    }
}

fn entry_error(name: &str, reason: impl Into<String>) -> McpConfigProblem {
    McpConfigProblem::InvalidEntry { name: name.to_owned(), reason: reason.into() }
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

/// The debug output contains no secrets. Only the origin of the URL and the names of the headers
/// are printed.
impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("HttpServer").field("origin", &origin(&self.url)).field("headers", &headers).finish()
    }
}

fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "unknown".to_owned() };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests;
