//! `cargo xtask …`: every chore of the project. One file a command.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to people")]

mod api;
mod bench;
mod ci;
mod demo;
mod doc;
mod eval;
mod example;
mod failure;
mod fuzz;
mod judges;
mod minimal_versions;
mod native;
mod process;
mod setup;
mod size;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use failure::Failure;

/// One command: how it is called, what it is for, and what runs.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    /// Whether `--help` goes to the program that runs, which has more to say.
    helps_itself: bool,
    run: fn(&[String]) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        arguments: "[QUESTION]",
        about: "ask a real model in this process a question that takes tools of two kinds",
        helps_itself: false,
        run: demo::run,
    },
    Command {
        name: "test",
        arguments: "[ARGUMENTS OF cargo test]…",
        about: "run every test, doctest and example",
        helps_itself: true,
        run: test::run,
    },
    Command {
        name: "ci",
        arguments: "[--checks | --counts]",
        about: "run the checks (format, lints, tidy, documentation, packages), then the tests, then count instructions",
        helps_itself: false,
        run: ci::run,
    },
    Command {
        name: "example",
        arguments: "NAME [ARGUMENTS]…",
        about: "run one of the examples, or list them",
        helps_itself: false,
        run: example::run,
    },
    Command {
        name: "eval",
        arguments: "[ARGUMENTS]…",
        about: "measure how well the local models pick and call tools, in each dialect, beside a plain loop",
        helps_itself: true,
        run: eval::run,
    },
    Command {
        name: "fuzz",
        arguments: "TARGET [--for 1h] [-- OPTIONS OF libFuzzer]…",
        about: "hold what must hold for any input against what a fuzzer makes up",
        helps_itself: false,
        run: fuzz::run,
    },
    Command {
        name: "bench",
        arguments: "[NAME]… [PART OF A CASE'S NAME] [--check | --update]",
        about: "measure what a call, a step and the definitions of tools cost; --check holds the instructions against benches/counts.json",
        helps_itself: false,
        run: bench::run,
    },
    Command {
        name: "size",
        arguments: "[--quick] [--check]",
        about: "count crates, measure cold builds and program sizes; --quick leaves out the builds, --check fails over a bound",
        helps_itself: false,
        run: size::run,
    },
    Command {
        name: "api",
        arguments: "[--update]",
        about: "compare the public API of each library with its snapshot in docs/api; --update accepts the change",
        helps_itself: false,
        run: api::run,
    },
    Command {
        name: "minimal-versions",
        arguments: "",
        about: "check the crates with the oldest dependencies that the manifests allow",
        helps_itself: false,
        run: minimal_versions::run,
    },
    Command {
        name: "setup",
        arguments: "[--model | --eval]",
        about: "install what the chores and the tests need; with --model, also the demo's model and a server for it, with --eval both models",
        helps_itself: false,
        run: setup::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check what the compiler does not: dependency arrows, manifests, sizes, links, book",
        helps_itself: false,
        run: tidy::run,
    },
    Command {
        name: "doc",
        arguments: "[--open]",
        about: "build the reference, warnings denied, and the book, and follow its links",
        helps_itself: false,
        run: doc::run,
    },
];

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            if let Failure::Usage(_) = failure {
                eprint!("\n{}", usage());
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
    let asks_for_help = |word: &String| matches!(word.as_str(), "--help" | "-h");
    let helps_itself = command.is_some_and(|command| command.helps_itself);
    if name == "help" || asks_for_help(name) || !helps_itself && rest.first().is_some_and(asks_for_help) {
        print!("{}", usage());
        return Ok(());
    }
    let command = command.ok_or_else(|| Failure::usage(format!("there is no command `{name}`")))?;
    (command.run)(rest)
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n\ncommands:\n");
    for Command { name, arguments, about, .. } in COMMANDS {
        text.push_str(&format!("  {}\n      {about}\n", format!("{name} {arguments}").trim_end()));
    }
    text
}
