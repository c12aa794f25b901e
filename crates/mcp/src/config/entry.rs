//! Entries of servers, in the dialects of common editors.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Map, Value};

use super::{ServerConfig, expand::expand, type_name, variables::Variables};
#[cfg(feature = "oauth")]
use crate::client_credentials::ClientCredentials;
use crate::{HttpServer, HttpTransport, StdioServer, ToolFilter};

/// The keys of a list of the offered tools.
const ALLOW_KEYS: [&str; 6] =
    ["includeTools", "allowedTools", "enabledTools", "enabled_tools", "available_tools", "tools"];
/// The keys of a list of tools that are not offered.
const DENY_KEYS: [&str; 5] =
    ["excludeTools", "deniedTools", "disabledTools", "disabled_tools", "blockedTools"];

/// The transport that an entry names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http(HttpTransport),
}

/// Returns `true` if `entry` has `"disabled": true` or `"enabled": false`.
pub(super) fn is_disabled(entry: &Value) -> bool {
    entry.get("disabled") == Some(&Value::Bool(true)) || entry.get("enabled") == Some(&Value::Bool(false))
}

/// Parses `entry`, the configuration of one server.
///
/// # Errors
///
/// Returns a description of the fault. It contains keys, but no values, because they may be
/// secrets.
pub(super) fn parse_entry(entry: &Value, variables: &Variables<'_>) -> Result<ServerConfig, String> {
    let Value::Object(fields) = entry else {
        return Err(format!(
            "the entry must be an object with \"command\" or \"url\", not {}",
            type_name(entry)
        ));
    };
    let entry = EntryReader { fields, variables };
    for key in ["disabled", "enabled", "lazy"] {
        if let Some(other) = entry.get_non_null(key).filter(|value| !value.is_boolean()) {
            return Err(format!("\"{key}\" must be a boolean, not {}", type_name(other)));
        }
    }
    let is_lazy = entry.get_non_null("lazy") == Some(&Value::Bool(true));
    let filter = entry.tool_filter()?;
    let transport = entry.transport()?;
    let has_command = entry.get_non_null("command").is_some();
    match (entry.url()?, transport) {
        (Some(_), None) if has_command => Err("both \"command\" and \"url\": remove one of them".to_owned()),
        (_, Some(Transport::Stdio)) if !has_command => {
            Err("the transport is stdio, but \"command\" is missing".to_owned())
        }
        (None, Some(Transport::Http(_))) => Err("the transport is HTTP, but \"url\" is missing".to_owned()),
        (None, None) if !has_command => Err("neither \"command\" nor \"url\": add one of them".to_owned()),
        (Some((url, by_key)), None | Some(Transport::Http(_))) => {
            check_url(&url)?;
            let stated = match transport {
                Some(Transport::Http(stated)) => stated,
                _ => by_key,
            };
            let mut server = HttpServer::new(url).with_transport(stated);
            server.options.tool_filter = filter;
            server.options.lazy_start = is_lazy;
            server.headers = entry.expanded_map("headers")?;
            #[cfg(feature = "oauth")]
            if let Some(client) = entry.client_credentials()? {
                server = server.with_client_credentials(client);
            }
            Ok(ServerConfig::Http(server))
        }
        (_, None | Some(Transport::Stdio)) => {
            let mut server = entry.stdio_server(filter)?;
            server.options.lazy_start = is_lazy;
            Ok(ServerConfig::Stdio(server))
        }
    }
}

fn check_url(url: &str) -> Result<(), String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => Ok(()),
        _ => Err("\"url\" must begin with http:// or https://".to_owned()),
    }
}

/// A reader for the entry of a server or of a client. It expands the variables in strings, and
/// treats a key with the value `null` as missing.
///
/// Error messages contain the key but not the value, because the value may be a secret.
pub(super) struct EntryReader<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) variables: &'a Variables<'a>,
}

impl EntryReader<'_> {
    fn transport(&self) -> Result<Option<Transport>, String> {
        let Some(key) = ["type", "transport"].into_iter().find(|key| self.get_non_null(key).is_some()) else {
            return Ok(None);
        };
        let name = self.expanded_text(key)?.unwrap_or_default();
        match name.to_lowercase().replace(['-', '_', ' '], "").as_str() {
            "stdio" | "local" => Ok(Some(Transport::Stdio)),
            "streamablehttp" => Ok(Some(Transport::Http(HttpTransport::Streamable))),
            "http" | "remote" => Ok(Some(Transport::Http(HttpTransport::Auto))),
            "sse" => Ok(Some(Transport::Http(HttpTransport::Sse))),
            _ => Err(format!("\"{key}\" is no known transport: write \"stdio\", \"http\" or \"sse\"")),
        }
    }

    /// Returns the URL, and the transport that its key implies.
    fn url(&self) -> Result<Option<(String, HttpTransport)>, String> {
        let keys = [
            ("url", HttpTransport::Auto),
            ("serverUrl", HttpTransport::Auto),
            ("httpUrl", HttpTransport::Streamable),
        ];
        for (key, transport) in keys {
            if let Some(url) = self.expanded_text(key)? {
                return Ok(Some((url, transport)));
            }
        }
        Ok(None)
    }

    /// Returns the client that acts for itself, from `oauth` with the grant `client_credentials`.
    /// The client of a user is that of a login.
    #[cfg(feature = "oauth")]
    fn client_credentials(&self) -> Result<Option<ClientCredentials>, String> {
        let Some(Value::Object(fields)) = self.get_non_null("oauth") else { return Ok(None) };
        let oauth = EntryReader { fields, variables: self.variables };
        let text = |key: &str| {
            let value = oauth.get_non_null(key);
            value
                .map(|it| oauth.expand(it, || format!("\"{key}\" of \"oauth\"")).map(|it| it.text))
                .transpose()
        };
        match text("grantType")?.as_deref() {
            Some("client_credentials") => {}
            None | Some("authorization_code") => return Ok(None),
            Some(_) => {
                return Err(
                    "\"grantType\" of \"oauth\" must be \"client_credentials\" or \"authorization_code\""
                        .to_owned(),
                );
            }
        }
        let required = |key: &str| text(key)?.ok_or_else(|| format!("\"{key}\" of \"oauth\" is missing"));
        let mut client = ClientCredentials::with_secret(required("clientId")?, required("clientSecret")?);
        if let Some(scope) = text("scope")? {
            client = client.with_scopes(scope.split_whitespace());
        }
        if let Some(issuer) = text("issuer")? {
            client = client.with_issuer(issuer);
        }
        Ok(Some(client))
    }

    fn stdio_server(&self, filter: ToolFilter) -> Result<StdioServer, String> {
        let (command, mut args) = self.command()?;
        if command.text.trim().is_empty() {
            return Err("\"command\" is empty".to_owned());
        }
        args.extend(self.list("args")?);
        let mut server = StdioServer::new(command.text);
        server.options.tool_filter = filter;
        let written = std::iter::once(&command.written).chain(args.iter().map(|arg| &arg.written));
        server.set_command_line(written.map(String::as_str));
        server.args = args.into_iter().map(|arg| arg.text).collect();
        server.env = self.environment()?;
        server.cwd = self.expanded_text("cwd")?.map(PathBuf::from);
        Ok(server)
    }

    /// Returns the program and the arguments in `command`, which is a string, a list, or an object
    /// with `path` and `args`.
    fn command(&self) -> Result<(Expanded, Vec<Expanded>), String> {
        match self.get_non_null("command") {
            Some(Value::Array(_)) => {
                let mut words = self.list("command")?.into_iter();
                Ok((words.next().unwrap_or_default(), words.collect()))
            }
            Some(Value::Object(fields)) => {
                let command = EntryReader { fields, variables: self.variables };
                let Some(path) = command.get_non_null("path") else {
                    return Err("\"command\" is an object without \"path\"".to_owned());
                };
                Ok((command.expand(path, || "\"path\" of \"command\"".to_owned())?, command.list("args")?))
            }
            Some(value) => Ok((self.expand(value, || "\"command\"".to_owned())?, Vec::new())),
            None => Ok((Expanded::default(), Vec::new())),
        }
    }

    /// Returns the variables of `env`, of `environment`, of `env` in a `command` object, and of the
    /// file `envFile`. The first of them that has a variable takes precedence.
    fn environment(&self) -> Result<BTreeMap<String, String>, String> {
        let mut environment = self.env_file()?;
        if let Some(Value::Object(fields)) = self.get_non_null("command") {
            environment.extend(EntryReader { fields, variables: self.variables }.expanded_map("env")?);
        }
        environment.extend(self.expanded_map("environment")?);
        environment.extend(self.expanded_map("env")?);
        Ok(environment)
    }

    fn env_file(&self) -> Result<BTreeMap<String, String>, String> {
        let Some(path) = self.expanded_text("envFile")? else { return Ok(BTreeMap::new()) };
        let invalid = |reason: &dyn std::fmt::Display| format!("\"envFile\" cannot be read: {reason}");
        let lines = dotenvy::from_path_iter(&path).map_err(|error| invalid(&error))?;
        lines
            .map(|line| {
                line.map_err(|error| match error {
                    // The error contains the line, which may be a secret.
                    dotenvy::Error::LineParse(_, column) => {
                        invalid(&format!("a line is no `NAME=value` at column {}", column + 1))
                    }
                    other => invalid(&other),
                })
            })
            .collect()
    }

    fn tool_filter(&self) -> Result<ToolFilter, String> {
        let mut filter = ToolFilter::default();
        for key in ALLOW_KEYS {
            // Some editors store the state of each tool as an object.
            if let Some(Value::Array(_)) = self.get_non_null(key) {
                filter.allowed = Some(self.texts(key)?);
                break;
            }
        }
        for key in DENY_KEYS {
            if self.get_non_null(key).is_some() {
                filter.denied.extend(self.texts(key)?);
            }
        }
        Ok(filter)
    }

    pub(super) fn expanded_text(&self, key: &str) -> Result<Option<String>, String> {
        let text = |value| self.expand(value, || format!("\"{key}\"")).map(|expanded| expanded.text);
        self.get_non_null(key).map(text).transpose()
    }

    /// Returns the strings in the list `key`, or an empty list if the key is missing.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        Ok(self.list(key)?.into_iter().map(|item| item.text).collect())
    }

    fn list(&self, key: &str) -> Result<Vec<Expanded>, String> {
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

    pub(super) fn expanded_map(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        match self.get_non_null(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(values)) => {
                // `null` removes a variable in some editors.
                let texts = values.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                    let text = self.expand(value, || format!("\"{name}\" of \"{key}\""))?.text;
                    Ok((name.clone(), text))
                });
                texts.collect()
            }
            Some(other) => Err(format!("\"{key}\" must be an object of strings, not {}", type_name(other))),
        }
    }

    pub(super) fn get_non_null(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn expand(&self, value: &Value, path: impl Fn() -> String) -> Result<Expanded, String> {
        let written =
            value.as_str().ok_or_else(|| format!("{} must be a string, not {}", path(), type_name(value)))?;
        let text = expand(written, self.variables).map_err(|reason| format!("{}: {reason}", path()))?;
        Ok(Expanded { text, written: written.to_owned() })
    }
}

/// A string of the file.
#[derive(Default)]
struct Expanded {
    /// The string with the values of its variables.
    text: String,
    /// The string as written in the file. It contains no secrets if they are in variables.
    written: String,
}
