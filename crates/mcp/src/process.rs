//! A server's processes: one group, which ends with its owner.

mod stderr;

use std::{env, io, path::Path, process::ExitStatus, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use crate::StdioServer;
pub(crate) use stderr::StderrTail;

/// How long a server is given to end by itself when its input closes, and again when it is told to end.
const GRACE: Duration = Duration::from_secs(1);

/// Ends its group when its input does: when the owner is done, panics, is killed, or crashes.
///
/// It leads the group, so that the group's id stays taken for as long as this process has not been waited for,
/// also when the server is long gone. It ignores what it tells the others.
const KEEPER: &str = "trap '' TERM INT HUP; read -r _; sleep 1; kill -TERM 0; sleep 1; kill -KILL 0";

/// A server with whatever it starts: a process group that ends when this is dropped.
///
/// A process that leaves the group (`setsid`) is out of reach.
pub(crate) struct Group {
    keeper: Child,
    server: Child,
    id: Pid,
    ended: bool,
}

/// The streams of a server.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: StderrTail,
}

impl Group {
    pub(crate) fn spawn(server: &StdioServer) -> io::Result<(Self, Streams)> {
        let mut command = command(server)?;
        let (keeper, id) = spawn_keeper()?;
        let mut server = command.process_group(id.as_raw_nonzero().get()).spawn()?;
        let streams = (server.stdin.take(), server.stdout.take(), server.stderr.take());
        let group = Self { keeper, server, id, ended: false };
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(io::Error::other("the server has no standard streams"));
        };
        Ok((group, Streams { stdin, stdout, stderr: StderrTail::read(stderr) }))
    }

    /// Waits until the server ends by itself.
    pub(crate) async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.server.wait().await
    }

    /// Ends the group, in peace where that is possible. The server's input must be closed, or close soon.
    pub(crate) async fn end(mut self) {
        if timeout(GRACE, self.server.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = timeout(GRACE, self.server.wait()).await;
        }
        self.signal(Signal::KILL);
        let _ = self.server.wait().await;
        self.ended = true;
        let _ = self.keeper.wait().await;
        // What the server started is reaped by the system, which takes a moment.
        let gone = async {
            while test_kill_process_group(self.id).is_ok() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = timeout(GRACE, gone).await;
    }

    fn signal(&self, signal: Signal) {
        // The group is gone already, or cannot be reached: there is nothing else to be done.
        let _ = kill_process_group(self.id, signal);
    }
}

/// Where nobody can wait, the keeper does the rest: its input closes with this.
impl Drop for Group {
    fn drop(&mut self) {
        // Once the keeper was waited for, the id may be another group's.
        if !self.ended {
            self.signal(Signal::TERM);
        }
    }
}

fn spawn_keeper() -> io::Result<(Child, Pid)> {
    let keeper = Command::new("/bin/sh")
        .args(["-c", KEEPER])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let id = keeper.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    Ok((keeper, id.ok_or_else(|| io::Error::other("a process without an id"))?))
}

fn command(server: &StdioServer) -> io::Result<Command> {
    let path = server.env.get("PATH").map(Into::into).or_else(|| env::var_os("PATH"));
    let cwd = match &server.cwd {
        Some(cwd) => env::current_dir()?.join(cwd),
        None => env::current_dir()?,
    };
    if !cwd.is_dir() {
        return Err(not_found(format!("there is no directory {}", cwd.display())));
    }
    let program = which::which_in(&server.command, path, &cwd).map_err(|_| {
        let place = if Path::new(&server.command).components().count() > 1 { "there" } else { "in PATH" };
        not_found(format!("no executable {:?} {place}", server.command))
    })?;
    let mut command = Command::new(program);
    command.args(&server.args).env_clear().envs(&server.env).current_dir(cwd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn not_found(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, reason)
}
