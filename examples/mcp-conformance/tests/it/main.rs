//! The client of this package against its server.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

/// The client calls all tools of the server, and responds to their elicitations. Calls of
/// tools that return an error, need sampling, or reject the arguments of the client, fail.
#[test]
fn client_calls_the_tools_of_the_server() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-conformance-server"));
    let command = command.arg("127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let mut client = Command::new(env!("CARGO_BIN_EXE_mcp-conformance"));
    let client = client.arg(url.trim()).env("NO_COLOR", "1").output();
    server.kill().unwrap();
    server.wait().unwrap();
    let client = client.unwrap();
    let log = String::from_utf8_lossy(&client.stderr);
    assert!(client.status.success(), "{log}");
    let failed = log.lines().filter(|line| line.contains("a call failed"));
    let mut failed: Vec<_> =
        failed.filter_map(|line| line.split("name=").nth(1)?.split(' ').next()).collect();
    failed.sort_unstable();
    let expected = [
        "json_schema_2020_12_tool",
        "test_error_handling",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_sampling",
        "test_missing_capability",
        "test_sampling",
    ];
    assert_eq!(failed, expected, "{log}");
}
