//! Error messages for servers that do not start.

use std::{io, path::Path, process::ExitStatus};

use crate::StdioServer;

/// The exit status of a shell that does not find a program.
const PROGRAM_NOT_FOUND: i32 = 127;
/// Programs that download and start other programs, and what installs them.
const LAUNCHERS: [(&str, &str); 10] = [
    ("npx", "Node.js"),
    ("npm", "Node.js"),
    ("pnpm", "pnpm"),
    ("uvx", "uv"),
    ("uv", "uv"),
    ("pipx", "pipx"),
    ("bunx", "Bun"),
    ("deno", "Deno"),
    ("docker", "Docker"),
    ("podman", "Podman"),
];

/// Returns `true` if `command` is a program that downloads and starts other programs.
pub(crate) fn is_launcher(command: &str) -> bool {
    package_of(command).is_some()
}

/// Returns the name of `command` without its folder, and the package that installs it, if it is a
/// launcher.
fn package_of(command: &str) -> Option<(&str, &'static str)> {
    let program = Path::new(command).file_name()?.to_str()?;
    LAUNCHERS.iter().find(|(launcher, _)| *launcher == program).map(|(_, package)| (program, *package))
}

/// The cause of a failed start.
pub(crate) enum StartFailure {
    /// The process could not be started.
    NotStarted(io::Error),
    /// The server exited during the handshake. `None` if it only closed its standard output.
    Exited(Option<ExitStatus>),
    /// The server rejected the handshake.
    Handshake(String),
    /// The server did not respond before the handshake timeout.
    NoResponse,
}

impl StartFailure {
    /// Returns the error message: the cause, the command, the last lines of standard error, if any,
    /// and a remedy.
    pub(crate) fn message(&self, server: &StdioServer, stderr: &str) -> String {
        let cause = match self {
            Self::NotStarted(error) => format!("cannot start the server: {error}"),
            Self::Exited(status) => exit_text(" during the handshake", *status),
            Self::Handshake(reason) => format!("the handshake failed: {reason}"),
            Self::NoResponse => {
                format!("no response to the handshake within {:?}", server.options.handshake_timeout)
            }
        };
        let text = with_stderr(format!("{cause}\ncommand: {server}"), stderr);
        match self.remedy(server) {
            Some(remedy) => format!("{text}\nremedy: {remedy}"),
            None => text,
        }
    }

    fn remedy(&self, server: &StdioServer) -> Option<String> {
        let run_it = "run the command in a terminal; an MCP server waits there for input";
        Some(match self {
            Self::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => {
                let (program, package) = package_of(&server.command)?;
                format!("install {package}, or set `command` to the path of {program}")
            }
            Self::NotStarted(_) => return None,
            Self::Exited(status) if status.and_then(|status| status.code()) == Some(PROGRAM_NOT_FOUND) => {
                "install the program that the command starts, or add its folder to `PATH` in the server's `env`"
                    .to_owned()
            }
            // The server lacks most variables of a terminal. A launcher may need them to download.
            Self::Exited(_) => format!(
                "{run_it}. If that works, pass the variables that it needs in `env`, for example \
                 `HTTPS_PROXY` or `SSL_CERT_FILE`"
            ),
            Self::Handshake(_) => {
                "check that the command starts an MCP server that uses standard input and output".to_owned()
            }
            Self::NoResponse => {
                format!("{run_it}. If it first downloads packages, run it once before, or raise the timeout")
            }
        })
    }
}

/// Returns an error message about the exit of a server with `status`, or about the end of its
/// output if `status` is `None`. `phase` is inserted into the message. It is empty or a phrase such
/// as ` during the handshake`.
pub(crate) fn exit_text(phase: &str, status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("the server exited{phase} ({status})"),
        None => format!("the server closed its standard output{phase}"),
    }
}

/// Appends the last lines of standard error to `text`, if there are any.
pub(crate) fn with_stderr(text: String, stderr: &str) -> String {
    if stderr.is_empty() { text } else { format!("{text}\nstandard error:\n{stderr}") }
}

#[cfg(test)]
mod tests {
    use std::{io, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

    use super::StartFailure;
    use crate::{ServerOptions, StdioServer};

    #[test]
    fn message_has_cause_command_output_and_remedy() {
        let npx = StdioServer::new("npx").with_args(["-y", "server"]);
        let missing = io::Error::new(io::ErrorKind::NotFound, "no executable \"npx\" in PATH");
        assert_eq!(
            StartFailure::NotStarted(missing).message(&npx, ""),
            "cannot start the server: no executable \"npx\" in PATH\ncommand: npx -y server\n\
             remedy: install Node.js, or set `command` to the path of npx"
        );
        let status = ExitStatus::from_raw(127 << 8);
        assert_eq!(
            StartFailure::Exited(Some(status)).message(&npx, "sh: 1: node: not found"),
            "the server exited during the handshake (exit status: 127)\ncommand: npx -y server\n\
             standard error:\nsh: 1: node: not found\n\
             remedy: install the program that the command starts, or add its folder to `PATH` in the server's \
             `env`"
        );
        let slow = npx.with_options(ServerOptions::default().with_handshake_timeout(Duration::from_secs(2)));
        let message = StartFailure::NoResponse.message(&slow, "");
        assert!(message.starts_with("no response to the handshake within 2s\ncommand: npx"), "{message}");
        assert!(message.ends_with("or raise the timeout"), "{message}");
    }
}
