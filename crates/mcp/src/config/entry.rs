//! Entries of servers, in the dialects of common editors.

use std::{collections::BTreeMap, fmt::Display, path::PathBuf, time::Duration};

use haft_core::limits;
use serde_json::{Map, Value};

use super::{ServerConfig, expand::expand, type_name, variables::Variables};
#[cfg(feature = "oauth")]
use crate::client_credentials::ClientCredentials;
use crate::{
    HttpServer, HttpTransport, ServerOptions, StdioServer, ToolFilter, process::ProcessLimits, text_file,
};

/// The keys of a list of the offered tools.
const ALLOW_KEYS: [&str; 6] =
    ["includeTools", "allowedTools", "enabledTools", "enabled_tools", "available_tools", "tools"];
/// The keys of a list of tools that are not offered.
const DENY_KEYS: [&str; 5] =
    ["excludeTools", "deniedTools", "disabledTools", "disabled_tools", "blockedTools"];

/// The longest `timeout` in seconds. A greater number is in milliseconds.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

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
    for key in ["disabled", "enabled", "lazy", "isolated"] {
        if let Some(other) = entry.get_non_null(key).filter(|value| !value.is_boolean()) {
            return Err(format!("\"{key}\" must be a boolean, not {}", type_name(other)));
        }
    }
    let options = EntryOptions {
        is_lazy: entry.get_non_null("lazy") == Some(&Value::Bool(true)),
        filter: entry.tool_filter()?,
        timeouts: entry.timeouts()?,
    };
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
            options.apply_to(&mut server.options);
            if let Some(key) =
                ["isolated", "limits"].into_iter().find(|key| entry.get_non_null(key).is_some())
            {
                return Err(format!("\"{key}\" is for a server with \"command\""));
            }
            server.headers = entry.expanded_map("headers")?;
            #[cfg(feature = "oauth")]
            if let Some(client) = entry.client_credentials()? {
                server = server.with_client_credentials(client);
            }
            Ok(ServerConfig::Http(server))
        }
        (_, None | Some(Transport::Stdio)) => {
            let mut server = entry.stdio_server()?;
            options.apply_to(&mut server.options);
            Ok(ServerConfig::Stdio(server))
        }
    }
}

/// The options of an entry for both transports.
struct EntryOptions {
    is_lazy: bool,
    filter: ToolFilter,
    timeouts: Timeouts,
}

/// The timeouts of an entry.
struct Timeouts {
    start: Option<Duration>,
    call: Option<Duration>,
}

impl EntryOptions {
    fn apply_to(self, options: &mut ServerOptions) {
        options.tool_filter = self.filter;
        options.lazy_start = self.is_lazy;
        if let Some(start) = self.timeouts.start {
            options.handshake_timeout = start;
        }
        if let Some(call) = self.timeouts.call {
            options.idle_timeout = call;
            options.call_timeout = Some(call).filter(|call| *call > limits::CALL_TIMEOUT);
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
        let id = required("clientId")?;
        let mut client = match text("privateKeyFile")? {
            Some(path) => {
                let fault = |reason: &dyn Display| format!("\"privateKeyFile\" of \"oauth\": {reason}");
                let pem = text_file::read(path).map_err(|error| fault(&error))?;
                ClientCredentials::with_private_key(id, pem).map_err(|error| fault(&error))?
            }
            None => ClientCredentials::with_secret(id, required("clientSecret")?),
        };
        if let Some(scope) = text("scope")? {
            client = client.with_scopes(scope.split_whitespace());
        }
        if let Some(issuer) = text("issuer")? {
            client = client.with_issuer(issuer);
        }
        Ok(Some(client))
    }

    fn stdio_server(&self) -> Result<StdioServer, String> {
        let (command, mut args) = self.command()?;
        if command.text.trim().is_empty() {
            return Err("\"command\" is empty".to_owned());
        }
        args.extend(self.list("args")?);
        let is_isolated = self.get_non_null("isolated") == Some(&Value::Bool(true));
        let mut server = match is_isolated {
            true => StdioServer::isolated(command.text),
            false => StdioServer::new(command.text),
        };
        server.limits = self.process_limits()?.or(server.limits);
        let written = std::iter::once(&command.written).chain(args.iter().map(|arg| &arg.written));
        server.set_command_line(written.map(String::as_str));
        server.args = args.into_iter().map(|arg| arg.text).collect();
        server.env = self.environment()?;
        server.cwd = self.expanded_text("cwd")?.map(PathBuf::from);
        Ok(server)
    }

    /// Returns the limits in `limits`. An unknown key is an error, because a limit that is not
    /// applied would permit too much.
    fn process_limits(&self) -> Result<Option<ProcessLimits>, String> {
        let fields = match self.get_non_null("limits") {
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(format!("\"limits\" must be an object, not {}", type_name(other))),
            None => return Ok(None),
        };
        let mut limits = ProcessLimits::default();
        for (key, value) in fields {
            let number = value.as_u64().filter(|number| *number > 0);
            let number =
                number.ok_or_else(|| format!("\"{key}\" of \"limits\" must be a positive integer"))?;
            let bytes = number.saturating_mul(1 << 20);
            limits = match key.as_str() {
                "cpuSeconds" => limits.with_cpu_time(Duration::from_secs(number)),
                "memoryMiB" => limits.with_memory_bytes(bytes),
                "openFiles" => limits.with_open_files(u32::try_from(number).unwrap_or(u32::MAX)),
                "fileMiB" => limits.with_file_bytes(bytes),
                _ => {
                    return Err(format!(
                        "unknown key \"{key}\" in \"limits\": use cpuSeconds, memoryMiB, openFiles, fileMiB"
                    ));
                }
            };
        }
        Ok(Some(limits))
    }

    /// Returns the timeouts. A `timeout` up to [`MAX_TIMEOUT_SECONDS`] is in seconds, as in Cline
    /// and Roo, and a longer one in milliseconds, as in Gemini.
    fn timeouts(&self) -> Result<Timeouts, String> {
        let read = |key: &str, unit: fn(f64) -> f64| {
            let Some(value) = self.get_non_null(key) else { return Ok(None) };
            let seconds = value.as_f64().filter(|number| *number > 0.0).map(unit);
            let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            duration.map(Some).ok_or_else(|| format!("\"{key}\" must be a positive number"))
        };
        let from_ms = |number| number / 1000.0;
        let by_size = |number: f64| if number <= MAX_TIMEOUT_SECONDS { number } else { number / 1000.0 };
        let start_ms = read("startup_timeout_ms", from_ms)?;
        Ok(Timeouts {
            start: read("startup_timeout_sec", |seconds| seconds)?.or(start_ms),
            call: read("tool_timeout_sec", |seconds| seconds)?.or(read("timeout", by_size)?),
        })
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
        let invalid = |reason: &dyn Display| format!("\"envFile\" cannot be read: {reason}");
        let text = text_file::read(&path).map_err(|error| invalid(&error))?;
        dotenvy::from_read_iter(text.as_bytes())
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
