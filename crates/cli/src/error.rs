//! The error of a `haft` command, with a message and an exit code.

use std::{error::Error, io, process::ExitCode};

use anstyle::{AnsiColor, Style};
use haft_core::text::ErrorChain;
use serde_json::json;

use crate::terminal::{self, paint, remove_control_chars};

const ERROR_STYLE: Style = AnsiColor::Red.on_default().bold();

/// An error that ends a `haft` command. Its kind determines the exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: CliErrorKind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CliErrorKind {
    /// A failure while the command runs. Exit code 1.
    Failed,
    /// Invalid usage, for example an unknown name in `--tools`. Exit code 2.
    Usage,
    /// Standard output is a closed pipe, for example after `haft tools | head -1`. Exit code 1. No
    /// message is written.
    BrokenPipe,
}

impl CliError {
    /// Creates an error with exit code 1. The message should include a remedy.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: CliErrorKind::Failed, message: message.into() }
    }

    /// Creates an error with exit code 2, for invalid usage.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: CliErrorKind::Usage, message: message.into() }
    }

    /// Converts an error of the command line parser to an error with exit code 2.
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let message = error.render().to_string();
        Self::usage(message.trim_end().strip_prefix("error: ").unwrap_or(&message).trim_end())
    }

    /// Creates an error with exit code 1. Its message contains the messages of `error` and of all
    /// its sources.
    pub(crate) fn from_error(error: &(dyn Error + 'static)) -> Self {
        Self::new(ErrorChain(error).to_string())
    }

    /// Appends `remedy` to the message, on a new line. `None` leaves the message unchanged.
    pub(crate) fn with_remedy(mut self, remedy: Option<&str>) -> Self {
        if let Some(remedy) = remedy {
            self.message = format!("{}\n{remedy}", self.message);
        }
        self
    }

    /// Writes the message to standard error and returns the exit code. If `json` is `true`, also
    /// writes the error to standard output, as one line of JSON. Writes nothing if the error is a
    /// closed pipe.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let code: u8 = if self.kind == CliErrorKind::Usage { 2 } else { 1 };
        if self.kind != CliErrorKind::BrokenPipe {
            // The message may contain text from a server, a model or a file.
            let message = remove_control_chars(&self.message);
            let _ = terminal::write_error(&format!("{} {message}\n", paint(ERROR_STYLE, "error:")));
            if json {
                let line = json!({ "type": "error", "exit_code": code, "message": self.message });
                let _ = terminal::write_json(&line.to_string());
            }
        }
        ExitCode::from(code)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { kind: CliErrorKind::BrokenPipe, message: error.to_string() },
            _ => Self::from_error(&error),
        }
    }
}
