//! `cargo xtask eval`: how well the local models pick and call tools, as tables.

use crate::failure::Failure;
use crate::process::announce;
use crate::{judges, native};

/// The models that are compared.
const MODELS: [&str; 2] = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    // Nothing is installed for a model that is not there.
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

/// Fetches the models that are compared.
pub(crate) fn fetch_models() -> Result<(), Failure> {
    MODELS.iter().try_for_each(|model| native::run("haft", &["model", "pull", model].map(str::to_owned)))
}

fn compares(arguments: &[String]) -> bool {
    let leaves_it = ["--help", "-h", "--model", "--dialect", "--python"];
    arguments.iter().all(|argument| leaves_it.iter().all(|it| argument.split('=').next() != Some(it)))
}
