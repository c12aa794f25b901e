use std::{path::Path, time::Duration};

use tokio::process::Command;

/// Limits for the resources of a server process, and of each of its descendants.
///
/// The system enforces them (`setrlimit`). A process that exceeds the CPU time or writes a file
/// that is too long is killed, and the calls in progress fail with
/// [`ToolError::Unconfirmed`](haft_core::ToolError::Unconfirmed). An allocation or a file
/// descriptor beyond the limits fails in the process.
///
/// The limits do not restrict access to files or to the network.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_mcp::{StdioServer, process::ProcessLimits};
///
/// let limits = ProcessLimits::default()
///     .with_memory_bytes(256 << 20)
///     .with_cpu_time(Duration::from_secs(60));
/// let server = StdioServer::isolated("/usr/local/bin/my-tools").with_limits(limits);
/// assert_eq!(server.limits, Some(limits));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// The maximum CPU time of a process in its whole life, not per call, rounded up to seconds, at
    /// least one. A server that runs for days needs a longer time. Default: ten minutes.
    pub cpu_time: Duration,
    /// The maximum size of the address space of a process, in bytes, rounded up to KiB. It includes
    /// reserved memory, of which Node, Go and Java use many gigabytes. macOS does not enforce it.
    /// Default: 2 GiB.
    pub memory_bytes: u64,
    /// The maximum number of open file descriptors of a process. Default: 256.
    pub open_files: u32,
    /// The maximum length of a file that a process writes, in bytes, rounded up to 512. Default:
    /// 1 GiB.
    pub file_bytes: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            cpu_time: Duration::from_secs(10 * 60),
            memory_bytes: 2 << 30,
            open_files: 256,
            file_bytes: 1 << 30,
        }
    }
}

/// The script that sets the limits in its first four arguments, and then becomes the program in the
/// remaining arguments. The limits are not part of the script, so nothing is quoted.
const SCRIPT: &str =
    r#"ulimit -t "$1" && ulimit -v "$2" && ulimit -n "$3" && ulimit -f "$4" && shift 4 && exec "$@""#;

impl ProcessLimits {
    /// Sets the maximum CPU time of a process.
    #[must_use]
    pub fn with_cpu_time(mut self, time: Duration) -> Self {
        self.cpu_time = time;
        self
    }

    /// Sets the maximum size of the address space of a process, in bytes.
    #[must_use]
    pub fn with_memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the maximum number of open file descriptors of a process.
    #[must_use]
    pub fn with_open_files(mut self, files: u32) -> Self {
        self.open_files = files;
        self
    }

    /// Sets the maximum length of a file that a process writes, in bytes.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = bytes;
        self
    }

    /// Returns a command that runs `program` with these limits.
    pub(super) fn command(&self, program: &Path) -> Command {
        let whole_second = u64::from(self.cpu_time.subsec_nanos() > 0);
        let seconds = self.cpu_time.as_secs().saturating_add(whole_second).max(1);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]);
        command.args([
            seconds.to_string(),
            self.memory_bytes.div_ceil(1024).to_string(),
            self.open_files.to_string(),
            self.file_bytes.div_ceil(512).to_string(),
        ]);
        command.arg(program);
        command
    }
}
