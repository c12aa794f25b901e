use expect_test::expect;
use haft_tests::{ModelServer, Reply};

use crate::{Ended, child, haft};

const QUESTION: &str = "What is 17 plus 25?";

/// `haft run` on a model behind this server.
fn run(server: &ModelServer, more: &[&str]) -> Ended {
    let base_url = server.base_url();
    let arguments = ["run", "--model", "openai:scripted", "--base-url", &base_url, QUESTION];
    Ended::of(haft(arguments.iter().chain(more)))
}

fn adding() -> ModelServer {
    let call = ("call_a", "calculator", r#"{"expression":"17 + 25"}"#);
    ModelServer::start([Reply::Calls(vec![call]), Reply::Text("It is 42.")]).unwrap()
}

#[test]
fn people_read_calls_observations_and_the_answer() {
    let ended = run(&adding(), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let without_times: Vec<_> = ended.stdout.lines().map(|line| line.split("  (").next().unwrap()).collect();
    let (trace, summary) = without_times.split_at(without_times.len() - 1);
    expect![[r#"
        call         calculator {"expression":"17 + 25"}
        observation  {"result":"42","exact":true}
        answer       It is 42.
    "#]]
    .assert_eq(&trace.join("\n"));
    assert!(summary[0].ends_with(" · 2 requests · 20 tokens read, 10 written"), "{summary:?}");
    assert!(ended.stdout.contains("  (calculator, "), "{}", ended.stdout);
}

#[test]
fn what_a_run_cost_is_told_by_the_prices_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    let last = |ended: Ended| ended.stdout.lines().last().unwrap().split(" · ").last().unwrap().to_owned();
    for (prices, expected) in [
        (r#"{"another": {"input": 0.25, "output": 2}}"#, "cost unknown: the model has no price"),
        (r#"{"scripted": {"input": 0.25, "output": 2}}"#, "cost 0.000025"),
    ] {
        std::fs::write(&path, prices).unwrap();
        assert_eq!(last(run(&adding(), &["--prices", path.to_str().unwrap()])), expected);
    }
    let ended = run(&adding(), &["--prices", path.to_str().unwrap(), "--json"]);
    assert_eq!(ended.json_lines().last().unwrap()["usage"]["cost"], 0.000_025);
    std::fs::write(&path, r#"{"scripted": {"input": "cheap"}}"#).unwrap();
    run(&adding(), &["--prices", path.to_str().unwrap()])
        .assert_failed(1, "prices.json: invalid type: string");
}

#[test]
fn in_json_an_event_is_a_line_and_the_last_is_the_answer() {
    let ended = run(&adding(), &["--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = ended.json_lines();
    let mut kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    kinds.dedup();
    expect!["request_started request_finished call_started call_finished request_started text_delta request_finished answer"]
        .assert_eq(&kinds.join(" "));
    let answer = lines.last().unwrap();
    assert_eq!(answer["text"], "It is 42.");
    assert_eq!(answer["steps"][0]["tool_name"], "calculator");
    assert_eq!(answer["usage"]["requests"], 2);
    assert_eq!(answer["stop_reason"], "finished");
}

#[test]
fn a_server_of_tools_and_the_builtin_ones_are_offered_together() {
    let call = ("call_a", "weather", r#"{"city":"Oslo"}"#);
    let server = ModelServer::start([Reply::Calls(vec![call]), Reply::Text("It rains.")]).unwrap();
    let (_folder, path) = child::mcp_json();
    let ended = run(&server, &["--mcp", path.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("observation  It rains in Oslo."), "{}", ended.stdout);
    assert_eq!(offered(&server), ["get_current_datetime", "calculator", "weather", "key"]);
}

#[test]
fn only_the_tools_that_are_named_are_offered() {
    let server = ModelServer::start([Reply::Text("Hello.")]).unwrap();
    assert_eq!(run(&server, &["--tools", "calculator"]).code, Some(0));
    assert_eq!(offered(&server), ["calculator"]);

    let failed = run(&server, &["--tools", "calculator,search"]);
    failed.assert_failed(2, "unknown tool \"search\"");
}

/// The names of the tools in the first request.
fn offered(server: &ModelServer) -> Vec<String> {
    let tools = server.requests()[0]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_dialect_can_be_chosen() {
    let finish = r#"{"thought":"I know.","tool_name":"finish","tool_args":{"answer":"It is 42."}}"#;
    let server = ModelServer::start([Reply::Text(finish)]).unwrap();
    let ended = run(&server, &["--dialect", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("thought      I know.\nanswer       It is 42.\n"), "{}", ended.stdout);
    assert_eq!(server.requests()[0]["response_format"]["type"], "json_schema");
}

/// Behaviour C30: when the iterations are used up, one last request must answer, and the output says so.
#[test]
fn at_the_limit_of_iterations_the_model_must_answer() {
    let call = || Reply::Calls(vec![("call_a", "calculator", r#"{"expression":"17 + 25"}"#)]);
    let server = ModelServer::start([call(), Reply::Text("It is 42.")]).unwrap();
    let ended = run(&server, &["--max-iters", "1", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json_lines().last().unwrap()["stop_reason"], "limit_reached");
    assert_eq!(server.requests()[1]["tool_choice"], "none");
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() {
    let server = adding();
    let base_url = server.base_url();
    let mut command = haft(["run", "-vvv", "--model", "openai:scripted", "--base-url", &base_url, QUESTION]);
    command.env("OPENAI_API_KEY", "sk-canary");
    let ended = Ended::of(command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(server.heads()[0].contains("authorization: bearer sk-canary"), "{:?}", server.heads());
    assert!(ended.stderr.contains("execute_tool"), "-v turns logs on");
    assert!(!ended.stderr.contains("sk-canary") && !ended.stdout.contains("sk-canary"));
}
