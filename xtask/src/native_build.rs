//! Builds of programs that run a local model, optimized for the processor of this machine, in the
//! profile `quick`, which has a short first build.
//!
//! With `target-cpu=native`, prompts are read 1.4 to 1.8 times as fast. The flag would invalidate
//! the files in the ordinary target folder, so these builds use a separate target folder.
//!
//! Each build resolves the features of the whole workspace (`--workspace`), but compiles the
//! programs of only one package (`--bin`). All programs therefore share the compiled dependencies:
//! after the demo is built, building the eval, an example or `haft` compiles only a few more
//! crates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command};
use crate::workspace::Workspace;

const NATIVE_FLAGS: &str = "-C target-cpu=native";

/// The cargo profile of these builds, which is also the name of its folder.
pub(crate) const PROFILE: &str = "quick";

/// Builds the program `name`, optimized for this machine, and runs it with `arguments`. If
/// `HAFT_MODEL` is set, the program receives this variable with an absolute path.
pub(crate) fn build_and_run_with_model(name: &str, arguments: &[String]) -> Result<(), Failure> {
    // Check the path of the model before the build, which takes minutes.
    let model = model_from_env()?;
    if let Some(file) = &model {
        announce(&format!("using the model {} (HAFT_MODEL)", file.display()));
    }
    let mut program = build_program(name)?;
    run_command(program.args(arguments).envs(model.map(|file| ("HAFT_MODEL", file))))
}

/// Builds the program `name`, optimized for this machine, and runs it with `arguments`.
pub(crate) fn build_and_run(name: &str, arguments: &[String]) -> Result<(), Failure> {
    run_command(build_program(name)?.args(arguments))
}

/// Returns the absolute path of the model file in the environment variable `HAFT_MODEL`. Returns
/// `None` if the variable is unset or empty.
pub(crate) fn model_from_env() -> Result<Option<PathBuf>, Failure> {
    env::var_os("HAFT_MODEL").filter(|name| !name.is_empty()).map(absolute_model_path).transpose()
}

/// Converts the path `name` to an absolute path. Programs run in the root of the repository, but
/// the user's path is relative to the working directory. Returns an error if there is no such file.
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

/// Builds the package with the program `name`, including its other programs. Returns a command that
/// runs the program `name`.
pub(crate) fn build_program(name: &str) -> Result<Command, Failure> {
    let workspace = Workspace::load()?;
    let target = workspace.target_directory.join("native");
    let is_first = !target.join(PROFILE).exists();
    announce(&format!(
        "building {name} with optimisation for this machine{}",
        if is_first { "; the first build takes a few minutes" } else { "" }
    ));
    run_command(&mut build_command(&workspace, name, &target)?)?;
    Ok(command_in_root(target.join(PROFILE).join(name).with_extension(env::consts::EXE_EXTENSION)))
}

/// Returns a cargo command that builds all programs of the package with the program `name` into the
/// folder `target`. Returns an error if no package of the workspace has this program.
pub(crate) fn build_command(workspace: &Workspace, name: &str, target: &Path) -> Result<Command, Failure> {
    let package = workspace
        .package_of_program(name)
        .ok_or_else(|| Failure::message(format!("there is no program `{name}` in this workspace")))?;
    // Exclude xtask: it enables features of shared dependencies that no other program needs.
    let mut command = cargo_command(&["build", "--locked", "--profile", PROFILE]);
    command.args(["--workspace", "--exclude", "xtask"]);
    for name in package.programs() {
        command.args(["--bin", name]);
    }
    command
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", rust_flags())
        // `CARGO_ENCODED_RUSTFLAGS` would override `RUSTFLAGS`, and `CARGO_BUILD_TARGET` would
        // change the output folder.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    Ok(command)
}

/// Returns the user's `RUSTFLAGS`, followed by the flags that optimize for this machine.
fn rust_flags() -> String {
    match env::var("RUSTFLAGS") {
        Ok(own) if !own.is_empty() => format!("{own} {NATIVE_FLAGS}"),
        _ => NATIVE_FLAGS.to_owned(),
    }
}

#[cfg(test)]
mod tests;
