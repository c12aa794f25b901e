//! How a command fails: an exit code and a message that says what to do.

use std::{error::Error, io, process::ExitCode};

use anstyle::{AnsiColor, Style};
use haft_core::text::ErrorChain;
use serde_json::json;

use crate::terminal::{self, paint};

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Why a command has no result.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It was tried.
    Failed,
    /// It makes no sense.
    Usage,
    /// Nobody reads the output any more.
    Unread,
}

impl Failure {
    /// Something went wrong; the message says what to do.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into() }
    }

    /// The command makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    /// The command line cannot be read.
    pub(crate) fn command_line(error: &clap::Error) -> Self {
        let message = error.render().to_string();
        Self::usage(message.trim_end().strip_prefix("error: ").unwrap_or(&message).trim_end())
    }

    /// Something went wrong: the error, and what caused it.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        Self::new(ErrorChain(error).to_string())
    }

    /// Adds what to do about it.
    pub(crate) fn with_advice(mut self, advice: Option<&str>) -> Self {
        if let Some(advice) = advice {
            self.message = format!("{}\n{advice}", self.message);
        }
        self
    }

    /// Tells people, and in JSON as the last line of the output.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let code: u8 = if self.kind == Kind::Usage { 2 } else { 1 };
        if self.kind != Kind::Unread {
            let _ = terminal::write_error(&format!("{} {}\n", paint(ERROR, "error:"), self.message));
            if json {
                let line = json!({ "type": "error", "exit_code": code, "message": self.message });
                let _ = terminal::write_json(&line.to_string());
            }
        }
        ExitCode::from(code)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { kind: Kind::Unread, message: error.to_string() },
            _ => Self::of(&error),
        }
    }
}
