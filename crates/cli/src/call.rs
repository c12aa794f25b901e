//! `haft call`: one call, as an agent would make it.

use std::process::ExitCode;

use clap::Args;
use haft_core::{Pipeline, ToolCall, ToolContext, ToolResult, call::FailureKind, pipeline::CallOutcome};

use crate::{
    failure::Failure,
    terminal::{self, plain},
    toolbox::ToolOptions,
};

/// Call one tool, as an agent would: arguments are repaired and validated.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The tool, as `haft tools` names it.
    tool: String,
    /// What it takes, as a JSON object.
    #[arg(default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    tools: ToolOptions,
    /// Write the result as one line of JSON: `{"success": …, "result": …, "error": …, "warning": …}`.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let toolbox = arguments.tools.open().await?;
    let list = toolbox.list().await;
    // The tool may be one of a server that did not come up.
    if list.get(&arguments.tool).is_none() {
        toolbox.check_all()?;
    }
    let call = ToolCall::new("call_1", arguments.tool, arguments.arguments);
    // Whoever called reads the whole of the result.
    match Pipeline::unbounded().call(&list, &call, &ToolContext::default()).await {
        CallOutcome::Finished(result) if arguments.json => {
            terminal::write_json(&result.to_json().to_string())?;
            Ok(exit_code(&result))
        }
        CallOutcome::Finished(result) => for_people(&result),
        CallOutcome::Pending(_) => {
            Err(Failure::new("the call waits for an answer, which cannot be given here"))
        }
    }
}

fn for_people(result: &ToolResult) -> Result<ExitCode, Failure> {
    for repair in &result.repairs {
        terminal::warn(&format!("the arguments were repaired: {repair}"));
    }
    for warning in &result.warnings {
        terminal::warn(warning);
    }
    match result.failure() {
        None => {
            let text = result.output().map(|output| output.text().into_owned()).unwrap_or_default();
            terminal::write(&format!("{}\n", plain(&text)))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(failure) if failure.kind == FailureKind::NotFound => {
            Err(Failure::usage(plain(&failure.message)))
        }
        Some(failure) => Err(Failure::new(plain(&failure.message))),
    }
}

fn exit_code(result: &ToolResult) -> ExitCode {
    match result.failure().map(|failure| failure.kind) {
        None => ExitCode::SUCCESS,
        Some(FailureKind::NotFound) => ExitCode::from(2),
        Some(_) => ExitCode::FAILURE,
    }
}
