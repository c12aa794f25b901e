//! Tests of failing commands. The message must contain a remedy. The exit code must be 1 for a
//! failure and 2 for invalid usage.

use std::net::TcpListener;

use haft_testing::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::{CommandOutput, child::write_mcp_json, haft};

/// Runs `haft run` with the model server at `base_url` and the additional arguments `more`.
fn run_on(base_url: &str, more: &[&str]) -> CommandOutput {
    let arguments = ["run", "--model", "openai:scripted", "--base-url", base_url, "Hello"];
    CommandOutput::run(haft(arguments.iter().chain(more)))
}

#[test]
fn wrong_key_is_not_retried() {
    let unauthorized =
        Reply::status(401, r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#);
    let server = ModelServer::start([unauthorized.clone(), unauthorized]).unwrap();
    run_on(&server.base_url(), &[]).assert_failed(1, "set the correct key in OPENAI_API_KEY");

    let output = run_on(&server.base_url(), &["--json"]);
    let last = output.json_lines().pop().unwrap();
    assert_eq!((&last["type"], &last["exit_code"]), (&json!("error"), &json!(1)));
    assert!(last["message"].as_str().unwrap().contains("Incorrect API key"), "{last}");
    assert_eq!(server.requests().len(), 2, "no retry with a wrong key");
}

#[test]
fn not_found_suggests_the_model_name_and_the_path() {
    let server = ModelServer::start([Reply::status(404, "404 page not found")]).unwrap();
    let base_url = server.base_url();
    run_on(base_url.trim_end_matches("/v1"), &[]).assert_failed(1, "(usually /v1)");
}

/// Without a command, `haft` writes its help to standard error and exits with code 2.
#[test]
fn missing_command_writes_the_help() {
    let output = CommandOutput::run(haft([""; 0]));
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(output.stderr.contains("Usage: haft") && !output.stderr.contains("error:"), "{}", output.stderr);
}

/// An error can repeat text from outside. It writes no escape sequence other than its own colors.
#[test]
fn error_has_no_hidden_characters() {
    let name = "a\u{1b}[2Jb\u{202e}c\u{9b}31m\u{7}";
    for arguments in [&["model", "path", name][..], &["mcp", "login", name], &["call", name, "{}"]] {
        let mut command = haft(arguments);
        command.env("CLICOLOR_FORCE", "1");
        let output = CommandOutput::run(command);
        assert!(output.code.is_some_and(|code| code > 0), "{}", output.stderr);
        for hidden in ["\u{1b}[2J", "\u{202e}", "\u{9b}", "\u{7}"] {
            assert!(!output.stderr.contains(hidden), "{arguments:?}: {:?}", output.stderr);
        }
    }
}

#[test]
fn missing_key_is_reported() {
    CommandOutput::run(haft(["run", "--model", "openai:gpt-5", "Hello"]))
        .assert_failed(1, "set OPENAI_API_KEY");
}

#[test]
fn unreachable_server_is_reported() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    run_on(&format!("http://127.0.0.1:{port}/v1"), &[]).assert_failed(1, "set its address with --base-url");
}

#[test]
fn invalid_base_url_is_invalid_usage() {
    run_on("localhost", &[]).assert_failed(2, "http://localhost:8080/v1");
    CommandOutput::run(haft(["run", "--base-url", "http://127.0.0.1:1/v1", "Hello"]))
        .assert_failed(2, "--model openai:NAME");
}

#[test]
fn invalid_mcp_json_is_reported() {
    for (text, message) in [
        ("{", "not JSON"),
        (r#"{"server": {}}"#, "mcpServers"),
        (r#"{"mcpServers": {"files": {}}}"#, "mcp:files: the entry"),
        (
            r#"{"mcpServers": {"files": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE_HERE}"}}}}"#,
            "NO_SUCH_VARIABLE_HERE",
        ),
        (r#"{"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}"#, "mcp:far: the handshake failed"),
    ] {
        let (_folder, path) = write_mcp_json(text);
        // An invalid entry costs its server only, so a built-in tool can be called.
        let commands = [&["tools"][..], &["run", "Hello"], &["call", "calculator"]];
        let count = if message.starts_with("not") || message == "mcpServers" { 3 } else { 2 };
        for command in &commands[..count] {
            let arguments = command.iter().copied().chain(["--mcp", path.to_str().unwrap()]);
            CommandOutput::run(haft(arguments)).assert_failed(1, message);
        }
    }
    CommandOutput::run(haft(["tools", "--mcp", "/no/such/mcp.json"])).assert_failed(1, "/no/such/mcp.json");
}

#[test]
fn no_request_is_sent_if_all_servers_failed() {
    let server = ModelServer::start([]).unwrap();
    let (_folder, path) =
        write_mcp_json(r#"{"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}"#);
    run_on(&server.base_url(), &["--mcp", path.to_str().unwrap()]).assert_failed(1, "mcp:gone");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn invalid_command_line_exits_with_2() {
    CommandOutput::run(haft(["run", "--model", "gpt-5", "Hello"])).assert_failed(2, "openai:gpt-5");
    CommandOutput::run(haft(["run"])).assert_failed(2, "<PROMPT>");
    CommandOutput::run(haft(["run", ""])).assert_failed(2, "PROMPT");
    CommandOutput::run(haft(["run", "--max-iters", "0", "Hello"])).assert_failed(2, "--max-iters");
    let output = CommandOutput::run(haft(["run", "--json"]));
    assert_eq!((output.code, &output.json_lines()[0]["type"]), (Some(2), &json!("error")));

    let mut command = haft(["tools"]);
    command.env("HAFT_LOG", "haft=nonsense");
    CommandOutput::run(command).assert_failed(2, "HAFT_LOG");
}
