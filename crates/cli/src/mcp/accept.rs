use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use clap::Args;
use haft_mcp::pins::DefinitionChange;

use super::{FileOption, config_file::pin_file, test_source, unknown_server};
use crate::{
    error::CliError,
    spinner::Spinner,
    terminal::{self, is_yes, remove_control_chars},
};

/// Accept changed and new tools of a server. They are withheld until then.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: FileOption,
    /// The name of the server.
    name: String,
    /// Accept without a confirmation.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { file, name, yes } = arguments;
    let file = file.open()?;
    let pins = pin_file(file.path());
    let config = file.config()?.with_pins(&pins);
    let names: Vec<_> = config.server_names().map(str::to_owned).collect();
    let Some((_, source)) = names.iter().zip(config.start()).find(|(known, _)| **known == name) else {
        return Err(unknown_server(&config, &name));
    };
    let spinner = Spinner::new();
    spinner.set_message("starting the MCP server");
    // The listing records the changes.
    test_source(&source).await.map_err(|reason| CliError::new(remove_control_chars(&reason)))?;
    drop(spinner);
    let pins = pins.server(&name);
    let changes = pins.changes()?;
    if changes.is_empty() {
        terminal::write(&format!("all tools of {name} are accepted\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for change in &changes {
        terminal::write(&format!("{change:#}\n"))?;
    }
    if !yes && !confirm(&changes)? {
        return Err(CliError::new("nothing was accepted"));
    }
    pins.accept(&changes)?;
    terminal::write(&format!("accepted {} tools of {name}\n", changes.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a confirmation from the terminal.
fn confirm(changes: &[DefinitionChange]) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::usage("accepting tools needs a terminal, or --yes"));
    }
    terminal::write_error(&format!("accept {} tools? [y/N] ", changes.len()))?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(is_yes(&line))
}
