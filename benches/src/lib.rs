//! A harness for benches, which measures times and counts instructions.
//!
//! A bench is a list of [`Case`]s. A case can have a baseline: another case to compare with, such
//! as a case that does the same work by hand. A case and its baseline are measured in the same run,
//! so a slow or busy machine affects both. Instructions are counted by callgrind. The counts vary
//! little between runs, so `--check` compares them with the counts of the baselines.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a benchmark program")]

mod case;
mod counts;
mod instructions;
mod memory;
pub mod mock;
mod model_server;
mod table;
mod time;

use std::{env, process::ExitCode};

pub use case::{Case, Work, asynchronous};
pub use memory::{peak_memory, peak_memory_of};
pub use model_server::{ModelServer, REPLIES_PER_RUN};

/// The parsed command line of a bench.
struct Options {
    /// The part of a name that selects the cases. With `--count`, the full name of one case.
    filter: String,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Measures the times and counts the instructions of the cases, and prints a table.
    Measure,
    /// Compares the ratios of the instruction counts to their baselines with the maximum ratios.
    Check,
    /// Executes one case under callgrind.
    Count,
}

/// Executes the task on the command line with the cases of the bench named `bench`.
pub fn run(bench: &str, cases: &[Case]) -> ExitCode {
    match parse_options(env::args().skip(1)).and_then(|options| execute(bench, cases, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { filter: String::new(), task: Task::Measure };
    for argument in arguments {
        match argument.as_str() {
            // Cargo passes `--bench` to every bench, so it is ignored.
            "--bench" => {}
            "--check" => options.task = Task::Check,
            instructions::COUNT_FLAG => options.task = Task::Count,
            _ if argument.starts_with('-') => {
                return Err(format!("a bench takes `--check` or a part of a name, not `{argument}`"));
            }
            _ => options.filter = argument,
        }
    }
    Ok(options)
}

fn execute(bench: &str, cases: &[Case], options: &Options) -> Result<(), String> {
    if options.task == Task::Count {
        let case = cases.iter().find(|case| case.name == options.filter);
        case.ok_or("there is no such case")?.run_for_callgrind();
        return Ok(());
    }
    let chosen: Vec<_> = cases.iter().filter(|case| case.name.contains(&options.filter)).collect();
    match options.task {
        Task::Check => counts::check(bench, &chosen),
        Task::Measure | Task::Count => table::measure_and_print(bench, &chosen),
    }
}
