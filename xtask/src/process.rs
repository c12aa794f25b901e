//! Starting other programs, always in the root of the repository and never in silence.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::workspace;

/// Says on standard error what is about to happen, so that standard output holds answers only.
pub(crate) fn announce(what: &str) {
    eprintln!("==> {what}");
}

/// Makes a command that will run in the root of the repository.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace::root());
    command
}

/// Makes a command of the cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Shows the command line, runs it and waits for its end.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = command_line(command);
    announce(&line);
    let status =
        command.status().map_err(|error| Failure::message(format!("cannot start `{line}`: {error}")))?;
    if status.success() {
        return Ok(());
    }
    // A program killed by a signal has no code of its own.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure::Program { line, code })
}

/// Tells whether the command can be started and ends well; what it prints is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it: `cargo` for whatever path it has.
pub(crate) fn command_line(command: &Command) -> String {
    let name = std::path::Path::new(command.get_program());
    let name = name.file_name().unwrap_or(name.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            if word.contains(char::is_whitespace) { format!("{word:?}") } else { word.into_owned() }
        })
        .collect::<Vec<_>>()
        .join(" ")
}
