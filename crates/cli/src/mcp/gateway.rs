use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use haft_core::{Pipeline, tool::Principal};
use haft_mcp::{HttpServiceConfig, McpServer, gateway::GatewayConfig};
use haft_middleware::{AuditEntry, AuditLog};

use super::{FileOption, endpoint::EndpointOptions};
use crate::{
    error::CliError,
    spinner::Spinner,
    terminal,
    toolbox::{Toolbox, config_error, read_config, start_servers},
};

/// The time between two pings of an unused server.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Serve the tools of the configured servers as one MCP server, with the rules in the object
/// `gateway` of the configuration: names, filters, approvals and clients.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOption,
    #[command(flatten)]
    endpoint: EndpointOptions,
    /// Append a line of JSON for each call to this file. Secrets in arguments are redacted.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// The client of the configuration that uses standard input and output.
    #[arg(long, value_name = "NAME", conflicts_with = "http")]
    client: Option<String>,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { file, endpoint, audit, client } = arguments;
    let file = file.open()?;
    let config = read_config(file.path())?.with_ping_interval(PING_INTERVAL);
    let rules = config.gateway().map_err(|error| config_error(&error))?;
    let client = client.map(|name| principal(&rules, name)).transpose()?;
    let audit = audit.as_deref().map(open_audit_log).transpose()?;
    let (servers, errors) = start_servers(&config, &Spinner::new()).await;
    let started = servers.len() - errors.len();
    let toolset = |rules: &GatewayConfig| {
        let sources = servers.iter().map(|server| (server.name(), Arc::clone(server)));
        rules.toolset(sources).map_err(|error| CliError::from_error(&error))
    };
    let mut all_clients = rules.clone();
    all_clients.clients.clear();
    let toolbox = Toolbox::new(toolset(&all_clients)?, started, errors);
    toolbox.require_any_server()?;
    let count = toolbox.list_and_warn().await.len();
    let mut tools = toolset(&rules)?;
    if let Some(audit) = audit {
        tools = tools.with_pipeline(Pipeline::new().with_recorder(audit));
    }
    let mut server = McpServer::new(tools);
    if let Some(client) = client {
        server = server.with_principal(client);
    }
    endpoint.serve(server, count, rules.http_config(HttpServiceConfig::default())).await?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the principal of the client `name`, which must be in `rules`.
fn principal(rules: &GatewayConfig, name: String) -> Result<Principal, CliError> {
    match rules.clients.get(&name) {
        Some(client) => Ok(Principal { id: name, scopes: client.scopes.iter().cloned().collect() }),
        None => {
            let known: Vec<_> = rules.clients.keys().map(String::as_str).collect();
            Err(CliError::usage(format!(
                "unknown client {name:?}; the configuration has: {}",
                known.join(", ")
            )))
        }
    }
}

/// Opens the audit log at `path`. Only the user can read a new file.
fn open_audit_log(path: &Path) -> Result<AuditLog<impl Fn(AuditEntry) + Send + Sync + use<>>, CliError> {
    let failed = |error| CliError::new(format!("cannot open the audit log {}: {error}", path.display()));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
    let (file, path) = (Mutex::new(file), path.to_owned());
    Ok(AuditLog::new(move |entry: AuditEntry| {
        // One write per line, so that several processes can append to the file.
        let line = format!("{entry}\n");
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            terminal::warn(&format!("cannot write to the audit log {}: {error}", path.display()));
        }
    }))
}
