//! `cargo xtask ci`: the checks and tests before a commit.

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command};
use crate::tools::CARGO_DENY;
use crate::workspace::Workspace;
use crate::{api, bench, doc, fuzz, size, test, tidy};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    match flags[..] {
        [] => checks().and_then(|()| test::run(&[])).and_then(|()| counts()),
        ["--checks"] => checks(),
        ["--counts"] => counts(),
        _ => Err(Failure::usage("`ci` takes `--checks`, `--counts` or nothing")),
    }
}

/// Runs the checks, the fast ones first.
fn checks() -> Result<(), Failure> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run(&[])?;
    clippy(&["--workspace", "--all-targets"])?;
    bare_crates()?;
    fuzz::check()?;
    doc::run(&[])?;
    api::run(&[])?;
    dependencies()?;
    packages()
}

/// Checks instruction counts, crate counts, and the size of the program in the test build.
fn counts() -> Result<(), Failure> {
    bench::check()?;
    size::check()
}

/// Checks licences, banned and duplicate crates, and sources. Advisories need a database from the
/// network; the workflow `.github/workflows/advisories.yml` checks them.
fn dependencies() -> Result<(), Failure> {
    announce(
        "note: security advisories are not checked here: `cargo deny check advisories` fetches their database",
    );
    let deny = CARGO_DENY.installed()?;
    run_command(program(deny).args(["--locked", "--offline", "check", "licenses", "bans", "sources"]))
}

fn clippy(scope: &[&str]) -> Result<(), Failure> {
    run_command(cargo(&["clippy", "--locked"]).args(scope).args(["--", "-D", "warnings"]))
}

/// Checks the crates with default features without them.
fn bare_crates() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut crates = workspace.published().filter(|package| package.features.contains_key("default"));
    crates.try_for_each(|package| clippy(&["--package", &package.name, "--no-default-features"]))
}

/// Packages each crate for the registry. The packages are not built: that takes as long as all
/// other checks together. Clippy has checked the same sources, and `tidy` rejects files that are
/// included from outside of a package.
fn packages() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut command = cargo(&["package", "--locked", "--no-verify", "--allow-dirty"]);
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    run_command(&mut command)
}
