#![doc = include_str!("../README.md")]

mod audit;
mod call;
mod elicitation;
mod error;
mod interrupt;
mod logs;
mod mcp;
#[cfg(feature = "local")]
mod model;
mod model_options;
mod prices;
mod run;
mod serve;
mod sessions;
mod spinner;
mod store;
mod telemetry;
mod terminal;
mod text_file;
mod toolbox;
mod tools;
mod trace;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand, error::ErrorKind};

use crate::{error::CliError, telemetry::Telemetry};

/// Run an agent with a language model and tools.
#[derive(Parser)]
#[command(
    name = "haft",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 invalid usage (including an unknown tool)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log to standard error; -vv and -vvv log more. HAFT_LOG is a filter such as `haft_mcp=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Serve(serve::Arguments),
    Sessions(sessions::Arguments),
    Tools(tools::Arguments),
    Call(call::Arguments),
    Mcp(mcp::Arguments),
    #[cfg(feature = "local")]
    Model(model::Arguments),
}

fn main() -> ExitCode {
    // Look for `--json` before the command line is parsed, because parser errors are written as
    // JSON too. Arguments after `--` are never flags.
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    let json = arguments.any(|argument| argument == "--json");
    execute().unwrap_or_else(|failure| failure.report(json))
}

fn execute() -> Result<ExitCode, CliError> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help.print()?;
            return Ok(ExitCode::from(2));
        }
        Err(error) if error.use_stderr() => return Err(CliError::from_clap(&error)),
        Err(help) => help.exit(),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let telemetry = match &cli.command {
        Command::Serve(_) => Telemetry::from_env(runtime.handle())?,
        _ => None,
    };
    logs::init_logging(cli.verbose, telemetry.as_ref())?;
    let result = runtime.block_on(async {
        interrupt::watch_signals();
        match cli.command {
            // `run` handles an interrupt itself: it cancels the run of the agent, so that each open
            // call gets a result.
            Command::Run(arguments) => run::run(arguments).await,
            // `serve` handles an interrupt itself: runs in progress are stored.
            Command::Serve(arguments) => serve::run(arguments, telemetry).await,
            Command::Sessions(arguments) => interrupt::cancel_on_interrupt(sessions::run(arguments)).await,
            Command::Tools(arguments) => interrupt::cancel_on_interrupt(tools::run(arguments)).await,
            Command::Call(arguments) => interrupt::cancel_on_interrupt(call::run(arguments)).await,
            // `mcp serve` handles an interrupt itself: calls in progress may finish.
            Command::Mcp(arguments) => mcp::run(arguments).await,
            #[cfg(feature = "local")]
            Command::Model(arguments) => interrupt::cancel_on_interrupt(model::run(arguments)).await,
        }
    });
    // Exit without waiting for blocking threads, for example a thread that loads a model.
    runtime.shutdown_background();
    result
}
