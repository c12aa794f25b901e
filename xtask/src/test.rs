//! The command `cargo xtask test`: runs all tests and doctests of the workspace, including the
//! tests of the examples.

use crate::failure::Failure;
use crate::process::{cargo_command, run as run_command};
use crate::setup::check_openssl;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    // Omit `--workspace` if the arguments select packages with `--package`, because cargo ignores
    // `--package` if both options are given.
    let ours = arguments.iter().take_while(|argument| *argument != "--");
    let narrowed = ours.into_iter().any(|argument| is_package_choice(argument));
    let scope: &[&str] = if narrowed { &[] } else { &["--workspace"] };
    if !narrowed {
        check_openssl();
    }
    run_command(cargo_command(&["test", "--locked"]).args(scope).args(arguments))
}

fn is_package_choice(argument: &str) -> bool {
    matches!(argument, "--package" | "--workspace" | "--all")
        || argument.starts_with("--package=")
        || argument.starts_with("-p")
}

#[cfg(test)]
mod tests;
