//! Runs child processes. They start in the root of the repository, and [`run`] prints their command
//! lines.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::workspace;

/// Prints a progress message to standard error, because standard output contains only results.
pub(crate) fn announce(message: &str) {
    eprintln!("==> {message}");
}

/// Creates a command that runs the program `name` in the root of the repository.
pub(crate) fn command_in_root(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace::root());
    command
}

/// Creates a command that runs cargo with `arguments`. It uses the same cargo as the running `cargo
/// xtask` command.
pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = command_in_root(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Prints the command line of `command`, runs it and waits for its exit. Returns an error if the
/// command fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = command_line(command);
    announce(&line);
    let status =
        command.status().map_err(|error| Failure::message(format!("cannot start `{line}`: {error}")))?;
    if status.success() {
        return Ok(());
    }
    // A process killed by a signal has no exit code, so 1 is used.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure::ProgramExit { line, code })
}

/// Runs `command` without input and discards its output. Returns `true` if it exits successfully,
/// or `false` if it fails or cannot be started.
pub(crate) fn run_succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Formats `command` as a user would type it in a shell. The program is shown by its file name,
/// without its folder.
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
