//! The command `haft call`: calls one tool through a pipeline, as agents do.

use std::process::ExitCode;

use clap::Args;
use haft_core::{Pipeline, ToolCall, ToolContext, ToolResult, call::FailureKind, pipeline::CallOutcome};

use crate::{
    error::CliError,
    spinner::Spinner,
    terminal::{self, remove_control_chars},
    toolbox::{StartWait, ToolOptions},
};

/// Call one tool as an agent would: arguments are repaired and validated.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A tool name from `haft tools`.
    tool: String,
    /// The arguments, as a JSON object.
    #[arg(default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    tools: ToolOptions,
    /// Write the result as one line of JSON:
    /// `{"success": …, "result": …, "error": …, "warning": …}`.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let spinner = Spinner::new();
    let toolbox = arguments.tools.open_interactive_toolbox(&spinner, StartWait::All).await?;
    drop(spinner);
    let list = toolbox.list_and_warn().await;
    // An unknown tool may belong to an MCP server that failed to start. Report the failed servers
    // first.
    if list.get(&arguments.tool).is_none() {
        toolbox.require_all_servers()?;
    }
    let call = ToolCall::new("call_1", arguments.tool, arguments.arguments);
    // The result is read by a person or a program, so the length limit for models does not apply.
    match Pipeline::unbounded().call(&list, &call, &ToolContext::default()).await {
        CallOutcome::Finished(result) if arguments.json => {
            terminal::write_json(&result.to_json().to_string())?;
            Ok(exit_code(&result))
        }
        CallOutcome::Finished(result) => write_text(&result),
        CallOutcome::Pending(_) => {
            Err(CliError::new("the call needs a decision, which `haft call` does not support"))
        }
    }
}

/// Writes the text of `result` to standard output, and its repairs and warnings to standard error.
/// If the call failed, returns an error and writes nothing to standard output.
fn write_text(result: &ToolResult) -> Result<ExitCode, CliError> {
    for repair in &result.repairs {
        terminal::warn(&format!("the arguments were repaired: {repair}"));
    }
    for warning in &result.warnings {
        terminal::warn(warning);
    }
    match result.failure() {
        None => {
            let text = result.output().map(|output| output.text().into_owned()).unwrap_or_default();
            terminal::write(&format!("{}\n", remove_control_chars(&text)))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(failure) if failure.kind == FailureKind::NotFound => {
            Err(CliError::usage(remove_control_chars(&failure.message)))
        }
        Some(failure) => Err(CliError::new(remove_control_chars(&failure.message))),
    }
}

fn exit_code(result: &ToolResult) -> ExitCode {
    match result.failure().map(|failure| failure.kind) {
        None => ExitCode::SUCCESS,
        Some(FailureKind::NotFound) => ExitCode::from(2),
        Some(_) => ExitCode::FAILURE,
    }
}
