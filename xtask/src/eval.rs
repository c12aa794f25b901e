//! The command `cargo xtask eval`: measures how well the local models select tools and write calls.

use crate::failure::Failure;
use crate::process::announce;
use crate::{judges, native_build};

/// The names of the models that `cargo xtask eval` compares.
const MODELS: [&str; 2] = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    // Check the path of the model first, so that a missing file is reported before the llama.cpp
    // server is installed.
    native_build::model_from_env()?;
    let mut arguments = arguments.to_vec();
    if needs_python(&arguments) {
        match judges::install_llama_cpp() {
            Ok(python) => arguments.extend(["--python".to_owned(), python.display().to_string()]),
            Err(failure) => {
                announce(&format!("note: {failure}; the plain loop is left out of the comparison"));
            }
        }
    }
    native_build::build_and_run_with_model("eval", &arguments)
}

/// Downloads [`MODELS`] to the model cache.
pub(crate) fn fetch_models() -> Result<(), Failure> {
    MODELS.iter().try_for_each(|model| {
        native_build::build_and_run("haft", &["model", "pull", model].map(str::to_owned))
    })
}

/// Returns `true` if a run with `arguments` may need the llama.cpp server for the comparison with
/// the plain loop. The server is not needed with `--help`, or with `--python`, which specifies an
/// interpreter. `--model`, `--dialect` and `--development` omit the comparison, unless
/// `--comparison` requests it.
fn needs_python(arguments: &[String]) -> bool {
    let names: Vec<_> = arguments.iter().filter_map(|argument| argument.split('=').next()).collect();
    let has_any = |options: &[&str]| options.iter().any(|option| names.contains(option));
    !has_any(&["--help", "-h", "--python"])
        && (has_any(&["--comparison"]) || !has_any(&["--model", "--dialect", "--development"]))
}

#[cfg(test)]
mod tests;
