//! A child process, with deadlines for its output and its end.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::process::{command_line, run_succeeds};

/// The maximum duration of a command, and of the start of a server.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum duration of the output after the end of the process.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two checks of a process.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running process. It is killed on drop.
pub(super) struct Running {
    line: String,
    child: Child,
    /// The lines of standard output and standard error.
    lines: Receiver<String>,
    output: String,
}

/// The output and the exit code of a process that has ended.
pub(super) struct Finished {
    pub(super) line: String,
    /// `None` for a signal, also after [`TIMEOUT`].
    code: Option<i32>,
    output: String,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        let line = command_line(command);
        let failed = |error: io::Error| Failure::message(format!("cannot run `{line}`: {error}"));
        let (reader, writer) = io::pipe().map_err(failed)?;
        let child = command.stdout(writer.try_clone().map_err(failed)?).stderr(writer).spawn();
        // The output ends with the process: `command` has the other copies of the writer.
        command.stdout(io::stderr()).stderr(io::stderr());
        let child = child.map_err(failed)?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                // The receiver is gone after the end of the process.
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        Ok(Self { line, child, lines, output: String::new() })
    }

    /// Returns the next line of output that contains `text`.
    pub(super) fn line_with(&mut self, text: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.next_line(deadline) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(_) => {}
                Err(_) => {
                    let message = format!("`{}` has not written {text:?}:\n{}", self.line, self.output);
                    return Err(Failure::message(message));
                }
            }
        }
    }

    /// Returns the URL in the next line of output that contains one.
    pub(super) fn url(&mut self) -> Result<String, Failure> {
        let line = self.line_with("http://")?;
        let url = line.find("http://").and_then(|start| line.get(start..)).unwrap_or_default();
        Ok(url.split_whitespace().next().unwrap_or_default().to_owned())
    }

    /// Interrupts the process, as Ctrl-C does.
    pub(super) fn interrupt(&self) -> Result<(), Failure> {
        let is_sent = run_succeeds(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let failed = || Failure::message(format!("cannot interrupt `{}`", self.line));
        is_sent.then_some(()).ok_or_else(failed)
    }

    /// Waits for the end of the process. Kills it after [`TIMEOUT`].
    pub(super) fn finish(mut self) -> Result<Finished, Failure> {
        let failed = |error| Failure::message(format!("cannot wait for `{}`: {error}", self.line));
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().map_err(failed)?;
            }
            thread::sleep(POLL_INTERVAL);
        };
        let deadline = Instant::now() + OUTPUT_TIMEOUT;
        while self.next_line(deadline).is_ok() {}
        let (line, output) = (std::mem::take(&mut self.line), std::mem::take(&mut self.output));
        Ok(Finished { line, code: status.code(), output })
    }

    fn next_line(&mut self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
        self.output.push_str(&line);
        self.output.push('\n');
        Ok(line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Fails unless the exit code is `code` and the output contains `text`.
    pub(super) fn expect(&self, code: i32, text: &str) -> Result<(), Failure> {
        if self.code == Some(code) && self.output.contains(text) {
            return Ok(());
        }
        Err(self.failure(&format!("exit code {code} and {text:?}")))
    }

    /// Fails unless the exit code is 0 and there is no output: the SDKs log warnings.
    pub(super) fn expect_no_output(&self) -> Result<(), Failure> {
        if self.code == Some(0) && self.output.trim().is_empty() {
            return Ok(());
        }
        Err(self.failure("exit code 0 and no output"))
    }

    fn failure(&self, expected: &str) -> Failure {
        let no_code = || format!("a signal, or no exit in {} s", TIMEOUT.as_secs());
        let found = self.code.map_or_else(no_code, |code| format!("exit code {code}"));
        Failure::message(format!("`{}`: expected {expected}, found {found}:\n{}", self.line, self.output))
    }
}
