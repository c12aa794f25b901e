//! The tools of the `haft` commands: the built-in tools and the tools of MCP servers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use futures::future::join_all;
use haft_core::{
    Toolset,
    toolset::{Diagnostic, ListContext, SourceError, ToolList},
};
use haft_mcp::{McpConfig, McpConfigError, McpSource};
use haft_tools::{BuiltinConfig, builtin};

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
    #[arg(long, conflicts_with = "mcp")]
    no_mcp: bool,
    /// Add tools that list and read the resources of the MCP servers.
    #[arg(long, conflicts_with = "no_mcp")]
    mcp_resources: bool,
    /// Add tools that list and get the prompts of the MCP servers.
    #[arg(long, conflicts_with = "no_mcp")]
    mcp_prompts: bool,
}

/// The tools for a command, the number of MCP servers that started, and the errors of the servers
/// that failed to start.
pub(crate) struct Toolbox {
    pub(crate) tools: Toolset,
    /// The number of MCP servers that started. If it is 0 and a server failed,
    /// [`require_any_server`](Self::require_any_server) returns an error.
    started_servers: usize,
    server_errors: Vec<SourceError>,
}

impl ToolOptions {
    /// Starts the MCP servers in the file given by `--mcp`, and waits until each of them is ready
    /// or has failed. Returns their tools together with the built-in tools.
    pub(crate) async fn open_toolbox(&self) -> Result<Toolbox, CliError> {
        self.open(&Spinner::new(), None).await
    }

    /// Opens the toolbox like [`open_toolbox`](Self::open_toolbox), and shows the progress in
    /// `spinner`. Elicitations of the servers are prompts in the terminal.
    pub(crate) async fn open_interactive_toolbox(&self, spinner: &Spinner) -> Result<Toolbox, CliError> {
        self.open(spinner, Some(spinner.pause())).await
    }

    /// Opens the toolbox. Elicitations of the servers are prompts in the terminal if there is
    /// `pause`, and suspend their calls if there is none.
    async fn open(&self, spinner: &Spinner, pause: Option<Pause>) -> Result<Toolbox, CliError> {
        let mut tools = builtin(&BuiltinConfig::default());
        let default_path = || mcp::default_path().filter(|path| path.exists());
        let path = self.mcp.clone().or_else(default_path).filter(|_| !self.no_mcp);
        let Some(path) = &path else { return Ok(Toolbox::new(tools, 0, Vec::new())) };
        let mut config = read_config(path)?;
        if self.mcp_resources {
            config = config.with_resource_tools();
        }
        if self.mcp_prompts {
            config = config.with_prompt_tools();
        }
        if let Some(pause) = pause {
            config = config.with_elicitation_handler(move |server, elicitation| {
                elicitation::prompt_user(server.to_owned(), elicitation, pause.clone())
            });
        }
        let (servers, server_errors) = start_servers(&config, spinner).await;
        let started_servers = servers.len() - server_errors.len();
        for server in servers {
            tools = tools.with_source(server);
        }
        Ok(Toolbox::new(tools, started_servers, server_errors))
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

/// Starts the servers in `config`. Returns their sources, and the errors of the servers that failed
/// to start.
pub(crate) async fn start_servers(
    config: &McpConfig,
    spinner: &Spinner,
) -> (Vec<Arc<McpSource>>, Vec<SourceError>) {
    let servers: Vec<_> = config.start().into_iter().map(Arc::new).collect();
    let errors = wait_until_ready(&servers, spinner).await;
    (servers, errors)
}

/// Waits until each MCP server is ready or has failed. Returns the errors of the failed servers.
async fn wait_until_ready(servers: &[Arc<McpSource>], spinner: &Spinner) -> Vec<SourceError> {
    spinner.set_message("starting the MCP servers");
    join_all(servers.iter().map(|server| server.wait_until_ready()))
        .await
        .into_iter()
        .filter_map(Result::err)
        .collect()
}

impl Toolbox {
    /// Creates a toolbox with `tools`, of which `started_servers` MCP servers are a part.
    /// `server_errors` are the errors of the other servers.
    pub(crate) fn new(tools: Toolset, started_servers: usize, server_errors: Vec<SourceError>) -> Self {
        Self { tools, started_servers, server_errors }
    }

    /// Lists the tools, and writes a warning for each diagnostic of the list, such as a tool with
    /// an invalid schema. It writes no warning for MCP servers that failed to start:
    /// `require_any_server` and `require_all_servers` report them.
    pub(crate) async fn list_and_warn(&self) -> ToolList {
        let list = self.tools.list(&ListContext::default()).await;
        let is_reported = |label: &str| self.server_errors.iter().any(|error| error.label == label);
        let is_shown = |it: &&Diagnostic| !matches!(it, Diagnostic::SourceFailed { source_label, .. } if is_reported(source_label));
        for diagnostic in list.diagnostics().iter().filter(is_shown) {
            terminal::warn(&diagnostic.to_string());
        }
        list
    }

    /// Writes a warning for each MCP server that failed to start. If at least one server failed and
    /// none started, writes no warning and returns an error with all failures.
    pub(crate) fn require_any_server(&self) -> Result<(), CliError> {
        if self.started_servers == 0 {
            return self.require_all_servers();
        }
        self.server_errors.iter().for_each(|failed| terminal::warn(&failed.to_string()));
        Ok(())
    }

    /// Returns an error if at least one MCP server failed to start. The error lists all failures.
    pub(crate) fn require_all_servers(&self) -> Result<(), CliError> {
        if self.server_errors.is_empty() {
            return Ok(());
        }
        let reasons: Vec<_> = self.server_errors.iter().map(ToString::to_string).collect();
        Err(CliError::new(remove_control_chars(&reasons.join("\n"))))
    }
}
