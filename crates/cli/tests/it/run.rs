use std::fs;

use expect_test::expect;
use haft_core::{model::catalogue, usage::Usage};
use haft_testing::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::{CommandOutput, child, haft};

const QUESTION: &str = "What is 17 plus 25?";

/// Runs `haft run` with the model on `server` and the additional arguments `more`.
fn run(server: &ModelServer, more: &[&str]) -> CommandOutput {
    let base_url = server.base_url();
    let arguments = ["run", "--model", "openai:scripted", "--base-url", &base_url, QUESTION];
    CommandOutput::run(haft(arguments.iter().chain(more)))
}

/// Starts a model server that first replies with a call to the calculator, and then with the
/// answer.
fn start_calculating_server() -> ModelServer {
    let call = ("call_a", "calculator", r#"{"expression":"17 + 25"}"#);
    ModelServer::start([Reply::calls([call]), Reply::text("It is 42.")]).unwrap()
}

#[test]
fn trace_has_calls_observations_and_the_answer() {
    let output = run(&start_calculating_server(), &[]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let without_times: Vec<_> = output.stdout.lines().map(|line| line.split("  (").next().unwrap()).collect();
    let (trace, summary) = without_times.split_at(without_times.len() - 1);
    expect![[r#"
        call         calculator {"expression":"17 + 25"}
        observation  {"result":"42","exact":true}
        answer       It is 42.
    "#]]
    .assert_eq(&trace.join("\n"));
    assert!(summary[0].ends_with(" · 2 requests · 20 input tokens, 10 output tokens"), "{summary:?}");
    assert!(output.stdout.contains("  (calculator, "), "{}", output.stdout);
}

#[test]
fn model_of_each_provider_answers() {
    for (model, key) in [("anthropic:scripted", "ANTHROPIC_API_KEY"), ("gemini:scripted", "GEMINI_API_KEY")] {
        let server = start_calculating_server();
        let origin = server.origin();
        let mut command = haft(["run", "--model", model, "--base-url", &origin, QUESTION]);
        command.env(key, "key-of-the-test");
        let output = CommandOutput::run(command);
        assert_eq!(output.code, Some(0), "{model}: {}", output.stderr);
        assert!(output.stdout.contains("answer       It is 42."), "{model}: {}", output.stdout);
        assert!(server.request_heads()[0].contains("key-of-the-test"), "{model}");
        CommandOutput::run(haft(["run", "--model", model, "Hello"])).assert_failed(1, &format!("set {key}"));
    }
}

#[test]
fn cost_is_computed_from_the_price_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    let last =
        |output: CommandOutput| output.stdout.lines().last().unwrap().split(" · ").last().unwrap().to_owned();
    for (prices, expected) in [
        (r#"{"another": {"input": 0.25, "output": 2}}"#, "cost unknown: the model has no price"),
        (r#"{"scripted": {"input": 0.25, "output": 2}}"#, "cost 0.000025"),
    ] {
        fs::write(&path, prices).unwrap();
        assert_eq!(last(run(&start_calculating_server(), &["--prices", path.to_str().unwrap()])), expected);
    }
    let output = run(&start_calculating_server(), &["--prices", path.to_str().unwrap(), "--json"]);
    assert_eq!(output.json_lines().last().unwrap()["usage"]["cost"], 0.000_025);
    fs::write(&path, r#"{"scripted": {"input": "cheap"}}"#).unwrap();
    run(&start_calculating_server(), &["--prices", path.to_str().unwrap()])
        .assert_failed(1, "prices.json: invalid type: string");
}

/// Without `--prices`, a model of the catalogue has the price of the catalogue, with its date.
#[test]
fn cost_is_computed_from_the_catalogue() {
    let run = |more: &[&str]| {
        let server = start_calculating_server();
        let base_url = server.base_url();
        let arguments = ["run", "--model", "openai:openai/gpt-5.6", "--base-url", &base_url, QUESTION];
        CommandOutput::run(haft(arguments.iter().chain(more)))
    };
    let card = catalogue::find("gpt-5.6").unwrap();
    let cost = card.price.unwrap().cost_of(&Usage::one_request(20, 10));
    let output = run(&[]);
    let date = catalogue::date();
    let summary = format!(" · cost {cost} USD, at the catalogue price of openai/gpt-5.6 on {date}");
    assert!(output.stdout.trim_end().ends_with(&summary), "{}", output.stdout);

    let answer = run(&["--json"]).json_lines().pop().unwrap();
    assert_eq!(answer["usage"]["cost"], cost.units());
    let source = json!({"source": "catalogue", "model": "openai/gpt-5.6", "date": date, "currency": "USD"});
    assert_eq!(answer["prices"], source);

    // The prices of the user take precedence.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    fs::write(&path, r#"{"openai/gpt-5.6": {"input": 0.25, "output": 2}}"#).unwrap();
    let output = run(&["--prices", path.to_str().unwrap()]);
    assert!(output.stdout.trim_end().ends_with(" · cost 0.000025"), "{}", output.stdout);
    let answer = run(&["--prices", path.to_str().unwrap(), "--json"]).json_lines().pop().unwrap();
    assert_eq!(answer["prices"], Value::Null);
}

#[test]
fn json_has_one_event_per_line_and_ends_with_the_answer() {
    let output = run(&start_calculating_server(), &["--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let lines = output.json_lines();
    let mut kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    kinds.dedup();
    expect!["request_started call_announced arguments_delta request_finished call_started call_finished request_started text_delta request_finished answer"]
        .assert_eq(&kinds.join(" "));
    let answer = lines.last().unwrap();
    assert_eq!(answer["text"], "It is 42.");
    assert_eq!(answer["steps"][0]["tool_name"], "calculator");
    assert_eq!(answer["usage"]["requests"], 2);
    assert_eq!(answer["stop_reason"], "finished");
}

#[test]
fn tools_of_servers_and_builtin_tools_are_offered() {
    let call = ("call_a", "weather", r#"{"city":"Oslo"}"#);
    let server = ModelServer::start([Reply::calls([call]), Reply::text("It rains.")]).unwrap();
    let (_folder, path) = child::write_weather_mcp_json();
    let output = run(&server, &["--mcp", path.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("observation  It rains in Oslo."), "{}", output.stdout);
    assert_eq!(offered_tools(&server), ["get_current_datetime", "calculator", "weather", "find", "key"]);
}

/// Tools of two servers with the same name are both offered and called.
#[test]
fn tools_with_the_same_name_have_prefixes() {
    let call = ("call_a", "zephyr_weather", r#"{"city":"Oslo"}"#);
    let server = ModelServer::start([Reply::calls([call]), Reply::text("It rains.")]).unwrap();
    let (_folder, path) = child::write_weather_mcp_json();
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config["mcpServers"]["zephyr"] = config["mcpServers"]["weather"].clone();
    fs::write(&path, config.to_string()).unwrap();
    let output = run(&server, &["--mcp", path.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "");
    assert!(output.stdout.contains("observation  It rains in Oslo."), "{}", output.stdout);
    let first = ["get_current_datetime", "calculator", "weather", "find", "key"];
    let second = ["zephyr_weather", "zephyr_find", "zephyr_key"];
    assert_eq!(offered_tools(&server), [&first[..], &second].concat());
}

#[test]
fn only_selected_tools_are_offered() {
    let server = ModelServer::start([Reply::text("Hello.")]).unwrap();
    assert_eq!(run(&server, &["--tools", "calculator"]).code, Some(0));
    assert_eq!(offered_tools(&server), ["calculator"]);

    let failed = run(&server, &["--tools", "calculator,search"]);
    failed.assert_failed(2, "unknown tool \"search\"");
}

/// Returns the names of the tools in the first model request that `server` received.
fn offered_tools(server: &ModelServer) -> Vec<String> {
    let tools = server.requests()[0]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dialect_is_configurable() {
    let finish = r#"{"thought":"I know.","tool_name":"finish","tool_args":{"answer":"It is 42."}}"#;
    let server = ModelServer::start([Reply::text(finish)]).unwrap();
    let output = run(&server, &["--dialect", "json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.starts_with("thought      I know.\nanswer       It is 42.\n"), "{}", output.stdout);
    assert_eq!(server.requests()[0]["response_format"]["type"], "json_schema");
}

/// With the default dialect, a run moves to JSON if the server rejects tools.
#[test]
fn server_without_tools_gets_json_steps() {
    let rejected = r#"{"error":{"code":400,"message":"tools param requires --jinja flag","type":"invalid_request_error"}}"#;
    let finish = r#"{"thought":"I know.","tool_name":"finish","tool_args":{"answer":"It is 42."}}"#;
    let server = ModelServer::start([Reply::status(400, rejected), Reply::text(finish)]).unwrap();
    let output = run(&server, &[]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("answer       It is 42.\n"), "{}", output.stdout);
    let requests = server.requests();
    assert!(requests[0]["tools"].is_array() && requests[1]["tools"].is_null(), "{requests:?}");
    assert_eq!(requests[1]["response_format"]["type"], "json_schema");
}

/// After `--max-iters` iterations, a final model request without tool calls must give the answer.
#[test]
fn iteration_limit_forces_an_answer() {
    let call = || Reply::calls([("call_a", "calculator", r#"{"expression":"17 + 25"}"#)]);
    let server = ModelServer::start([call(), Reply::text("It is 42.")]).unwrap();
    let output = run(&server, &["--max-iters", "1", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.json_lines().last().unwrap()["stop_reason"], "limit_reached");
    assert_eq!(server.requests()[1]["tool_choice"], "none");
}

#[test]
fn api_key_is_only_sent_to_the_server() {
    let server = start_calculating_server();
    let base_url = server.base_url();
    let mut command = haft(["run", "-vvv", "--model", "openai:scripted", "--base-url", &base_url, QUESTION]);
    command.env("OPENAI_API_KEY", "sk-canary");
    let output = CommandOutput::run(command);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(
        server.request_heads()[0].contains("authorization: bearer sk-canary"),
        "{:?}",
        server.request_heads()
    );
    assert!(output.stderr.contains("execute_tool"), "-v enables logs");
    assert!(!output.stderr.contains("sk-canary") && !output.stdout.contains("sk-canary"));
}
