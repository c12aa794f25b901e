use std::process::ExitCode;

use clap::Args;
use haft_core::{Toolset, tool::Principal};
use haft_mcp::{HttpServiceConfig, McpService, serve_http, serve_stdio};
use tokio::net::TcpListener;

use crate::{error::CliError, interrupt, terminal, toolbox::ToolOptions};

/// Serve the built-in tools and the tools of the configured servers as one MCP server. Without
/// `--http`, it uses standard input and output.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    tools: ToolOptions,
    #[command(flatten)]
    http: HttpOptions,
}

/// Options for serving over HTTP.
#[derive(Args)]
pub(super) struct HttpOptions {
    /// Serve over HTTP at this address, for example `127.0.0.1:8000`. The path is `/mcp`.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// A further permitted value of the header `Host`, for example the public name of the machine.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// A further permitted value of the header `Origin`, for example `https://app.example.org:443`.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// Require the bearer token in this environment variable.
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    token_env: Option<String>,
    /// Permit every client of the network to call the tools, at an address other than loopback.
    #[arg(long, requires = "http", conflicts_with = "token_env")]
    no_token: bool,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let toolbox = arguments.tools.open_toolbox().await?;
    toolbox.require_any_server()?;
    let list = toolbox.list_and_warn().await;
    arguments.http.serve(toolbox.tools, list.len()).await
}

impl HttpOptions {
    /// Serves `tools` at the address of `--http`, or else on standard input and output.
    /// `tool_count` is shown to the user.
    pub(super) async fn serve(self, tools: Toolset, tool_count: usize) -> Result<ExitCode, CliError> {
        let Some(address) = self.http else {
            serve_stdio(tools).await.map_err(|error| CliError::from_error(&error))?;
            return Ok(ExitCode::SUCCESS);
        };
        let mut config = HttpServiceConfig::default()
            .with_allowed_hosts(self.allow_host)
            .with_allowed_origins(self.allow_origin);
        let has_token = self.token_env.is_some();
        if let Some(variable) = self.token_env {
            let token = std::env::var(&variable).ok().filter(|token| !token.is_empty());
            let token =
                token.ok_or_else(|| CliError::usage(format!("the variable {variable} has no token")))?;
            let principal = Principal { id: variable, ..Principal::default() };
            config = config.with_bearer_token(token, principal);
        }
        let listener = TcpListener::bind(&address)
            .await
            .map_err(|error| CliError::new(format!("cannot serve at {address}: {error}")))?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && !has_token && !self.no_token {
            return Err(CliError::usage(format!(
                "everyone who reaches {address} could call the tools: set --token-env, or permit it with --no-token"
            )));
        }
        terminal::write_error(&format!("serving {tool_count} tools at http://{address}/mcp\n"))?;
        let service = McpService::new(tools, config);
        serve_http(service, listener, interrupt::wait_for_interrupt()).await?;
        Ok(ExitCode::SUCCESS)
    }
}
