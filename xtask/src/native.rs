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

/// Builds the program `name`, optimised for this machine, and runs it with `arguments`. The model
/// file in `HAFT_MODEL`, if any, is passed to the program as an absolute path.
pub(crate) fn run_with_model(name: &str, arguments: &[String]) -> Result<(), Failure> {
    // Check the model file first, because the build takes minutes.
    let model = chosen_model()?;
    if let Some(file) = &model {
        announce(&format!("using the model {} (HAFT_MODEL)", file.display()));
    }
    let mut program = build(name)?;
    run_command(program.args(arguments).envs(model.map(|file| ("HAFT_MODEL", file))))
}

/// Builds the program `name`, optimised for this machine, and runs it with `arguments`.
pub(crate) fn run(name: &str, arguments: &[String]) -> Result<(), Failure> {
    run_command(build(name)?.args(arguments))
}

/// Returns the absolute path of the model file in the environment variable `HAFT_MODEL`. `None` if
/// the variable is unset or empty.
pub(crate) fn chosen_model() -> Result<Option<PathBuf>, Failure> {
    env::var_os("HAFT_MODEL").filter(|name| !name.is_empty()).map(absolute_model_path).transpose()
}

/// Converts `name` to an absolute path, because programs run in the root of the repository and not
/// in the user's working directory. Returns an error if `name` is not a file.
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

/// Builds all programs of the package that contains the program `name`. Returns a command that runs
/// the program `name`.
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

/// Returns the cargo command that builds the program `name` into the folder `target`. Fails if no
/// package of the workspace contains the program.
pub(crate) fn build_command(workspace: &Workspace, name: &str, target: &Path) -> Result<Command, Failure> {
    let package = workspace
        .package_of_program(name)
        .ok_or_else(|| Failure::message(format!("there is no program `{name}` in this workspace")))?;
    // Exclude xtask, because it enables features in shared dependencies that no other program
    // needs.
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
