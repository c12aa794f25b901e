//! Programs that hold a model: built with optimisation, for the machine they run on.
//!
//! A model in a debug build is useless, and in a build for any x86-64 it has a fifth of the speed that
//! the vector instructions of this machine give it. The build has a target folder of its own, since other
//! flags would throw away what the ordinary one holds.

use std::env;

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command};
use crate::workspace::Workspace;

const FLAGS: &str = "-C target-cpu=native";

/// Builds a package for this machine and runs its program of the same name.
pub(crate) fn run(package: &str, arguments: &[String]) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    if workspace.package(package).is_none() {
        return Err(Failure::message(format!("there is no package `{package}` in this workspace")));
    }
    let target = workspace.target_directory.join("native");
    let is_first = !target.join("release").exists();
    announce(&format!(
        "building {package} with optimisation for this machine{}",
        if is_first { "; the first build takes a few minutes" } else { "" }
    ));
    run_command(
        cargo(&["build", "--locked", "--release", "--package", package])
            .env("CARGO_TARGET_DIR", &target)
            .env("RUSTFLAGS", flags()),
    )?;
    let built = target.join("release").join(package).with_extension(env::consts::EXE_EXTENSION);
    run_command(program(built).args(arguments))
}

/// Our flags, and those that the user has set.
fn flags() -> String {
    match env::var("RUSTFLAGS") {
        Ok(own) if !own.is_empty() => format!("{own} {FLAGS}"),
        _ => FLAGS.to_owned(),
    }
}
