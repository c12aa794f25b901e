//! The command `haft serve`: the HTTP server.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use haft_core::tool::Principal;
use haft_http::server::AccessConfig;
use haft_react::{LimitAction, ReactAgent};
use haft_server::Server;
use tokio::net::TcpListener;

use crate::{
    audit::AuditLog,
    error::CliError,
    interrupt,
    model_options::ModelOptions,
    spinner::Spinner,
    store::StoreOptions,
    terminal,
    toolbox::{StartWait, ToolOptions},
};

/// Serve tools, chat and stored conversations over HTTP.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    addr: String,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    tools: ToolOptions,
    #[command(flatten)]
    store: StoreOptions,
    /// Store nothing, whatever `--store` and `HAFT_STORE` are: only the routes of tools and of chat
    /// without a session.
    #[arg(long)]
    no_store: bool,
    /// The instructions of the agent.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// A further permitted value of the header `Host`, for example the public name of the machine.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// A further permitted value of the header `Origin`, for example `https://app.example.org:443`.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Require the bearer token in this environment variable. May be repeated. The conversations
    /// belong to a tenant, whose default name is that of the variable. The tokens of one tenant have
    /// the same conversations.
    #[arg(long, value_name = "[TENANT=]VARIABLE")]
    token_env: Vec<String>,
    /// The maximum number of requests of a client per minute. Default: no limit.
    #[arg(long, value_name = "REQUESTS")]
    rate_limit: Option<NonZeroU32>,
    /// The maximum number of runs and direct calls in progress. Further ones get status 503.
    /// Default: 512.
    #[arg(long, value_name = "RUNS")]
    max_runs: Option<NonZeroUsize>,
    /// Append a line of JSON for each call, and for rejected requests, to this file. Secrets in
    /// arguments are redacted.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Permit every client of the network, at an address other than loopback.
    #[arg(long, conflicts_with = "token_env")]
    no_token: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let access = arguments.access()?;
    let listener = TcpListener::bind(&arguments.addr)
        .await
        .map_err(|error| CliError::new(format!("cannot serve at {}: {error}", arguments.addr)))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() && !access.requires_authentication() && !arguments.no_token {
        return Err(CliError::usage(format!(
            "everyone who reaches {address} could use the server: set --token-env, or permit it with --no-token"
        )));
    }
    let server = interrupt::cancel_on_interrupt(arguments.build(access)).await?;
    terminal::write_error(&format!("serving at http://{address}\n"))?;
    server.serve(listener, interrupt::wait_for_interrupt()).await?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn access(&self) -> Result<AccessConfig, CliError> {
        let mut access = AccessConfig::default()
            .with_allowed_hosts(self.allow_host.iter().cloned())
            .with_allowed_origins(self.allow_origin.iter().cloned());
        access.max_requests_per_minute = self.rate_limit;
        for token in &self.token_env {
            let (tenant, variable) = token.split_once('=').unwrap_or((token, token));
            let token = std::env::var(variable).ok().filter(|token| !token.is_empty());
            let token =
                token.ok_or_else(|| CliError::usage(format!("the variable {variable} has no token")))?;
            let principal = Principal { id: tenant.to_owned(), ..Principal::default() };
            access = access.with_bearer_token(token, principal);
        }
        Ok(access)
    }

    /// Opens the store and the model, starts the MCP servers, and builds the server.
    async fn build(&self, mut access: AccessConfig) -> Result<Server, CliError> {
        let audit = self.audit.as_deref().map(AuditLog::open).transpose()?;
        let spinner = Spinner::new();
        let store = match self.no_store {
            true => None,
            false => Some(self.store.open().await?),
        };
        let toolbox = self.tools.open_toolbox(StartWait::Briefly).await?;
        let model = self.model.open(&spinner).await?;
        drop(spinner);
        let mut tools = toolbox.tools.clone();
        if let Some(audit) = audit {
            tools = tools.with_pipeline(audit.pipeline());
            access = access.with_rejection_hook(move |request| audit.record_rejection(request));
        }
        let agent = ReactAgent::builder(model).tools(tools).limit_action(LimitAction::Answer);
        let agent = match &self.instructions {
            Some(instructions) => agent.instructions(instructions.as_str()),
            None => agent,
        };
        let builder = Server::builder(agent).access(access);
        let builder = match self.max_runs {
            Some(runs) => builder.max_runs(runs.get()),
            None => builder,
        };
        let builder = match store {
            Some(store) => builder.store(store),
            None => builder,
        };
        builder.build().map_err(|error| CliError::from_error(&error))
    }
}
