use std::{num::NonZeroU32, process::ExitCode};

use clap::Args;
use haft_core::tool::Principal;
use haft_mcp::{
    HttpServiceConfig, McpService,
    authorization::{InvalidUrl, ProtectedResource},
    serve_http, serve_stdio,
};
use tokio::net::TcpListener;

use crate::{error::CliError, interrupt, terminal, toolbox::ToolOptions};

/// Serve the built-in tools and the tools of the configured servers as one MCP server. Without
/// `--http`, it uses standard input and output.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    tools: ToolOptions,
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
    #[command(flatten)]
    oauth: OAuthOptions,
    /// The maximum number of requests of a client per minute. Default: no limit.
    #[arg(long, value_name = "REQUESTS", requires = "http")]
    rate_limit: Option<NonZeroU32>,
    /// Permit every client of the network to call the tools, at an address other than loopback.
    #[arg(long, requires = "http", conflicts_with_all = ["token_env", "oauth_issuer"])]
    no_token: bool,
}

/// The server as an OAuth protected resource.
#[derive(Args)]
struct OAuthOptions {
    /// Require an access token of this authorization server, for example
    /// `https://auth.example.org`. May be repeated.
    #[arg(long, value_name = "URL", requires_all = ["http", "public_url"])]
    oauth_issuer: Vec<String>,
    /// The URL that clients connect to, for example `https://mcp.example.org/mcp`. It is the
    /// audience of the access tokens, and its host is a permitted value of the header `Host`.
    #[arg(long, value_name = "URL", requires = "oauth_issuer")]
    public_url: Option<String>,
    /// A scope that every access token must have. May be repeated.
    #[arg(long, value_name = "SCOPE", requires = "oauth_issuer")]
    oauth_scope: Vec<String>,
}

impl OAuthOptions {
    /// Returns the protected resource, or `None` without an issuer.
    fn into_resource(self) -> Result<Option<ProtectedResource>, InvalidUrl> {
        let Some(url) = self.public_url else { return Ok(None) };
        let mut resource = ProtectedResource::new(url)?.with_required_scopes(self.oauth_scope);
        for issuer in self.oauth_issuer {
            resource = resource.with_issuer(issuer)?;
        }
        Ok(Some(resource))
    }
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let resource = arguments.oauth.into_resource().map_err(|error| CliError::usage(error.to_string()))?;
    let toolbox = arguments.tools.open_toolbox().await?;
    toolbox.require_any_server()?;
    let list = toolbox.list_and_warn().await;
    let Some(address) = arguments.http else {
        serve_stdio(toolbox.tools).await.map_err(|error| CliError::from_error(&error))?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut config = HttpServiceConfig::default()
        .with_allowed_hosts(arguments.allow_host)
        .with_allowed_origins(arguments.allow_origin);
    config.max_requests_per_minute = arguments.rate_limit;
    let needs_token = arguments.token_env.is_some() || resource.is_some();
    if let Some(variable) = arguments.token_env {
        let token = std::env::var(&variable).ok().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| CliError::usage(format!("the variable {variable} has no token")))?;
        let principal = Principal { id: variable, ..Principal::default() };
        config = config.with_bearer_token(token, principal);
    }
    if let Some(resource) = resource {
        config = config.with_protected_resource(resource);
    }
    let listener = TcpListener::bind(&address)
        .await
        .map_err(|error| CliError::new(format!("cannot serve at {address}: {error}")))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() && !needs_token && !arguments.no_token {
        return Err(CliError::usage(format!(
            "everyone who reaches {address} could call the tools: set --token-env or --oauth-issuer, or permit it with --no-token"
        )));
    }
    terminal::write_error(&format!("serving {} tools at http://{address}/mcp\n", list.len()))?;
    let service = McpService::new(toolbox.tools, config);
    serve_http(service, listener, interrupt::wait_for_interrupt()).await?;
    Ok(ExitCode::SUCCESS)
}
