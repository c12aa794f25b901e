//! The program behind `cargo xtask`: the development tasks of the project, one file per command.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line tool")]

mod bench;
mod cargo_tools;
mod chaos;
mod ci;
mod commands;
mod conformance;
mod demo;
mod doc;
mod eval;
mod example;
mod failure;
mod fuzz;
mod judges;
mod minimal_versions;
mod models;
mod native_build;
mod peers;
mod process;
mod setup;
mod size;
mod test;
mod tidy;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use commands::{COMMANDS, Command};
use failure::Failure;

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            if let Failure::Usage(_) = failure {
                eprint!("\n{}", usage_text());
            }
            failure.exit_code()
        }
    }
}

fn dispatch() -> Result<(), Failure> {
    let arguments = env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|argument| Failure::usage(format!("the argument {argument:?} is not valid Unicode")))?;
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::usage("no command is given"));
    };
    let command = COMMANDS.iter().find(|command| command.name == name);
    let is_help_flag = |word: &String| matches!(word.as_str(), "--help" | "-h");
    let has_own_help = command.is_some_and(|command| command.has_own_help);
    if name == "help" || is_help_flag(name) || !has_own_help && rest.first().is_some_and(is_help_flag) {
        print!("{}", usage_text());
        return Ok(());
    }
    let command = command.ok_or_else(|| Failure::usage(format!("there is no command `{name}`")))?;
    (command.run)(rest)
}

fn usage_text() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n\ncommands:\n");
    for Command { name, arguments, about, .. } in COMMANDS {
        text.push_str(&format!("  {}\n      {about}\n", format!("{name} {arguments}").trim_end()));
    }
    text
}
