//! The processes of a server, and their limits. The process group is terminated when its owner
//! drops it, exits or crashes.

mod limits;
mod stderr;

use std::{env, io, path::Path, process::ExitStatus, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use crate::StdioServer;
pub use limits::ProcessLimits;
pub(crate) use stderr::StderrTail;

/// The maximum time to wait for the exit of a server. It applies after the standard input of the
/// server is closed, and again after `SIGTERM`.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// The shell script of the watchdog process. When the standard input of the watchdog closes, the
/// script terminates the process group.
///
/// The standard input closes when the owner drops the [`ProcessGroup`], exits, panics or is killed.
/// The watchdog is the leader of the group, so the group id cannot be reused before the watchdog is
/// reaped, even if the server exited long ago. The script ignores `SIGTERM`, because it sends this
/// signal to its own group.
const WATCHDOG_SCRIPT: &str = "trap '' TERM INT HUP; read -r _; sleep 1; kill -TERM 0; sleep 1; kill -KILL 0";

/// A server process and its descendants. Dropping the group terminates them.
///
/// Processes that leave the group with `setsid` are not terminated.
pub(crate) struct ProcessGroup {
    watchdog: Child,
    server: Child,
    id: Pid,
    is_reaped: bool,
    /// The working directory of the server, if it is temporary. It is deleted with the group.
    _temporary_cwd: Option<TempDir>,
}

/// The standard streams of a server process.
pub(crate) struct StdioStreams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: StderrTail,
}

impl ProcessGroup {
    pub(crate) fn spawn(server: &StdioServer) -> io::Result<(Self, StdioStreams)> {
        let temporary_cwd = server.has_temporary_cwd().then(tempfile::tempdir).transpose()?;
        let mut command = build_command(server, temporary_cwd.as_ref().map(TempDir::path))?;
        let (watchdog, id) = spawn_watchdog()?;
        let mut server = command.process_group(id.as_raw_nonzero().get()).spawn()?;
        let streams = (server.stdin.take(), server.stdout.take(), server.stderr.take());
        let group = Self { watchdog, server, id, is_reaped: false, _temporary_cwd: temporary_cwd };
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(io::Error::other("the server has no standard streams"));
        };
        Ok((group, StdioStreams { stdin, stdout, stderr: StderrTail::start_reading(stderr) }))
    }

    /// Waits until the server process exits.
    pub(crate) async fn wait_for_exit(&mut self) -> io::Result<ExitStatus> {
        self.server.wait().await
    }

    /// Terminates all processes of the group.
    ///
    /// Waits up to one second for the server to exit. If the server is still running, sends
    /// `SIGTERM` to the group and waits for another second. Finally, sends `SIGKILL` to all
    /// remaining processes of the group.
    ///
    /// The caller must close the standard input of the server first.
    pub(crate) async fn terminate(mut self) {
        if timeout(EXIT_GRACE, self.server.wait()).await.is_err() {
            self.send_signal(Signal::TERM);
            let _ = timeout(EXIT_GRACE, self.server.wait()).await;
        }
        self.send_signal(Signal::KILL);
        let _ = self.server.wait().await;
        self.is_reaped = true;
        let _ = self.watchdog.wait().await;
        // The killed descendants of the server disappear only when init reaps them.
        let exited = async {
            while test_kill_process_group(self.id).is_ok() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = timeout(EXIT_GRACE, exited).await;
    }

    fn send_signal(&self, signal: Signal) {
        // An error means that no process of the group is left.
        let _ = kill_process_group(self.id, signal);
    }
}

/// Sends `SIGTERM` to the group. The drop also closes the standard input of the watchdog, which
/// sends `SIGKILL` to the group two seconds later.
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // After the watchdog is reaped, the system can assign the group id to an unrelated group.
        if !self.is_reaped {
            self.send_signal(Signal::TERM);
        }
    }
}

fn spawn_watchdog() -> io::Result<(Child, Pid)> {
    let watchdog = Command::new("/bin/sh")
        .args(["-c", WATCHDOG_SCRIPT])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let id = watchdog.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    Ok((watchdog, id.ok_or_else(|| io::Error::other("the watchdog has no process id"))?))
}

fn build_command(server: &StdioServer, temporary_cwd: Option<&Path>) -> io::Result<Command> {
    let environment = server.environment(|name| env::var_os(name));
    let cwd = match (&server.cwd, temporary_cwd) {
        (Some(cwd), _) => env::current_dir()?.join(cwd),
        (None, Some(cwd)) => cwd.to_owned(),
        (None, None) => env::current_dir()?,
    };
    if !cwd.is_dir() {
        return Err(not_found(format!("no directory {}", cwd.display())));
    }
    let program = which::which_in(&server.command, environment.get("PATH"), &cwd).map_err(|_| {
        let is_path = Path::new(&server.command).components().count() > 1;
        let location = if is_path { "" } else { " in PATH" };
        not_found(format!("no executable {:?}{location}", server.command))
    })?;
    let mut command = match &server.limits {
        Some(limits) => limits.command(&program),
        None => Command::new(program),
    };
    command.args(&server.args).env_clear().envs(&environment).current_dir(cwd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn not_found(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, reason)
}
