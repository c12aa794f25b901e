use std::process::ExitCode;

use super::endpoint::{Clients, EndpointOptions};
use crate::{
    error::CliError,
    interrupt::cancel_on_interrupt,
    toolbox::{StartWait, ToolOptions},
};
use clap::Args;

/// Serve the built-in tools and the tools of the configured servers as one MCP server. Without
/// `--http`, it uses standard input and output.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    tools: ToolOptions,
    #[command(flatten)]
    endpoint: EndpointOptions,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let toolbox = cancel_on_interrupt(arguments.tools.open_toolbox(StartWait::Briefly)).await?;
    toolbox.require_any_server()?;
    let list = toolbox.list_and_warn().await;
    arguments.endpoint.serve(toolbox.tools, list.len(), Clients::default()).await?;
    Ok(ExitCode::SUCCESS)
}
