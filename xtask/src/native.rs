//! Release builds for this machine, for programs with a local model.
//!
//! Without `target-cpu=native` the model runs at a fifth of the speed. The flags invalidate the
//! ordinary target folder, so the build has its own.
//!
//! Each build resolves the features of the whole workspace (`--workspace`) and compiles the
//! programs of one package (`--bin`). All programs therefore share the compiled dependencies: after
//! the demo, a build of the eval, an example or the command line compiles only the remaining
//! crates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command};
use crate::workspace::Workspace;

const FLAGS: &str = "-C target-cpu=native";

/// Builds a program for this machine and runs it with the user's model.
pub(crate) fn ask_model(name: &str, arguments: &[String]) -> Result<(), Failure> {
    // Before the build, which takes minutes.
    let model = chosen_model()?;
    if let Some(file) = &model {
        announce(&format!("using the model {} (HAFT_MODEL)", file.display()));
    }
    let mut program = build(name)?;
    run_command(program.args(arguments).envs(model.map(|file| ("HAFT_MODEL", file))))
}

/// Builds a program for this machine and runs it.
pub(crate) fn run(name: &str, arguments: &[String]) -> Result<(), Failure> {
    run_command(build(name)?.args(arguments))
}

/// The model file in the variable `HAFT_MODEL`. An empty variable counts as unset.
pub(crate) fn chosen_model() -> Result<Option<PathBuf>, Failure> {
    env::var_os("HAFT_MODEL").filter(|name| !name.is_empty()).map(model_file).transpose()
}

/// Makes the path absolute: programs run in the root of the repository, xtask in any folder.
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

/// Builds a program, and the other programs of its package, for this machine.
fn build(name: &str) -> Result<Command, Failure> {
    let workspace = Workspace::load()?;
    let target = workspace.target_directory.join("native");
    let is_first = !target.join("release").exists();
    announce(&format!(
        "building {name} with optimisation for this machine{}",
        if is_first { "; the first build takes a few minutes" } else { "" }
    ));
    run_command(&mut build_command(&workspace, name, &target)?)?;
    Ok(program(target.join("release").join(name).with_extension(env::consts::EXE_EXTENSION)))
}

/// The build command of a program, with its target folder.
pub(crate) fn build_command(workspace: &Workspace, name: &str, target: &Path) -> Result<Command, Failure> {
    let package = workspace
        .package_of_program(name)
        .ok_or_else(|| Failure::message(format!("there is no program `{name}` in this workspace")))?;
    // The features of xtask's dependencies are not needed by any program.
    let mut command = cargo(&["build", "--locked", "--release", "--workspace", "--exclude", "xtask"]);
    for name in package.programs() {
        command.args(["--bin", name]);
    }
    command
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", flags())
        // The first overrides RUSTFLAGS, the second changes the output folder.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    Ok(command)
}

/// Our flags after those of the user.
fn flags() -> String {
    match env::var("RUSTFLAGS") {
        Ok(own) if !own.is_empty() => format!("{own} {FLAGS}"),
        _ => FLAGS.to_owned(),
    }
}

#[cfg(test)]
mod tests;
