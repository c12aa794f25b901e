//! What ends a command early, and the exit code that it ends with.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense. The usage is shown with it.
    Usage(String),
    /// A program that we started failed, and has said why itself.
    Program { line: String, code: u8 },
    /// Anything else, in words that say what to do.
    Message(String),
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// Is 2 for wrong usage, a failed program's own code, and 1 otherwise.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Program { code, .. } => ExitCode::from(*code),
            Self::Message(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Message(text) => f.write_str(text),
            Self::Program { line, code } => write!(f, "`{line}` ended with exit code {code}"),
        }
    }
}
