//! The program `haft`, from outside: what it writes, and its exit codes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod call;
mod child;
mod faults;
#[cfg(feature = "local")]
mod hub;
mod interrupt;
#[cfg(feature = "local")]
mod model;
mod run;
mod tools;

use std::{
    ffi::OsStr,
    process::{Command, Output},
};

use serde_json::Value;

/// `haft`, without what the user of this machine has set.
fn haft<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.args(arguments);
    for variable in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "HAFT_MODEL", "HAFT_CACHE", "HAFT_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// What a program wrote, and how it ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(mut command: Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Standard output, each line of which is JSON.
    fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Checks that it failed so, and what it told people.
    fn assert_failed(&self, code: i32, message: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.contains(message), "{}", self.stderr);
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
