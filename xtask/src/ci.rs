//! The command `cargo xtask ci`: runs the checks and tests that must pass before a commit, or the
//! checks that run once a week.

use std::time::Instant;

use crate::cargo_tools::CARGO_DENY;
use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command};
use crate::workspace::Workspace;
use crate::{bench, doc, fuzz, minimal_versions, size, test, tidy};

/// A name and a check.
type Step = (&'static str, fn() -> Result<(), Failure>);

/// The checks of each change, fast ones first.
const CHECKS: &[Step] = &[
    ("format", check_format),
    ("tidy", || tidy::run(&[])),
    ("crates", size::check),
    ("clippy", || clippy(&["--workspace", "--all-targets"])),
    ("reference", || doc::build_reference(&[])),
];

/// The checks that compile the dependencies again, with other features, versions or profiles, or
/// install a program from its source.
const WEEKLY: &[Step] = &[
    ("features", lint_features),
    ("fuzz targets", fuzz::check),
    ("packages", package_crates),
    ("minimal versions", || minimal_versions::run(&[])),
    ("book", || doc::build_book(&[])),
    ("dependencies", check_dependencies),
    ("counts", bench::check),
    ("sizes", || size::run(&["--check".to_owned()])),
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    match flags[..] {
        [] => run_steps(CHECKS).and_then(|()| test::run(&[])),
        ["--checks"] => run_steps(CHECKS),
        ["--counts"] => bench::check(),
        ["--weekly"] => run_steps(WEEKLY),
        _ => Err(Failure::usage("`ci` takes `--checks`, `--counts`, `--weekly` or nothing")),
    }
}

/// Runs all `steps`, and prints the time of each. Fails with the names of the steps that failed.
fn run_steps(steps: &[Step]) -> Result<(), Failure> {
    let (mut times, mut failed) = (Vec::new(), Vec::new());
    for (name, step) in steps {
        let start = Instant::now();
        if let Err(failure) = step() {
            announce(&format!("{name}: {failure}"));
            failed.push(*name);
        }
        times.push(format!("{name} {} s", start.elapsed().as_secs()));
    }
    announce(&format!("time: {}", times.join(", ")));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::message(format!("failed: {}", failed.join(", ")))),
    }
}

fn check_format() -> Result<(), Failure> {
    run_command(&mut cargo_command(&["fmt", "--all", "--check"]))
}

/// Checks the licenses and the sources of dependencies, rejects banned crates, and warns about
/// duplicate crates. `langchain-rust` depends on banned crates, so it is excluded from the check of
/// crates. Security advisories are checked in the workflow `.github/workflows/dependencies.yml`,
/// because their database must be downloaded.
fn check_dependencies() -> Result<(), Failure> {
    announce(
        "note: security advisories are not checked here: `cargo deny check advisories` fetches their database",
    );
    let deny = CARGO_DENY.ensure_installed()?;
    let check = |arguments: &[&str]| {
        run_command(command_in_root(&deny).args(["--locked", "--offline"]).args(arguments))
    };
    check(&["check", "licenses", "sources"])?;
    check(&["--exclude", "langchain-rust", "check", "bans"])
}

fn clippy(scope: &[&str]) -> Result<(), Failure> {
    run_command(cargo_command(&["clippy", "--locked"]).args(scope).args(["--", "-D", "warnings"]))
}

/// Runs clippy on each published crate that has default features, with these features disabled. If
/// there are several, also runs it with each of them alone.
fn lint_features() -> Result<(), Failure> {
    for package in Workspace::load()?.published() {
        let Some(defaults) = package.features.get("default") else { continue };
        let bare = ["--package", &package.name, "--no-default-features"];
        clippy(&bare)?;
        if let [_, _, ..] = defaults[..] {
            for feature in defaults {
                clippy(&[&bare[..], &["--features", feature]].concat())?;
            }
        }
    }
    Ok(())
}

/// Packages each published crate. The packages are not built, because these builds take as long as
/// all other checks combined and would find little. Clippy has checked the same sources, and `tidy`
/// rejects files that are included from outside their package.
fn package_crates() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut command = cargo_command(&["package", "--locked", "--no-verify", "--allow-dirty"]);
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    run_command(&mut command)
}
