mod expand;

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{McpSource, StdioServer};

/// The servers of an `mcp.json`, as editors write it.
///
/// The root has `mcpServers`: an object of entries by name. An entry has `command`, `args`, `env` and `cwd`, or `url`
/// and `headers`. In all their texts `${NAME}` stands for a variable of the environment, `${NAME:-default}` for one
/// that may be missing or empty; a default may have variables in its turn. An entry with `"disabled": true` is left out. Keys
/// that other programs put there are left alone.
///
/// The whole file is checked before anything is started.
///
/// # Examples
///
/// ```
/// use haft_mcp::McpConfig;
///
/// let config = McpConfig::from_json(
///     r#"{"mcpServers": {"clock": {"command": "mcp-server-time", "env": {"TZ": "${NO_SUCH_ZONE:-UTC}"}}}}"#,
/// )?;
/// assert_eq!(config.names().collect::<Vec<_>>(), ["clock"]);
/// # Ok::<(), haft_mcp::McpConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    path: Option<PathBuf>,
    servers: Vec<(String, ServerConfig)>,
}

/// How one server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerConfig {
    /// It is started as a child process.
    Stdio(StdioServer),
    /// It is somewhere else.
    Http(HttpServer),
}

/// A server behind a URL.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpServer {
    /// Where it is.
    pub url: String,
    /// What is sent with every request.
    pub headers: BTreeMap<String, String>,
}

/// Why an `mcp.json` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
pub struct McpConfigError {
    /// The file, if it was one.
    pub path: Option<PathBuf>,
    /// What is wrong.
    pub problem: McpConfigProblem,
}

/// What is wrong with an `mcp.json`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpConfigProblem {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// It is not JSON. The text says the line and the column.
    #[error("not JSON: {0}")]
    Syntax(serde_json::Error),
    /// The root is not what it should be.
    #[error("the root must be an object with \"mcpServers\", an object of servers by name; {0}")]
    Root(String),
    /// An entry is not what it should be.
    #[error("server \"{name}\": {reason}")]
    Entry {
        /// The entry's name.
        name: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

impl McpConfig {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read, and as [`from_json`](Self::from_json).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, McpConfigError> {
        let path = path.as_ref();
        let of_file = |problem| McpConfigError { path: Some(path.to_owned()), problem };
        let text = fs::read_to_string(path).map_err(|error| of_file(McpConfigProblem::Read(error)))?;
        let servers = read(&text, &|name| env::var(name).ok()).map_err(of_file)?;
        Ok(Self { path: Some(path.to_owned()), servers })
    }

    /// Reads text; variables are those of this process.
    ///
    /// # Errors
    ///
    /// Fails on what is not JSON, a root without `mcpServers`, and an entry that has neither `command` nor `url`, or
    /// both, or something of the wrong type, or names a variable that is not defined. The error names the entry.
    pub fn from_json(text: &str) -> Result<Self, McpConfigError> {
        Self::from_json_with(text, |name| env::var(name).ok())
    }

    /// Reads text; variables are what `lookup` knows, such as a store of secrets.
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json).
    pub fn from_json_with(
        text: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, McpConfigError> {
        let servers = read(text, &lookup).map_err(|problem| McpConfigError { path: None, problem })?;
        Ok(Self { path: None, servers })
    }

    /// The servers with their names, in the order of the file.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// The names of the servers, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }

    /// Starts every server in the background, as [`McpSource::start`] does.
    ///
    /// # Errors
    ///
    /// Fails before anything is started when a server is behind a `url`: those are not supported yet.
    pub fn start(&self) -> Result<Vec<McpSource>, McpConfigError> {
        let servers = self.servers().map(|(name, server)| match server {
            ServerConfig::Stdio(server) => Ok((name, server)),
            ServerConfig::Http(_) => Err(entry_error(name, "servers behind a \"url\" are not supported yet")),
        });
        let servers: Vec<_> = servers
            .collect::<Result<_, _>>()
            .map_err(|problem| McpConfigError { path: self.path.clone(), problem })?;
        Ok(servers.into_iter().map(|(name, server)| McpSource::start(name, server.clone())).collect())
    }
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn read(text: &str, lookup: Lookup<'_>) -> Result<Vec<(String, ServerConfig)>, McpConfigProblem> {
    let root: Value = serde_json::from_str(text).map_err(McpConfigProblem::Syntax)?;
    let Value::Object(root) = root else {
        return Err(McpConfigProblem::Root(format!("this is {}", kind(&root))));
    };
    let servers = match root.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(other) => return Err(McpConfigProblem::Root(format!("here \"mcpServers\" is {}", kind(other)))),
        None => return Err(McpConfigProblem::Root(format!("this has {}", keys(&root)))),
    };
    let servers = servers.iter().filter(|(_, entry)| entry.get("disabled") != Some(&Value::Bool(true)));
    let servers = servers.map(|(name, entry)| {
        let server = read_entry(entry, lookup).map_err(|reason| entry_error(name, reason))?;
        Ok((name.clone(), server))
    });
    servers.collect()
}

fn read_entry(entry: &Value, lookup: Lookup<'_>) -> Result<ServerConfig, String> {
    let Value::Object(fields) = entry else {
        return Err(format!("it must be an object with \"command\" or \"url\", not {}", kind(entry)));
    };
    let entry = Entry { fields, lookup };
    match (entry.text("command")?, entry.text("url")?) {
        (Some(command), None) => {
            let mut server = StdioServer::new(command);
            server.args = entry.list("args")?;
            server.env = entry.map("env")?;
            server.cwd = entry.text("cwd")?.map(PathBuf::from);
            if server.command.trim().is_empty() {
                return Err("its \"command\" is empty".to_owned());
            }
            Ok(ServerConfig::Stdio(server))
        }
        (None, Some(url)) => Ok(ServerConfig::Http(HttpServer { url, headers: entry.map("headers")? })),
        (None, None) => Err("it has neither \"command\" nor \"url\": give it one".to_owned()),
        (Some(_), Some(_)) => Err("it has both \"command\" and \"url\": take one away".to_owned()),
    }
}

/// The fields of an entry, with variables in their places; null is none. Errors say where something is wrong and
/// quote no value, which may be a secret.
struct Entry<'a> {
    fields: &'a Map<String, Value>,
    lookup: Lookup<'a>,
}

impl Entry<'_> {
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        let text = |value| self.expand(value, || format!("its \"{key}\""));
        self.present(key).map(text).transpose()
    }

    fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let place = |index| format!("number {} of its \"{key}\"", index + 1);
        match self.present(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                let texts = values.iter().enumerate();
                texts.map(|(index, value)| self.expand(value, || place(index))).collect()
            }
            Some(other) => Err(format!("its \"{key}\" must be a list of strings, not {}", kind(other))),
        }
    }

    fn map(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        match self.present(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(values)) => {
                let texts = values.iter().map(|(name, value)| {
                    let text = self.expand(value, || format!("\"{name}\" of its \"{key}\""))?;
                    Ok((name.clone(), text))
                });
                texts.collect()
            }
            Some(other) => Err(format!("its \"{key}\" must be an object of strings, not {}", kind(other))),
        }
    }

    fn present(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn expand(&self, value: &Value, place: impl Fn() -> String) -> Result<String, String> {
        let text =
            value.as_str().ok_or_else(|| format!("{} must be a string, not {}", place(), kind(value)))?;
        expand::expand(text, self.lookup).map_err(|reason| format!("{}: {reason}", place()))
    }
}

fn entry_error(name: &str, reason: impl Into<String>) -> McpConfigProblem {
    McpConfigProblem::Entry { name: name.to_owned(), reason: reason.into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn keys(object: &Map<String, Value>) -> String {
    if object.is_empty() {
        return "nothing".to_owned();
    }
    object.keys().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(", ")
}

/// Without what may be a secret: the values of the headers, and the URL but for its origin.
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
