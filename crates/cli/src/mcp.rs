//! The command `haft mcp`: configures, tests and serves MCP servers.

mod accept;
mod api_clients;
mod config_file;
mod endpoint;
mod from_openapi;
mod gateway;
mod login;
mod search;
mod serve;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Instant};

use clap::{Args, Subcommand, ValueEnum};
use futures::future::join_all;
use haft_core::{ToolSource as _, toolset::ListContext};
use haft_mcp::{McpConfig, McpSource, ServerConfig};
use serde_json::{Map, Value, json};

use self::config_file::ConfigFile;
pub(crate) use self::config_file::{credentials, default_path, pins_in_use, with_revision_cache};
use crate::{
    error::CliError,
    interrupt,
    spinner::Spinner,
    terminal::{self, remove_control_chars},
};

/// Configure MCP servers, test them, and serve tools as an MCP server.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Add a server to the configuration: a URL, or a command after `--`.
    Add(AddArguments),
    /// List the configured servers. It starts none of them.
    List {
        #[command(flatten)]
        file: FileOption,
        /// Write one line of JSON per server.
        #[arg(long)]
        json: bool,
    },
    /// Start servers and list their tools. Fails if a server fails.
    Test {
        #[command(flatten)]
        file: FileOption,
        /// The names of the servers. Default: all.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove a server from the configuration.
    Remove {
        #[command(flatten)]
        file: FileOption,
        /// The name of the server.
        name: String,
    },
    Accept(accept::Arguments),
    Gateway(gateway::Arguments),
    Login(login::LoginArguments),
    Logout(login::LogoutArguments),
    Search(search::Arguments),
    Serve(serve::Arguments),
    FromOpenapi(Box<from_openapi::Arguments>),
}

/// The configuration file.
#[derive(Args, Clone)]
struct FileOption {
    /// The configuration file. Default: `haft/mcp.json` in the configuration folder of the user.
    #[arg(long = "mcp", value_name = "FILE")]
    path: Option<PathBuf>,
}

#[derive(Args)]
struct AddArguments {
    #[command(flatten)]
    file: FileOption,
    /// The name of the server.
    name: String,
    /// The URL of an HTTP server.
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The command of a server that runs as a child process.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// An environment variable of the command. The value may be a variable, such as `${TOKEN}`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    env: Vec<(String, String)>,
    /// A header of each HTTP request. The value may contain a variable, such as `Bearer ${TOKEN}`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    header: Vec<(String, String)>,
    /// The transport of the HTTP server. Default: detect it.
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    /// Replace a server of the same name.
    #[arg(long)]
    replace: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Transport {
    Http,
    Sse,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

impl FileOption {
    fn open(self) -> Result<ConfigFile, CliError> {
        ConfigFile::open(self.path)
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    match arguments.action {
        Action::Add(arguments) => add(arguments),
        Action::List { file, json } => list(&file.open()?, json),
        Action::Test { file, names } => {
            interrupt::cancel_on_interrupt(async { test(&file.open()?, &names).await }).await
        }
        Action::Remove { file, name } => {
            let mut file = file.open()?;
            file.remove(&name)?;
            file.save()?;
            terminal::write(&format!("removed {name} from {}\n", file.path().display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Accept(arguments) => interrupt::cancel_on_interrupt(accept::run(arguments)).await,
        Action::Gateway(arguments) => gateway::run(arguments).await,
        Action::Login(arguments) => interrupt::cancel_on_interrupt(login::login(arguments)).await,
        Action::Logout(arguments) => login::logout(arguments),
        Action::Search(arguments) => interrupt::cancel_on_interrupt(search::run(arguments)).await,
        Action::Serve(arguments) => serve::run(arguments).await,
        Action::FromOpenapi(arguments) => from_openapi::run(*arguments).await,
    }
}

fn add(arguments: AddArguments) -> Result<ExitCode, CliError> {
    let AddArguments { file, name, url, command, env, header, transport, replace } = arguments;
    let entry = match (url, command.split_first()) {
        (Some(_), Some(_)) => return Err(CliError::usage("give a URL or a command, not both")),
        (None, None) => {
            return Err(CliError::usage(
                "give a URL, or a command after `--`: haft mcp add time -- uvx mcp-server-time",
            ));
        }
        (None, Some(_)) if !header.is_empty() || transport.is_some() => {
            return Err(CliError::usage("--header and --transport are for a URL"));
        }
        (Some(_), None) if !env.is_empty() => return Err(CliError::usage("--env is for a command")),
        (Some(url), None) => {
            let mut entry = Map::from_iter([("url".to_owned(), url.into())]);
            if let Some(transport) = transport {
                let name = match transport {
                    Transport::Http => "http",
                    Transport::Sse => "sse",
                };
                entry.insert("type".to_owned(), name.into());
            }
            insert_pairs(&mut entry, "headers", header);
            entry
        }
        (None, Some((program, args))) => {
            let mut entry = Map::from_iter([("command".to_owned(), Value::from(program.as_str()))]);
            if !args.is_empty() {
                entry.insert("args".to_owned(), json!(args));
            }
            insert_pairs(&mut entry, "env", env);
            entry
        }
    };
    let mut file = file.open()?;
    file.add(&name, Value::Object(entry), replace)?;
    file.save()?;
    let config = file.config()?;
    let described = describe(&config, &name);
    terminal::write(&format!("added {name} to {}: {described}\n", file.path().display()))?;
    Ok(ExitCode::SUCCESS)
}

fn insert_pairs(entry: &mut Map<String, Value>, key: &str, pairs: Vec<(String, String)>) {
    if !pairs.is_empty() {
        let pairs: BTreeMap<_, _> = pairs.into_iter().collect();
        entry.insert(key.to_owned(), json!(pairs));
    }
}

/// Returns the command or the URL of the server `name`, or the fault of its entry.
fn describe(config: &McpConfig, name: &str) -> String {
    let server = config.servers().find(|(known, _)| *known == name).map(|(_, server)| server);
    let fault = || config.invalid_entries().find(|(known, _)| *known == name);
    let text = match server {
        Some(ServerConfig::Stdio(server)) => server.to_string(),
        Some(ServerConfig::Http(server)) => server.origin(),
        Some(_) => "unknown".to_owned(),
        None => fault().map(|(_, reason)| format!("invalid: {reason}")).unwrap_or_default(),
    };
    remove_control_chars(&text)
}

fn list(file: &ConfigFile, json: bool) -> Result<ExitCode, CliError> {
    let config = file.config()?;
    for name in config.server_names() {
        let fault = config.invalid_entries().find(|(known, _)| *known == name).map(|(_, reason)| reason);
        let server = describe(&config, name);
        if json {
            let line = json!({"name": name, "server": fault.is_none().then_some(server), "error": fault});
            terminal::write_json(&line.to_string())?;
        } else {
            terminal::write(&format!("{}: {server}\n", remove_control_chars(name)))?;
        }
    }
    if !json && config.server_names().next().is_none() {
        terminal::write(&format!("no servers in {}\n", file.path().display()))?;
    }
    let is_valid = config.invalid_entries().next().is_none();
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn test(file: &ConfigFile, names: &[String]) -> Result<ExitCode, CliError> {
    let mut config = file.config()?;
    if let Some(pins) = pins_in_use(file.path()) {
        config = config.with_pins(&pins);
    }
    let known: Vec<_> = config.server_names().map(str::to_owned).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(unknown_server(&config, unknown));
    }
    let selected = |name: &String| names.is_empty() || names.contains(name);
    let spinner = Spinner::new();
    spinner.set_message("starting the MCP servers");
    let started = Instant::now();
    let sources = known.iter().zip(config.start()).filter(|(name, _)| selected(name));
    let tests =
        sources.map(async |(name, source)| (name.clone(), test_source(&source).await, started.elapsed()));
    let results = join_all(tests).await;
    drop(spinner);
    let mut has_failed = false;
    for (name, result, elapsed) in results {
        let line = match result {
            Ok(tools) => format!("{name}: ready after {} ms, {tools}", elapsed.as_millis()),
            Err(reason) => {
                has_failed = true;
                format!("{name}: failed: {reason}")
            }
        };
        terminal::write(&format!("{}\n", remove_control_chars(&line)))?;
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Creates the error for a name that is not in `config`.
fn unknown_server(config: &McpConfig, name: &str) -> CliError {
    let known = config.server_names().collect::<Vec<_>>().join(", ");
    CliError::usage(format!("no server {name:?}: the configured servers are {known}"))
}

/// Waits for `source`. Returns a summary of its tools, or the reason of the failure.
async fn test_source(source: &McpSource) -> Result<String, String> {
    source.wait_until_ready().await.map_err(|error| error.reason)?;
    let list = source.tools(&ListContext::default()).await.map_err(|error| error.reason)?;
    let names: Vec<_> = list.names().map(ToString::to_string).collect();
    let diagnostics: Vec<_> =
        list.diagnostics().iter().map(|diagnostic| format!("\n  {diagnostic}")).collect();
    Ok(format!("{} tools: {}{}", names.len(), names.join(", "), diagnostics.concat()))
}
