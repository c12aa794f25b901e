//! A home folder for `haft` and its peers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Peers;
use super::child::{Finished, POLL_INTERVAL, Running};
use crate::failure::Failure;

/// The time in which the servers end after the command that has started them.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// A home folder, with the configuration of `haft` and the files of its peers. On drop, all
/// processes with this home folder are killed, and the folder is deleted.
pub(super) struct Home<'a> {
    pub(super) peers: &'a Peers,
    pub(super) folder: PathBuf,
}

impl<'a> Home<'a> {
    pub(super) fn new(peers: &'a Peers, name: &str) -> Result<Self, Failure> {
        let folder = peers.homes.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::message(format!("cannot create {}: {error}", folder.display())))?;
        Ok(Self { peers, folder })
    }

    /// Creates a command with this home folder, in the folder of the npm packages. It gets no other
    /// variables of the caller: a key or a proxy would change the behaviour of `haft`.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.peers.npm).env_clear();
        command.env("HOME", &self.folder).env("PATH", &self.peers.path).stdin(Stdio::null());
        command
    }

    /// Creates a command that runs `haft` with `arguments`.
    pub(super) fn haft<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(&self.peers.haft);
        command.args(arguments);
        command
    }

    /// Runs `command`, and fails unless its servers have ended afterwards.
    pub(super) fn run(&self, mut command: Command) -> Result<Finished, Failure> {
        let finished = Running::start(&mut command)?.finish()?;
        self.expect_no_process(&finished.line)?;
        Ok(finished)
    }

    /// Runs `haft` with `arguments` like [`run`](Self::run).
    pub(super) fn run_haft<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Finished, Failure> {
        self.run(self.haft(arguments))
    }

    /// Fails if a process with this home folder is still running after [`EXIT_TIMEOUT`].
    pub(super) fn expect_no_process(&self, line: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let names: Vec<_> = processes.into_iter().map(|(_, name)| name).collect();
                return Err(Failure::message(format!("`{line}` left processes: {}", names.join(", "))));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the ids and the command lines of the processes with this home folder. Only Linux
    /// shows the environment of a process; elsewhere, the list is empty.
    fn processes(&self) -> Vec<(String, String)> {
        let variable = format!("HOME={}", self.folder.display());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
        });
        processes
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), command_of(&entry.path())))
            .collect()
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        for (id, _) in self.processes() {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the command line of a process in the folder `/proc`.
fn command_of(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}
