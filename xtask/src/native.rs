//! Release builds of programs with a local model, optimised for this machine.
//!
//! Without `target-cpu=native`, the model runs at a fifth of the speed. The flag would invalidate
//! the ordinary target folder, so these builds have their own target folder.
//!
//! Each build resolves the features of the whole workspace (`--workspace`) and compiles the
//! programs of one package (`--bin`). All programs therefore share the compiled dependencies: after
//! the demo, a build of the eval, of an example or of `haft` compiles only the remaining crates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command};
use crate::workspace::Workspace;

const NATIVE_FLAGS: &str = "-C target-cpu=native";

/// Builds a program for this machine and runs it with the model in `HAFT_MODEL`, if it is set.
pub(crate) fn run_with_model(name: &str, arguments: &[String]) -> Result<(), Failure> {
    // Check the model file first, because the build takes minutes.
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

/// Returns the path of the model file in the variable `HAFT_MODEL`. An empty variable counts as
/// unset.
pub(crate) fn chosen_model() -> Result<Option<PathBuf>, Failure> {
    env::var_os("HAFT_MODEL").filter(|name| !name.is_empty()).map(absolute_model_path).transpose()
}

/// Checks that the path is a file and makes it absolute. The path is relative to the folder of the
/// user, but programs run in the root of the repository.
fn absolute_model_path(name: OsString) -> Result<PathBuf, Failure> {
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

/// Builds all programs of the package with the program `name`. Returns a command that runs this
/// program.
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

/// Returns the command that builds a program into the folder `target`. Fails if no package has the
/// program.
pub(crate) fn build_command(workspace: &Workspace, name: &str, target: &Path) -> Result<Command, Failure> {
    let package = workspace
        .package_of_program(name)
        .ok_or_else(|| Failure::message(format!("there is no program `{name}` in this workspace")))?;
    // No program needs the features that xtask enables in shared dependencies.
    let mut command = cargo(&["build", "--locked", "--release", "--workspace", "--exclude", "xtask"]);
    for name in package.programs() {
        command.args(["--bin", name]);
    }
    command
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", rust_flags())
        // `CARGO_ENCODED_RUSTFLAGS` overrides `RUSTFLAGS`, and `CARGO_BUILD_TARGET` changes the
        // output folder.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    Ok(command)
}

/// Returns the user's `RUSTFLAGS`, followed by the flags for this machine.
fn rust_flags() -> String {
    match env::var("RUSTFLAGS") {
        Ok(own) if !own.is_empty() => format!("{own} {NATIVE_FLAGS}"),
        _ => NATIVE_FLAGS.to_owned(),
    }
}

#[cfg(test)]
mod tests;
