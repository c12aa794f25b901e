//! Options of the commands that serve tools over standard input and output, or over HTTP.

use std::{num::NonZeroU32, path::PathBuf};

use clap::Args;
use haft_core::{Toolset, tool::Principal};
use haft_mcp::{
    HttpServiceConfig, McpServer, McpService,
    authorization::{InvalidUrl, ProtectedResource},
    gateway::GatewayConfig,
    serve_http, serve_stdio,
};
use tokio::net::TcpListener;

use crate::{audit::AuditLog, error::CliError, interrupt, terminal};

/// The endpoint of a server. The default is standard input and output.
#[derive(Args)]
pub(super) struct EndpointOptions {
    /// Serve over HTTP at this address, for example `127.0.0.1:8000`. The path is `/mcp`.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// A further permitted value of the header `Host`, for example the public name of the machine.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// A further permitted value of the header `Origin`, for example `https://app.example.org:443`.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// Require the bearer token in this environment variable. The principal of its calls, for the
    /// audit log and for the clients of a gateway, is the name of the variable.
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
    /// Append a line of JSON for each call, and for rejected requests, to this file. Secrets in
    /// arguments are redacted.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
}

/// The clients of a served toolset.
#[derive(Default)]
pub(super) struct Clients {
    /// The configuration of an HTTP endpoint, before the options of the command line.
    pub(super) config: HttpServiceConfig,
    /// The principal of the client over standard input and output.
    pub(super) principal: Option<Principal>,
}

impl Clients {
    /// Returns the clients in `rules`. `name` is the client that uses standard input and output.
    pub(super) fn new(rules: &GatewayConfig, name: Option<String>) -> Result<Self, CliError> {
        let config = rules.http_config(HttpServiceConfig::default());
        Ok(Self { config, principal: name.map(|name| principal(rules, name)).transpose()? })
    }
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
    fn resource(&self) -> Result<Option<ProtectedResource>, InvalidUrl> {
        let Some(url) = &self.public_url else { return Ok(None) };
        let mut resource = ProtectedResource::new(url)?.with_required_scopes(self.oauth_scope.clone());
        for issuer in &self.oauth_issuer {
            resource = resource.with_issuer(issuer)?;
        }
        Ok(Some(resource))
    }
}

impl EndpointOptions {
    /// Serves `tools` until the input ends or the user interrupts the command. `count` is shown as
    /// the number of the tools.
    pub(super) async fn serve(
        self,
        mut tools: Toolset,
        count: usize,
        clients: Clients,
    ) -> Result<(), CliError> {
        let audit = self.audit.as_deref().map(AuditLog::open).transpose()?;
        if let Some(audit) = &audit {
            tools = tools.with_pipeline(audit.pipeline());
        }
        let mut server = McpServer::new(tools);
        if let Some(principal) = clients.principal {
            server = server.with_principal(principal);
        }
        let Some(address) = &self.http else {
            return tokio::select! {
                biased;
                () = interrupt::wait_for_interrupt() => Ok(()),
                served = serve_stdio(server) => served.map_err(|error| CliError::from_error(&error)),
            };
        };
        let mut config = self.http_config(clients.config)?;
        if let Some(audit) = audit {
            config = config.with_rejection_hook(move |request| audit.record_rejection(request));
        }
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| CliError::new(format!("cannot serve at {address}: {error}")))?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && !config.requires_authentication() && !self.no_token {
            return Err(CliError::usage(format!(
                "everyone who reaches {address} could call the tools: set --token-env or --oauth-issuer, or permit it with --no-token"
            )));
        }
        terminal::write_error(&format!("serving {count} tools at http://{address}/mcp\n"))?;
        let service = McpService::new(server, config);
        serve_http(service, listener, interrupt::wait_for_interrupt()).await?;
        Ok(())
    }

    fn http_config(&self, config: HttpServiceConfig) -> Result<HttpServiceConfig, CliError> {
        let mut config = config
            .with_allowed_hosts(self.allow_host.iter().cloned())
            .with_allowed_origins(self.allow_origin.iter().cloned());
        config.access.max_requests_per_minute = self.rate_limit;
        let resource = self.oauth.resource().map_err(|error| CliError::usage(error.to_string()))?;
        if let Some(resource) = resource {
            config = config.with_protected_resource(resource);
        }
        let Some(variable) = &self.token_env else { return Ok(config) };
        let token = std::env::var(variable).ok().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| CliError::usage(format!("the variable {variable} has no token")))?;
        let principal = Principal { id: variable.clone(), ..Principal::default() };
        Ok(config.with_bearer_token(token, principal))
    }
}
