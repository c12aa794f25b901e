//! Tests of the output and the exit codes of the program `haft`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod call;
mod child;
mod curl;
mod faults;
mod gateway;
#[cfg(feature = "local")]
mod hub;
mod interrupt;
mod mcp;
#[cfg(feature = "local")]
mod model;
mod openapi;
mod run;
mod sessions;
mod telemetry;
mod tools;

use std::{
    ffi::OsStr,
    process::{Command, Output},
};

use serde_json::Value;

/// The environment variables of the caller that would change the behaviour of `haft`.
const CALLER_VARIABLES: [&str; 16] = [
    "HAFT_STORE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "HAFT_MODEL",
    "HAFT_CACHE",
    "HAFT_LOG",
    "HAFT_PREFIX_CACHE_MB",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HUGGING_FACE_HUB_TOKEN",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "XDG_CACHE_HOME",
];

/// Returns a command that runs `haft` with `arguments`, without the [`CALLER_VARIABLES`].
fn haft<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.args(arguments);
    // The servers that the user has configured are not part of the tests.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    for variable in CALLER_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// The output and the exit code of a finished command.
struct CommandOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl CommandOutput {
    fn run(mut command: Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Parses each line of standard output as JSON.
    fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asserts that the exit code is `code` and that standard error contains `message`.
    fn assert_failed(&self, code: i32, message: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.contains(message), "{}", self.stderr);
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
