#![doc = include_str!("../README.md")]

mod call;
mod failure;
mod interrupt;
mod language_model;
mod logs;
#[cfg(feature = "local")]
mod model;
mod run;
mod spinner;
mod terminal;
mod toolbox;
mod tools;
mod trace;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand, error::ErrorKind};

use crate::failure::Failure;

/// Asks language models, with tools from anywhere.
#[derive(Parser)]
#[command(
    name = "haft",
    version,
    after_help = "Exit codes: 0 answered, 1 failed, 2 wrong usage (a tool that does not exist is one)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log to standard error; -vv and -vvv say more. HAFT_LOG takes a filter, such as `haft_mcp=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Tools(tools::Arguments),
    Call(call::Arguments),
    #[cfg(feature = "local")]
    Model(model::Arguments),
}

fn main() -> ExitCode {
    // A mistake on the command line is told in JSON, too, before it is known what the command was.
    let json = std::env::args_os().any(|argument| argument == "--json");
    execute().unwrap_or_else(|failure| failure.report(json))
}

fn execute() -> Result<ExitCode, Failure> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help.print()?;
            return Ok(ExitCode::from(2));
        }
        Err(error) if error.use_stderr() => return Err(Failure::command_line(&error)),
        Err(help) => help.exit(),
    };
    logs::start(cli.verbose)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        interrupt::exit_at_the_second();
        match cli.command {
            // It ends a run by itself: there are calls to close.
            Command::Run(arguments) => run::run(arguments).await,
            Command::Tools(arguments) => interrupt::cancels(tools::run(arguments)).await,
            Command::Call(arguments) => interrupt::cancels(call::run(arguments)).await,
            #[cfg(feature = "local")]
            Command::Model(arguments) => interrupt::cancels(model::run(arguments)).await,
        }
    });
    // What blocks a thread, such as a model that loads, does not keep the program.
    runtime.shutdown_background();
    ended
}
