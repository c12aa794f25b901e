//! `cargo xtask ci`: everything that must hold before a commit.

use crate::failure::Failure;
use crate::process::{cargo, run as run_command};
use crate::workspace::Workspace;
use crate::{bench, doc, fuzz, test, tidy};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    match flags[..] {
        [] => checks().and_then(|()| test::run(&[])).and_then(|()| bench::check()),
        ["--checks"] => checks(),
        ["--counts"] => bench::check(),
        _ => Err(Failure::usage("`ci` takes `--checks`, `--counts` or nothing")),
    }
}

/// The quick ones come first.
fn checks() -> Result<(), Failure> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run(&[])?;
    clippy(&["--workspace", "--all-targets"])?;
    bare_crates()?;
    fuzz::check()?;
    doc::run(&[])?;
    packages()
}

fn clippy(scope: &[&str]) -> Result<(), Failure> {
    run_command(cargo(&["clippy", "--locked"]).args(scope).args(["--", "-D", "warnings"]))
}

/// What has features by default compiles without them, too.
fn bare_crates() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut crates = workspace.published().filter(|package| package.features.contains_key("default"));
    crates.try_for_each(|package| clippy(&["--package", &package.name, "--no-default-features"]))
}

/// Each crate packages for the registry. The packages are not built again, which would take as long as all the
/// rest: clippy has seen the same sources, and `tidy` sees to it that they include nothing from outside.
fn packages() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut command = cargo(&["package", "--locked", "--no-verify", "--allow-dirty"]);
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    run_command(&mut command)
}
