use std::{process::ExitCode, sync::Arc};

use clap::Args;
use futures::FutureExt as _;
use haft_mcp::gateway::GatewayConfig;

use super::{
    FileOption,
    endpoint::{Clients, EndpointOptions},
};
use crate::{
    error::CliError,
    interrupt::cancel_on_interrupt,
    spinner::Spinner,
    toolbox::{FeatureOptions, StartWait, StartedServers, Toolbox, config_error, read_config},
};

/// Serve the tools of the configured servers as one MCP server, with the rules in the object
/// `gateway` of the configuration: names, filters, approvals and clients. Without `--http`, it uses
/// standard input and output.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOption,
    #[command(flatten)]
    features: FeatureOptions,
    #[command(flatten)]
    endpoint: EndpointOptions,
    /// The client of the configuration that uses standard input and output.
    #[arg(long, value_name = "NAME", conflicts_with = "http")]
    client: Option<String>,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { file, features, endpoint, client } = arguments;
    let file = file.open()?;
    let config = features.add_to(read_config(file.path())?);
    let rules = config.gateway().map_err(|error| config_error(&error))?;
    let clients = Clients::new(&rules, client)?;
    let spinner = Spinner::new();
    let start = StartedServers::start(config, &spinner, StartWait::Briefly);
    let servers = cancel_on_interrupt(start.map(Ok)).await?;
    let started = servers.sources.clone();
    let toolset = |rules: &GatewayConfig| {
        let sources = started.iter().map(|server| (server.name(), Arc::clone(server)));
        rules.toolset(sources).map_err(|error| CliError::from_error(&error))
    };
    let mut all_clients = rules.clone();
    all_clients.clients.clear();
    let toolbox = Toolbox::new(toolset(&all_clients)?, servers);
    toolbox.require_any_server()?;
    let count = toolbox.list_and_warn().await.len();
    endpoint.serve(toolset(&rules)?, count, clients).await?;
    Ok(ExitCode::SUCCESS)
}
