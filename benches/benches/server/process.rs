//! A server in a process of its own.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use haft_benches::peak_memory_of;
use rustix::{
    param::clock_ticks_per_second,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{
    Failure, SERVE,
    serve::{MISSING, Mode},
};

/// A running server. It is killed on drop.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Process {
    /// Starts a server. Returns `None` if its store is not installed.
    pub(crate) fn try_start(mode: Mode, folder: &Path, latency: Duration) -> Result<Option<Self>, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(SERVE).arg(mode.to_string()).arg(folder).arg(latency.as_millis().to_string());
        // PostgreSQL writes to the disk before it answers, like SQLite.
        command.env("HAFT_POSTGRES_FSYNC", "on");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let mut server = Self { child, output: BufReader::new(output), address: String::new() };
        server.address = server.read_line()?;
        match server.address.as_str() {
            "" => Err(format!("the server `{mode}` does not start").into()),
            MISSING => Ok(None),
            _ => Ok(Some(server)),
        }
    }

    /// Starts a server without a latency of its model, whose store is installed.
    pub(crate) fn start(mode: Mode, folder: &Path) -> Result<Self, Failure> {
        let server = Self::try_start(mode, folder, Duration::ZERO)?;
        server.ok_or_else(|| format!("`{mode}` is not installed").into())
    }

    fn read_line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Returns the peak memory in MiB.
    pub(crate) fn peak_memory(&self) -> Result<f64, Failure> {
        let memory = peak_memory_of(self.child.id());
        memory.ok_or_else(|| "this system does not report the memory of a process".into())
    }

    /// Returns the processor time, of the kernel too.
    pub(crate) fn processor_time(&self) -> Result<Duration, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses can contain spaces. `utime` and `stime` are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
        Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
    }

    /// Starts the shutdown.
    pub(crate) fn begin_shutdown(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Shuts down. Returns the number of requests that reached the model.
    pub(crate) fn stop(mut self) -> Result<u64, Failure> {
        self.begin_shutdown();
        let requests = self.read_line()?;
        self.child.wait()?;
        requests.parse().map_err(|_| "the server ended with a failure".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises the limit of open files of this process to its maximum.
pub(crate) fn allow_many_files() -> Result<(), Failure> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
