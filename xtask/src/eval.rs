//! The command `cargo xtask eval`: measures how well the local models select tools and write calls.

use crate::failure::Failure;
use crate::{judges, native_build};

/// The names of the models that `cargo xtask eval` compares.
const MODELS: [&str; 2] = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    native_build::build_and_run_with_model("eval", arguments)
}

/// Measures the speed of the local models beside a llama.cpp server.
pub(crate) fn run_speed(arguments: &[String]) -> Result<(), Failure> {
    let mut all = vec!["--speed".to_owned()];
    all.extend_from_slice(arguments);
    if !arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h" | "--python")) {
        all.extend(["--python".to_owned(), judges::install_llama_cpp()?.display().to_string()]);
    }
    native_build::build_and_run("eval", &all)
}

/// Downloads [`MODELS`] to the model cache.
pub(crate) fn fetch_models() -> Result<(), Failure> {
    MODELS.iter().try_for_each(|model| {
        native_build::build_and_run("haft", &["model", "pull", model].map(str::to_owned))
    })
}
