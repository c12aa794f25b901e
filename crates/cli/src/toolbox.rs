//! The tools of the `haft` commands: the built-in tools and the tools of MCP servers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use haft_core::{
    Toolset,
    toolset::{Diagnostic, ListContext, SourceError, ToolList, ToolSource},
};
use haft_mcp::{McpConfig, McpConfigError, McpSource};
use haft_tools::{BuiltinConfig, builtin};
use tokio::time::sleep;

use crate::{
    elicitation,
    error::CliError,
    mcp,
    spinner::{Pause, Spinner},
    terminal::{self, remove_control_chars},
};

/// Options for additional tools.
#[derive(Args)]
pub(crate) struct ToolOptions {
    /// Add the tools of the MCP servers in this `mcp.json`. Default: the servers of `haft mcp add`.
    #[arg(long, value_name = "FILE")]
    mcp: Option<PathBuf>,
    /// Add no tools of MCP servers.
    #[arg(long, conflicts_with_all = ["mcp", "mcp_resources", "mcp_prompts"])]
    no_mcp: bool,
    #[command(flatten)]
    features: FeatureOptions,
}

/// Options for the features of MCP servers besides their tools.
#[derive(Args)]
pub(crate) struct FeatureOptions {
    /// Add tools that list and read the resources of the MCP servers.
    #[arg(long)]
    mcp_resources: bool,
    /// Add tools that list and get the prompts of the MCP servers.
    #[arg(long)]
    mcp_prompts: bool,
}

impl FeatureOptions {
    /// Adds the tools for resources and prompts to `config`.
    pub(crate) fn add_to(&self, mut config: McpConfig) -> McpConfig {
        if self.mcp_resources {
            config = config.with_resource_tools();
        }
        if self.mcp_prompts {
            config = config.with_prompt_tools();
        }
        config
    }
}

/// The time after which `haft run` starts without the servers that are not ready. The start of some
/// programs includes a download.
const RUN_PATIENCE: Duration = Duration::from_secs(10);
/// The time after which a served toolset is available without the servers that are not ready. Some
/// clients wait for 10 seconds.
const SERVE_PATIENCE: Duration = Duration::from_secs(5);
/// The time between two pings of a server whose tools are served.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The servers that a command waits for. The tools of later servers are added when they are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartWait {
    /// All servers, because the command ends after a listing or a call.
    All,
    /// The first server that is ready, and the others for [`RUN_PATIENCE`].
    First,
    /// All servers for [`SERVE_PATIENCE`].
    Briefly,
}

/// The tools for a command, the number of MCP servers that started, and the errors of the servers
/// that failed to start.
pub(crate) struct Toolbox {
    pub(crate) tools: Toolset,
    servers: StartedServers,
}

/// The results of starting the MCP servers.
#[derive(Default)]
pub(crate) struct StartedServers {
    pub(crate) sources: Vec<Arc<McpSource>>,
    /// The errors of the servers that failed to start.
    errors: Vec<SourceError>,
    /// The labels of the servers that are still starting.
    starting: Vec<String>,
}

impl ToolOptions {
    /// Starts the MCP servers in the file given by `--mcp`, and waits for them as in `wait`.
    /// Returns their tools together with the built-in tools.
    pub(crate) async fn open_toolbox(&self, wait: StartWait) -> Result<Toolbox, CliError> {
        self.open(&Spinner::new(), wait, None).await
    }

    /// Opens the toolbox like [`open_toolbox`](Self::open_toolbox), and shows the progress in
    /// `spinner`. Elicitations of the servers are prompts in the terminal.
    pub(crate) async fn open_interactive_toolbox(
        &self,
        spinner: &Spinner,
        wait: StartWait,
    ) -> Result<Toolbox, CliError> {
        self.open(spinner, wait, Some(spinner.pause())).await
    }

    /// Opens the toolbox. Elicitations of the servers are prompts in the terminal if there is
    /// `pause`, and suspend their calls if there is none.
    async fn open(
        &self,
        spinner: &Spinner,
        wait: StartWait,
        pause: Option<Pause>,
    ) -> Result<Toolbox, CliError> {
        let mut tools = builtin(&BuiltinConfig::default());
        let default_path = || mcp::default_path().filter(|path| path.exists());
        let path = self.mcp.clone().or_else(default_path).filter(|_| !self.no_mcp);
        let Some(path) = &path else { return Ok(Toolbox::new(tools, StartedServers::default())) };
        let mut config = self.features.add_to(read_config(path)?);
        if let Some(pause) = pause {
            config = config.with_elicitation_handler(move |server, elicitation| {
                elicitation::prompt_user(server.to_owned(), elicitation, pause.clone())
            });
        }
        let servers = StartedServers::start(config, spinner, wait).await;
        for server in &servers.sources {
            tools = tools.with_named_source(server.name(), Arc::clone(server));
        }
        Ok(Toolbox::new(tools, servers))
    }
}

/// Reads the `mcp.json` at `path`, and adds the stored credentials and the pinned definitions.
pub(crate) fn read_config(path: &Path) -> Result<McpConfig, CliError> {
    let config = McpConfig::from_path(path).map_err(|error| config_error(&error))?;
    let mut config = mcp::with_revision_cache(config);
    if let Some(credentials) = mcp::credentials() {
        config = config.with_credentials(&credentials);
    }
    if let Some(pins) = mcp::pins_in_use(path) {
        config = config.with_pins(&pins);
    }
    Ok(config)
}

/// Returns the error for an invalid `mcp.json`.
pub(crate) fn config_error(error: &McpConfigError) -> CliError {
    CliError::from_error(error).with_remedy(Some("correct the file, or name another one with --mcp"))
}

impl StartedServers {
    /// Starts the servers in `config`, and waits for them as in `wait`.
    pub(crate) async fn start(config: McpConfig, spinner: &Spinner, wait: StartWait) -> Self {
        let config = match wait {
            StartWait::Briefly => config.with_ping_interval(PING_INTERVAL),
            StartWait::All | StartWait::First => config,
        };
        let sources: Vec<_> = config.start().into_iter().map(Arc::new).collect();
        spinner.set_message("starting the MCP servers");
        let mut waiting: BTreeMap<_, _> = sources.iter().map(ToolSource::label).enumerate().collect();
        let mut errors = BTreeMap::new();
        let start = |(index, source): (usize, &Arc<McpSource>)| {
            let source = Arc::clone(source);
            async move { (index, source.wait_until_ready().await) }
        };
        let mut starts: FuturesUnordered<_> = sources.iter().enumerate().map(start).collect();
        let patience = if wait == StartWait::First { RUN_PATIENCE } else { SERVE_PATIENCE };
        let mut elapsed = pin!(sleep(patience));
        loop {
            let has_ready = waiting.len() + errors.len() < sources.len();
            let may_end = match wait {
                StartWait::All => false,
                StartWait::First => has_ready,
                StartWait::Briefly => true,
            };
            tokio::select! {
                biased;
                started = starts.next() => {
                    let Some((index, started)) = started else { break };
                    waiting.remove(&index);
                    if let Err(error) = started {
                        errors.insert(index, error);
                    }
                }
                () = &mut elapsed, if may_end => break,
            }
        }
        let starting = waiting.into_values().map(str::to_owned).collect();
        Self { errors: errors.into_values().collect(), starting, sources }
    }
}

impl Toolbox {
    /// Creates a toolbox with `tools`, which contain the tools of `servers`.
    pub(crate) fn new(tools: Toolset, servers: StartedServers) -> Self {
        Self { tools, servers }
    }

    /// Lists the tools, and writes a warning for each diagnostic of the list, such as a tool with
    /// an invalid schema. It writes no warning for MCP servers that failed to start or are still
    /// starting: `require_any_server` and `require_all_servers` report them.
    pub(crate) async fn list_and_warn(&self) -> ToolList {
        let list = self.tools.list(&ListContext::default()).await;
        let StartedServers { errors, starting, .. } = &self.servers;
        let is_reported = |label: &str| {
            errors.iter().any(|error| error.label == label) || starting.iter().any(|known| known == label)
        };
        let is_shown = |it: &&Diagnostic| !matches!(it, Diagnostic::SourceFailed { source_label, .. } if is_reported(source_label));
        for diagnostic in list.diagnostics().iter().filter(is_shown) {
            terminal::warn(&diagnostic.to_string());
        }
        list
    }

    /// Writes a warning for each MCP server that failed to start or is still starting. If all
    /// servers failed, writes no warning and returns an error with all failures.
    pub(crate) fn require_any_server(&self) -> Result<(), CliError> {
        let StartedServers { sources, errors, starting } = &self.servers;
        if errors.len() == sources.len() {
            return self.require_all_servers();
        }
        errors.iter().for_each(|failed| terminal::warn(&failed.to_string()));
        for label in starting {
            terminal::warn(&format!("{label} is still starting; its tools are added when it is ready"));
        }
        Ok(())
    }

    /// Returns an error if at least one MCP server failed to start. The error lists all failures.
    pub(crate) fn require_all_servers(&self) -> Result<(), CliError> {
        if self.servers.errors.is_empty() {
            return Ok(());
        }
        let reasons: Vec<_> = self.servers.errors.iter().map(ToString::to_string).collect();
        Err(CliError::new(remove_control_chars(&reasons.join("\n"))))
    }
}
