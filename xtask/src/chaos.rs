//! The command `cargo xtask chaos`: kills a process that drives stored runs, many times, with each
//! kind of store.

use crate::failure::Failure;
use crate::process::{cargo_command, run as run_command};

/// The number of kills without an argument.
const KILLS: &str = "1000";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let kills = match arguments {
        [] => KILLS,
        [kills] if kills.parse::<u32>().is_ok_and(|kills| kills > 0) => kills,
        _ => return Err(Failure::usage("`chaos` takes a number of kills")),
    };
    let test = ["killed_process", "--", "--nocapture"];
    let mut command = cargo_command(&["test", "--locked", "--package", "haft-server", "--test", "it"]);
    run_command(command.args(test).env("HAFT_KILLS", kills))
}
