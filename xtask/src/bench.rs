//! `cargo xtask bench`: what haft costs, in time and in instructions.

use std::fs;

use crate::failure::Failure;
use crate::process::{cargo, run as run_command};
use crate::workspace;

const PACKAGE: &str = "haft-benches";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let known = names()?;
    let (chosen, rest): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| known.contains(argument));
    let mut command = cargo(&["bench", "--locked", "--package", PACKAGE]);
    for name in if chosen.is_empty() { known.iter().collect() } else { chosen } {
        command.args(["--bench", name]);
    }
    run_command(command.arg("--").args(rest))
}

/// Each file of the package is a bench.
fn names() -> Result<Vec<String>, Failure> {
    let folder = workspace::root().join("benches/benches");
    let unreadable = |error| Failure::message(format!("cannot read {}: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}
