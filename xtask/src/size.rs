//! The command `cargo xtask size`: measures the number of third-party crates, the CPU time of cold
//! builds, and the sizes of programs, and compares them with their bounds.

mod cpu_time;
mod measure;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::native_build;
use crate::process::{announce, cargo_command, run as run_command};
use crate::workspace::Workspace;
use cpu_time::CpuClock;
use table::{Bound, Row};

/// The maximum number of third-party crates that `haft-core` depends on.
const MAX_CORE_CRATES: f64 = 100.0;
/// The maximum number of third-party crates that core, react and openai depend on.
const MAX_AGENT_CRATES: f64 = 150.0;
/// The maximum CPU time of a cold build for `cargo xtask demo` in the profile `quick`, in minutes.
const MAX_DEMO_MINUTES: f64 = 12.0;
/// The maximum size of the program `haft` in the profile `quick`, in megabytes.
const MAX_QUICK_HAFT_MEGABYTES: f64 = 33.0;
/// The maximum CPU time of a cold release build of core, react and openai, in minutes.
const MAX_AGENT_MINUTES: f64 = 7.0;
/// The maximum CPU time of a cold release build of the program `haft`, in minutes.
const MAX_HAFT_MINUTES: f64 = 20.0;
/// The maximum size of the program `haft` in a release build, in megabytes.
const MAX_HAFT_MEGABYTES: f64 = 40.0;

const CORE_PACKAGES: &[&str] = &["haft-core"];
const AGENT_PACKAGES: &[&str] = &["haft-core", "haft-react", "haft-openai"];
const HAFT_PACKAGES: &[&str] = &["haft-cli"];
const DEMO_PROGRAM: &str = "mixed-tools";
const HAFT_PROGRAM: &str = "haft";
const CPU_MINUTES: &str = "CPU min";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (mut is_quick, mut is_check) = (false, false);
    for argument in arguments {
        match argument.as_str() {
            "--quick" => is_quick = true,
            "--check" => is_check = true,
            _ => return Err(Failure::usage("`size` takes `--quick`, `--check` or both")),
        }
    }
    let workspace = Workspace::load()?;
    let mut rows = crate_rows(&workspace)?;
    if !is_quick {
        rows.extend(measure_cold_builds(&workspace)?);
    }
    print!("{}", table::render(&rows));
    let over: Vec<_> = rows.iter().filter(|row| row.exceeds_bound()).map(|row| row.name.clone()).collect();
    if is_check && !over.is_empty() {
        return Err(Failure::message(format!("over the bound: {}", over.join("; "))));
    }
    Ok(())
}

/// Checks all bounds except those that require cold builds, because cold builds take minutes.
pub(crate) fn check() -> Result<(), Failure> {
    run(&["--quick", "--check"].map(str::to_owned))
}

/// Counts the third-party crates of the core, of an agent program, of the demo and of `haft`.
/// Returns a table row for each of them.
fn crate_rows(workspace: &Workspace) -> Result<Vec<Row>, Failure> {
    let row = |name: &str, packages: &[&str], bound| -> Result<Row, Failure> {
        let count = measure::count_crates(packages)?;
        Ok(Row { name: format!("crates: {name}"), value: f64::from(count), unit: "", bound })
    };
    let demo = workspace.package_of_program(DEMO_PROGRAM).map_or(DEMO_PROGRAM, |package| &package.name);
    let haft = workspace.package_of_program(HAFT_PROGRAM).map_or(HAFT_PROGRAM, |package| &package.name);
    Ok(vec![
        row("core", CORE_PACKAGES, Bound::AtMost(MAX_CORE_CRATES))?,
        row("core + react + openai", AGENT_PACKAGES, Bound::AtMost(MAX_AGENT_CRATES))?,
        row("demo", &[demo], Bound::None)?,
        row("haft", &[haft], Bound::None)?,
    ])
}

/// Measures cold builds in the profile `quick`, which `cargo xtask` uses, and in cargo's profile
/// `release`, which users get. Returns rows with the CPU times of the builds and the sizes of the
/// programs.
fn measure_cold_builds(workspace: &Workspace) -> Result<Vec<Row>, Failure> {
    let folder = workspace.target_directory.join("size");
    let mut rows = measure_quick_builds(workspace, &folder.join("demo"))?;
    rows.extend(measure_release_builds(&folder)?);
    if rows.iter().all(|row| row.unit != CPU_MINUTES) {
        announce("note: CPU time is not measured: this system has no /proc");
    }
    Ok(rows)
}

/// Builds the demo in the empty folder `target`, and then the program `haft` in the same folder.
fn measure_quick_builds(workspace: &Workspace, target: &Path) -> Result<Vec<Row>, Failure> {
    recreate_folder(target)?;
    // The measurement includes xtask, because `cargo xtask demo` compiles xtask first.
    let mut xtask = cargo_command(&["build", "--locked", "--package", "xtask"]);
    let demo = native_build::build_command(workspace, DEMO_PROGRAM, target)?;
    let haft = native_build::build_command(workspace, HAFT_PROGRAM, target)?;
    xtask.env("CARGO_TARGET_DIR", target);
    let programs = target.join(native_build::PROFILE);
    let rows = [
        timed_builds("cargo xtask demo, quick", [xtask, demo], Bound::AtMost(MAX_DEMO_MINUTES))?,
        timed_builds("haft after the demo, quick", [haft], Bound::None)?,
        program_size(&programs, DEMO_PROGRAM, "quick", Bound::None),
        program_size(&programs, HAFT_PROGRAM, "quick", Bound::AtMost(MAX_QUICK_HAFT_MEGABYTES)),
    ];
    Ok(rows.into_iter().flatten().collect())
}

/// Builds the libraries of an agent program and the program `haft`, each in an empty subfolder of
/// `folder`.
fn measure_release_builds(folder: &Path) -> Result<Vec<Row>, Failure> {
    let build = |packages: &[&str], target: &Path| {
        let mut build = cargo_command(&["build", "--locked", "--release"]);
        for package in packages {
            build.args(["--package", package]);
        }
        build.env("CARGO_TARGET_DIR", target);
        build
    };
    let (agent, haft) = (folder.join("agent"), folder.join("haft"));
    recreate_folder(&agent)?;
    recreate_folder(&haft)?;
    let rows = [
        timed_builds(
            "core + react + openai, release",
            [build(AGENT_PACKAGES, &agent)],
            Bound::AtMost(MAX_AGENT_MINUTES),
        )?,
        timed_builds("haft, release", [build(HAFT_PACKAGES, &haft)], Bound::AtMost(MAX_HAFT_MINUTES))?,
        program_size(&haft.join("release"), HAFT_PROGRAM, "release", Bound::AtMost(MAX_HAFT_MEGABYTES)),
    ];
    Ok(rows.into_iter().flatten().collect())
}

/// Runs `builds` and returns a row with their CPU time. Returns `None` on a system without `/proc`.
fn timed_builds(
    name: &str,
    builds: impl IntoIterator<Item = Command>,
    bound: Bound,
) -> Result<Option<Row>, Failure> {
    let clock = CpuClock::start();
    for mut build in builds {
        run_command(&mut build)?;
    }
    let name = format!("cold build: {name}");
    Ok(clock.minutes().map(|value| Row { name, value, unit: CPU_MINUTES, bound }))
}

/// Returns a row with the size of the program `name` in `folder`.
fn program_size(folder: &Path, name: &str, profile: &str, bound: Bound) -> Option<Row> {
    let value = measure::file_megabytes(&folder.join(name))?;
    Some(Row { name: format!("program: {name}, {profile}"), value, unit: "MB", bound })
}

/// Creates the folder `folder`. Deletes the contents of an existing folder.
fn recreate_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::message(format!("cannot empty {}: {error}", folder.display()));
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}
