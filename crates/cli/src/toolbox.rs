//! The tools that the commands work with: the built-in ones and those of MCP servers.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use futures::future::join_all;
use haft_core::{
    Toolset,
    toolset::{Diagnostic, ListContext, SourceError, ToolList},
};
use haft_mcp::{McpConfig, McpSource};
use haft_tools::{BuiltinConfig, builtin};

use crate::{
    failure::Failure,
    spinner::Spinner,
    terminal::{self, plain},
};

/// Where tools come from besides the program itself.
#[derive(Args)]
pub(crate) struct ToolOptions {
    /// Take the tools of these MCP servers, too: an `mcp.json` as editors write it.
    #[arg(long, value_name = "FILE")]
    mcp: Option<PathBuf>,
}

/// The tools, and how the servers among their sources are doing.
pub(crate) struct Toolbox {
    pub(crate) tools: Toolset,
    /// How many servers have tools.
    serving: usize,
    failed: Vec<SourceError>,
}

impl ToolOptions {
    /// Starts the servers and waits for each, whether it comes up or not.
    pub(crate) async fn open(&self) -> Result<Toolbox, Failure> {
        let mut tools = builtin(&BuiltinConfig::default());
        let Some(path) = &self.mcp else { return Ok(Toolbox { tools, serving: 0, failed: Vec::new() }) };
        let named = |error| Failure::of(&error).with_advice(Some("correct the file that --mcp names"));
        let servers: Vec<_> = McpConfig::from_path(path)
            .and_then(|config| config.start())
            .map_err(named)?
            .into_iter()
            .map(Arc::new)
            .collect();
        let failed = wait_for(&servers).await;
        let serving = servers.len() - failed.len();
        for server in servers {
            tools = tools.with_source(server);
        }
        Ok(Toolbox { tools, serving, failed })
    }
}

async fn wait_for(servers: &[Arc<McpSource>]) -> Vec<SourceError> {
    let spinner = Spinner::new();
    spinner.say("starting the MCP servers");
    join_all(servers.iter().map(|server| server.ready())).await.into_iter().filter_map(Result::err).collect()
}

impl Toolbox {
    /// The tools on offer. What is withheld is told as a warning.
    pub(crate) async fn list(&self) -> ToolList {
        let list = self.tools.list(&ListContext::default()).await;
        let withheld = |it: &&Diagnostic| !matches!(it, Diagnostic::SourceFailed { .. });
        for diagnostic in list.diagnostics().iter().filter(withheld) {
            terminal::warn(&diagnostic.to_string());
        }
        list
    }

    /// Warns of servers that have failed while others serve. Fails when not one of them has come up.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.serving == 0 {
            return self.check_all();
        }
        self.failed.iter().for_each(|failed| terminal::warn(&failed.to_string()));
        Ok(())
    }

    /// Fails when a server has failed.
    pub(crate) fn check_all(&self) -> Result<(), Failure> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let reasons: Vec<_> = self.failed.iter().map(ToString::to_string).collect();
        Err(Failure::new(plain(&reasons.join("\n"))))
    }
}
