//! The client of this package against its server.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

/// The client lists and calls all tools of the server, whose questions it answers.
#[test]
fn client_calls_the_tools_of_the_server() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-conformance-server"));
    let command = command.arg("127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let client = Command::new(env!("CARGO_BIN_EXE_mcp-conformance")).arg(url.trim()).output();
    server.kill().unwrap();
    server.wait().unwrap();
    let client = client.unwrap();
    let log = String::from_utf8_lossy(&client.stderr);
    assert!(client.status.success(), "{log}");
    let failures: Vec<_> = log.lines().filter(|line| line.contains("a call failed")).collect();
    // These tools fail, or need a client with sampling.
    let expected =
        ["test_error_handling", "sampling", "multiple_inputs", "capabilit", "json_schema", "list_roots"];
    let is_expected = |line: &&str| expected.iter().any(|name| line.contains(name));
    assert!(failures.iter().all(is_expected), "{log}");
    assert!(failures.iter().any(|line| line.contains("test_error_handling")), "{log}");
}
