//! Programs that hold a model: built with optimisation, for the machine they run on.
//!
//! A model in a debug build is useless, and in a build for any x86-64 it has a fifth of the speed that
//! the vector instructions of this machine give it. The build has a target folder of its own, since other
//! flags would throw away what the ordinary one holds.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command};
use crate::workspace::Workspace;

const FLAGS: &str = "-C target-cpu=native";

/// Builds a package for this machine and runs its program of the same name, with the model that the user has chosen.
pub(crate) fn ask_model(package: &str, arguments: &[String]) -> Result<(), Failure> {
    // What would fail after minutes of building is found out before them.
    let model = chosen_model()?;
    if let Some(file) = &model {
        announce(&format!("using the model {} (HAFT_MODEL)", file.display()));
    }
    let mut program = build(package)?;
    run_command(program.args(arguments).envs(model.map(|file| ("HAFT_MODEL", file))))
}

/// Builds a package for this machine and runs its program of the same name.
pub(crate) fn run(package: &str, arguments: &[String]) -> Result<(), Failure> {
    run_command(build(package)?.args(arguments))
}

/// The model file that `HAFT_MODEL` names. An empty name is none.
pub(crate) fn chosen_model() -> Result<Option<PathBuf>, Failure> {
    env::var_os("HAFT_MODEL").filter(|name| !name.is_empty()).map(model_file).transpose()
}

/// Makes a path of the name that holds in any folder: programs run in the root, and we perhaps somewhere else.
fn model_file(name: OsString) -> Result<PathBuf, Failure> {
    let file = PathBuf::from(name);
    if !file.is_file() {
        let file = file.display();
        return Err(Failure::message(format!(
            "HAFT_MODEL names {file}, which is not a file; unset it to use the default model"
        )));
    }
    std::path::absolute(&file)
        .map_err(|error| Failure::message(format!("the folder of {} is gone: {error}", file.display())))
}

/// Builds a package for this machine and gives its program of the same name.
fn build(package: &str) -> Result<Command, Failure> {
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
            .env("RUSTFLAGS", flags())
            // The one would hide our flags, the other would change where the program is.
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_BUILD_TARGET"),
    )?;
    Ok(program(target.join("release").join(package).with_extension(env::consts::EXE_EXTENSION)))
}

/// Our flags, and those that the user has set.
fn flags() -> String {
    match env::var("RUSTFLAGS") {
        Ok(own) if !own.is_empty() => format!("{own} {FLAGS}"),
        _ => FLAGS.to_owned(),
    }
}

#[cfg(test)]
mod tests;
