//! Measures what haft costs: in time, and in instructions, which are the same on every run.
//!
//! A bench is a list of [`Case`]s. Time is read against a floor, which is the same work by hand in the same run: a
//! slow or busy machine slows both. Instructions are counted by valgrind's callgrind, and held against `counts.json`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench speaks to people")]

mod case;
mod counts;
mod instructions;
pub mod mock;
mod model_server;
mod table;
mod time;

use std::{env, process::ExitCode};

pub use case::{Case, Work, asynchronous};
pub use model_server::{ModelServer, STEPS};

/// What is asked of a bench.
struct Order {
    /// Cases whose name has this in it.
    filter: String,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Measure time and instructions.
    Show,
    /// Hold the instructions against those that were written down.
    Check,
    /// Write the instructions down.
    Update,
    /// Run one case for callgrind, which watches.
    Count,
}

/// Runs the bench of this name by what the command line asks for.
pub fn run(bench: &str, cases: &[Case]) -> ExitCode {
    match order(env::args().skip(1)).and_then(|order| carry_out(bench, cases, &order)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn order(arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let mut order = Order { filter: String::new(), task: Task::Show };
    for argument in arguments {
        match argument.as_str() {
            // Cargo says so to every bench.
            "--bench" => {}
            "--check" => order.task = Task::Check,
            "--update" => order.task = Task::Update,
            instructions::COUNT => order.task = Task::Count,
            _ if argument.starts_with('-') => {
                return Err(format!(
                    "a bench takes `--check`, `--update` and a part of a name, not `{argument}`"
                ));
            }
            _ => order.filter = argument,
        }
    }
    Ok(order)
}

fn carry_out(bench: &str, cases: &[Case], order: &Order) -> Result<(), String> {
    if order.task == Task::Count {
        let case = cases.iter().find(|case| case.name == order.filter);
        case.ok_or("there is no such case")?.run_for_callgrind();
        return Ok(());
    }
    let chosen: Vec<_> = cases.iter().filter(|case| case.name.contains(&order.filter)).collect();
    match order.task {
        Task::Check => counts::check(bench, &chosen),
        Task::Update => counts::update(bench, &chosen),
        Task::Show | Task::Count => table::print(bench, &chosen),
    }
}
