//! The errors of `cargo xtask` commands, with their exit codes.

use std::fmt;
use std::process::ExitCode;

/// The error of a `cargo xtask` command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid. The usage text is printed after the error.
    Usage(String),
    /// A child process failed and has already printed its own error. `line` is its command line,
    /// and `code` is its exit code.
    ProgramExit { line: String, code: u8 },
    /// Any other error. Contains the message.
    Message(String),
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// Returns the exit code: 2 for invalid usage, the exit code of a failed child process, or 1
    /// for any other error.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::ProgramExit { code, .. } => ExitCode::from(*code),
            Self::Message(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Message(text) => f.write_str(text),
            Self::ProgramExit { line, code } => write!(f, "`{line}` exited with code {code}"),
        }
    }
}
