//! The command `haft serve`: the HTTP server.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use haft_core::{tool::Principal, toolset::ListContext};
use haft_http::server::AccessConfig;
use haft_react::{LimitAction, ReactAgent};
use haft_server::{Server, ServerBuilder};
use tokio::net::TcpListener;

use crate::{
    audit::AuditLog,
    error::CliError,
    interrupt,
    model_options::ModelOptions,
    prices::{PriceOptions, RunPrices},
    spinner::Spinner,
    store::StoreOptions,
    telemetry::Telemetry,
    terminal,
    toolbox::{StartWait, ToolOptions},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Serve tools, chat and stored conversations over HTTP.
///
/// Spans and metrics are exported by OTLP if `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
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
    prices: PriceOptions,
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
    /// Delete conversations without a message for this time. Default: they are kept.
    #[arg(long, value_name = "DAYS")]
    delete_after: Option<NonZeroU32>,
    /// Require an approval for the calls of this tool: `POST /runs/{id}/decisions`. May be repeated.
    #[arg(long, value_name = "TOOL")]
    approval: Vec<String>,
    /// Append a line of JSON for each call, and for rejected requests, to this file. Secrets in
    /// arguments are redacted.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Permit every client of the network, at an address other than loopback.
    #[arg(long, conflicts_with = "token_env")]
    no_token: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    mut telemetry: Option<Telemetry>,
) -> Result<ExitCode, CliError> {
    let access = arguments.access()?;
    let prices = arguments.prices.load(&arguments.model)?;
    let price_note = prices.as_ref().and_then(|prices| prices.source.describe());
    let price_note = price_note.map_or_else(String::new, |source| {
        format!("costs are in USD, at {source}; --prices sets other prices\n")
    });
    let listener = TcpListener::bind(&arguments.addr)
        .await
        .map_err(|error| CliError::new(format!("cannot serve at {}: {error}", arguments.addr)))?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() && !access.requires_authentication() && !arguments.no_token {
        return Err(CliError::usage(format!(
            "everyone who reaches {address} could use the server: set --token-env, or permit it with --no-token"
        )));
    }
    let builder = interrupt::cancel_on_interrupt(arguments.builder(access, prices)).await?;
    let builder = match &mut telemetry {
        Some(telemetry) => builder.meter_provider(telemetry.take_metrics()),
        None => builder,
    };
    let server = builder.build().map_err(|error| CliError::from_error(&error))?;
    terminal::write_error(&format!("serving at http://{address}\n{price_note}"))?;
    let served = server.serve(listener, interrupt::wait_for_interrupt()).await;
    if let Some(stored) = server.stored() {
        stored.store().close().await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.shut_down(server.meter_provider()).await?;
    }
    served?;
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

    /// Opens the store and the model, and starts the MCP servers.
    async fn builder(
        &self,
        mut access: AccessConfig,
        prices: Option<RunPrices>,
    ) -> Result<ServerBuilder, CliError> {
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
        if !self.approval.is_empty() {
            let list = tools.list(&ListContext::default()).await;
            if let Some(unknown) = self.approval.iter().find(|name| list.get(name).is_none()) {
                let known: Vec<_> = list.names().map(ToString::to_string).collect();
                let known = known.join(", ");
                return Err(CliError::usage(format!(
                    "unknown tool {unknown:?} in --approval; available: {known}"
                )));
            }
            let names = self.approval.clone();
            tools =
                tools.approval_required(move |tool| names.iter().any(|name| *name == *tool.name().as_str()));
        }
        if let Some(audit) = audit {
            tools = tools.with_pipeline(audit.pipeline());
            access = access.with_rejection_hook(move |request| audit.record_rejection(request));
        }
        let agent = ReactAgent::builder(model).tools(tools).limit_action(LimitAction::Answer);
        let agent = match &self.instructions {
            Some(instructions) => agent.instructions(instructions.as_str()),
            None => agent,
        };
        let agent = match prices {
            Some(prices) => agent.prices(prices.table),
            None => agent,
        };
        let builder = Server::builder(agent).access(access);
        let builder = match self.delete_after {
            Some(days) => builder.delete_sessions_after(DAY * days.get()),
            None => builder,
        };
        let builder = match self.max_runs {
            Some(runs) => builder.max_runs(runs.get()),
            None => builder,
        };
        Ok(match store {
            Some(store) => builder.store(store),
            None => builder,
        })
    }
}
