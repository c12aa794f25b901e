//! What goes wrong: a message that says what to do, and the right exit code.

use std::net::TcpListener;

use haft_tests::{ModelServer, Reply};
use serde_json::json;

use crate::{Ended, child::write_mcp_json, haft};

fn run_on(base_url: &str, more: &[&str]) -> Ended {
    let arguments = ["run", "--model", "openai:scripted", "--base-url", base_url, "Hello"];
    Ended::of(haft(arguments.iter().chain(more)))
}

#[test]
fn a_wrong_key() {
    let refusal =
        Reply::Status(401, r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#);
    let server = ModelServer::start([refusal.clone(), refusal]).unwrap();
    run_on(&server.base_url(), &[]).assert_failed(1, "set the right key in OPENAI_API_KEY");

    let told = run_on(&server.base_url(), &["--json"]);
    let last = told.json_lines().pop().unwrap();
    assert_eq!((&last["type"], &last["exit_code"]), (&json!("error"), &json!(1)));
    assert!(last["message"].as_str().unwrap().contains("Incorrect API key"), "{last}");
    assert_eq!(server.requests().len(), 2, "a wrong key is not tried again");
}

#[test]
fn an_address_or_a_name_that_the_server_does_not_know() {
    let server = ModelServer::start([Reply::Status(404, "404 page not found")]).unwrap();
    let base_url = server.base_url();
    run_on(base_url.trim_end_matches("/v1"), &[]).assert_failed(1, "it mostly ends in /v1");
}

/// The help is what is asked for by saying nothing, and no error message; but nothing was done.
#[test]
fn no_command() {
    let told = Ended::of(haft([""; 0]));
    assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""));
    assert!(told.stderr.contains("Usage: haft") && !told.stderr.contains("error:"), "{}", told.stderr);
}

#[test]
fn no_key() {
    Ended::of(haft(["run", "--model", "openai:gpt-5", "Hello"])).assert_failed(1, "set OPENAI_API_KEY");
}

#[test]
fn a_server_that_is_not_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    run_on(&format!("http://127.0.0.1:{port}/v1"), &[]).assert_failed(1, "say by --base-url where it is");
}

#[test]
fn a_base_url_that_is_none() {
    run_on("localhost", &[]).assert_failed(2, "http://localhost:8080/v1");
    Ended::of(haft(["run", "--base-url", "http://127.0.0.1:1/v1", "Hello"]))
        .assert_failed(2, "--model openai:NAME");
}

#[test]
fn a_bad_mcp_json() {
    for (text, message) in [
        ("{", "not JSON"),
        (r#"{"servers": {}}"#, "mcpServers"),
        (r#"{"mcpServers": {"files": {}}}"#, "server \"files\""),
        (
            r#"{"mcpServers": {"files": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE_HERE}"}}}}"#,
            "NO_SUCH_VARIABLE_HERE",
        ),
        (r#"{"mcpServers": {"far": {"url": "https://example.com/mcp"}}}"#, "server \"far\""),
    ] {
        let (_folder, path) = write_mcp_json(text);
        for command in [&["tools"][..], &["call", "calculator"], &["run", "Hello"]] {
            let arguments = command.iter().copied().chain(["--mcp", path.to_str().unwrap()]);
            Ended::of(haft(arguments)).assert_failed(1, message);
        }
    }
    Ended::of(haft(["tools", "--mcp", "/no/such/mcp.json"])).assert_failed(1, "/no/such/mcp.json");
}

#[test]
fn a_question_is_not_asked_without_the_tools_that_it_was_given() {
    let server = ModelServer::start([]).unwrap();
    let (_folder, path) =
        write_mcp_json(r#"{"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}"#);
    run_on(&server.base_url(), &["--mcp", path.to_str().unwrap()]).assert_failed(1, "mcp:gone");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_command_line_that_makes_no_sense() {
    Ended::of(haft(["run", "--model", "gpt-5", "Hello"])).assert_failed(2, "openai:gpt-5");
    Ended::of(haft(["run"])).assert_failed(2, "<PROMPT>");
    Ended::of(haft(["run", ""])).assert_failed(2, "PROMPT");
    Ended::of(haft(["run", "--max-iters", "0", "Hello"])).assert_failed(2, "--max-iters");
    let told = Ended::of(haft(["run", "--json"]));
    assert_eq!((told.code, &told.json_lines()[0]["type"]), (Some(2), &json!("error")));

    let mut command = haft(["tools"]);
    command.env("HAFT_LOG", "haft=nonsense");
    Ended::of(command).assert_failed(2, "HAFT_LOG");
}
