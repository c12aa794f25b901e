//! `cargo xtask eval`: tables of tool selection and tool calls by the local models.

use crate::failure::Failure;
use crate::process::announce;
use crate::{judges, native};

/// The compared models.
const MODELS: [&str; 2] = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    // Fails on a missing model file before anything is installed.
    native::chosen_model()?;
    let mut arguments = arguments.to_vec();
    if compares(&arguments) {
        match judges::llama_cpp() {
            Ok(python) => arguments.extend(["--python".to_owned(), python.display().to_string()]),
            Err(failure) => {
                announce(&format!("note: {failure}; the plain loop is left out of the comparison"));
            }
        }
    }
    native::ask_model("eval", &arguments)
}

/// Fetches the compared models.
pub(crate) fn fetch_models() -> Result<(), Failure> {
    MODELS.iter().try_for_each(|model| native::run("haft", &["model", "pull", model].map(str::to_owned)))
}

/// Returns `true` if the models are compared with the plain loop.
fn compares(arguments: &[String]) -> bool {
    let without_comparison = ["--help", "-h", "--model", "--dialect", "--python"];
    arguments
        .iter()
        .all(|argument| without_comparison.iter().all(|option| argument.split('=').next() != Some(option)))
}
