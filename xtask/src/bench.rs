//! The command `cargo xtask bench`: measures the time, the instructions and the memory that haft
//! needs.

use std::{env, fs};

use crate::eval;
use crate::failure::Failure;
use crate::process::{cargo_command, run as run_command};
use crate::setup::{SystemPackages, VALGRIND};
use crate::workspace;

const PACKAGE: &str = "haft-benches";

/// The benches whose instruction counts are checked weekly. The counts depend on the compiler, but
/// their ratios to the counts of the baselines without haft hardly do.
const INSTRUCTION_BENCHES: [&str; 2] = ["call", "step"];

/// The bench whose peak memory is checked weekly. It runs without valgrind.
const MEMORY_BENCH: &str = "process";

/// The bench of the HTTP server, and the program that sends its requests.
const SERVER_BENCH: &str = "server";
const WRK: SystemPackages = SystemPackages {
    names: &["wrk"],
    check: &["sh", "-c", "command -v wrk"],
    purpose: "the load of `bench server` cannot be measured",
};

/// The environment variable that requires valgrind: if it is set, a missing valgrind is an error.
/// It is set in the weekly workflow.
const REQUIRE_COUNTS_VARIABLE: &str = "HAFT_COUNTS";

/// The comparison of the local model with llama.cpp. It is an option of the program `eval`, because
/// it needs the same models and the same server.
const LOCAL: &str = "local";

/// The comparison of an agent of langchain-rust with an agent of haft. It is a bench of the example
/// with this name, because only this example depends on `langchain-rust`.
const LANGCHAIN: &str = "langchain";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some((LOCAL, rest)) => return eval::run_speed(rest),
        Some((LANGCHAIN, rest)) => {
            let arguments = ["bench", "--locked", "--package", LANGCHAIN, "--bench", "comparison", "--"];
            return run_command(cargo_command(&arguments).args(rest));
        }
        _ => {}
    }
    let known = bench_names()?;
    let (chosen, rest): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| known.contains(argument));
    let chosen = if chosen.is_empty() { known.iter().collect() } else { chosen };
    if cfg!(target_os = "linux") && chosen.iter().any(|name| *name == SERVER_BENCH) {
        WRK.ensure_installed();
    }
    let mut command = cargo_command(&["bench", "--locked", "--package", PACKAGE]);
    for name in chosen {
        command.args(["--bench", name]);
    }
    run_command(command.arg("--").args(rest))
}

/// Checks the peak memory and the instruction counts of the benches. Tries to install valgrind if it
/// is missing. Without valgrind, the instruction counts are not checked, and an error is returned if
/// `HAFT_COUNTS` is set.
pub(crate) fn check() -> Result<(), Failure> {
    let check = "--check".to_owned();
    run(&[MEMORY_BENCH.to_owned(), check.clone()])?;
    VALGRIND.ensure_installed();
    if VALGRIND.is_installed() {
        let names = INSTRUCTION_BENCHES.map(str::to_owned);
        return run(&[names.as_slice(), &[check]].concat());
    }
    if env::var_os(REQUIRE_COUNTS_VARIABLE).is_some() {
        return Err(Failure::message("counting instructions requires valgrind"));
    }
    Ok(())
}

/// Returns the sorted names of the benches: the names of the files, without extension, and of the
/// folders in `benches/benches`.
fn bench_names() -> Result<Vec<String>, Failure> {
    let folder = workspace::root().join("benches/benches");
    let unreadable = |error| Failure::message(format!("cannot read {}: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}
