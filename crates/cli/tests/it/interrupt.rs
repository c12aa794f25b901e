use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

use haft_testing::model_server::{ModelServer, Reply};

use crate::{CommandOutput, child, haft};

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send_interrupt(running: &Child) {
    send_signal(running, "-INT");
}

fn send_signal(running: &Child, signal: &str) {
    let signalled = Command::new("kill").args([signal, &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
}

/// Asserts that the command `running` exits with code 1 and the error `cancelled`, and that the
/// last line of its standard output is the error as JSON.
fn assert_cancelled(running: Child) {
    let output = CommandOutput::from(running.wait_with_output().unwrap());
    output.assert_failed(1, "cancelled");
    assert_eq!(output.json_lines().pop().unwrap()["type"], "error");
}

#[test]
fn interrupt_cancels_the_run() {
    let server = ModelServer::start([Reply::silence()]).unwrap();
    let base_url = server.base_url();
    let running =
        start(haft(["run", "--json", "--model", "openai:scripted", "--base-url", &base_url, "Hello"]));
    server.wait_for_request();
    send_interrupt(&running);
    assert_cancelled(running);
}

/// A service manager or a container ends a server with `SIGTERM`.
#[test]
fn sigterm_ends_a_server() {
    let mut running = start(haft(["mcp", "serve", "--http", "127.0.0.1:0", "--no-mcp"]));
    let mut begin = [0; 1];
    running.stderr.as_mut().unwrap().read_exact(&mut begin).unwrap();
    send_signal(&running, "-TERM");
    assert_eq!(running.wait().unwrap().code(), Some(0));
}

/// The standard input of the server stays open.
#[test]
fn sigterm_ends_a_server_over_stdio() {
    let mut command = haft(["mcp", "serve", "--no-mcp"]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    running.stdin.as_mut().unwrap().write_all(ping).unwrap();
    let mut begin = [0; 1];
    running.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    send_signal(&running, "-TERM");
    assert_eq!(running.wait().unwrap().code(), Some(0));
}

#[cfg(feature = "local")]
#[test]
fn interrupt_cancels_a_download_before_the_run() {
    let (hub, cache) = (crate::hub::Hub::start(None), tempfile::tempdir().unwrap());
    let mut command = haft(["run", "--json", "Hello"]);
    command.env("HF_ENDPOINT", &hub.address).env("HAFT_CACHE", cache.path());
    let running = start(command);
    hub.wait_for_request();
    send_interrupt(&running);
    assert_cancelled(running);
}

/// The test reads only one byte of the output, so the command blocks as soon as the pipe is full.
/// The second interrupt must exit the process with code 130.
#[test]
fn second_interrupt_exits_a_blocked_command() {
    let (_folder, path) = child::write_weather_mcp_json();
    let city = format!(r#"{{"city":"{}"}}"#, "x".repeat(100_000));
    let mut running = start(haft(["call", "weather", &city, "--mcp", path.to_str().unwrap()]));
    let mut begin = [0; 1];
    running.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    let status = loop {
        send_interrupt(&running);
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(130));
}
