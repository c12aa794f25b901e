//! Tests of an agent with tools from three sources: Rust functions, haft-tools, and an MCP server
//! in a child process.

use haft_core::{Toolset, call::FailureKind};
use haft_mcp::{McpSource, StdioServer};
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use haft_tools::Calculator;

use crate::{Add, child};

async fn tools() -> Toolset {
    let server = McpSource::connect("child", child::server()).await.unwrap();
    Toolset::new().with_tool(Add).with_tool(Calculator).with_source(server)
}

/// A tool of an MCP server over stdio is called like a tool in this process.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_reply_go_to_a_function_and_to_a_server() {
    let model = ScriptedModel::new()
        .reply_calls([
            ("a", "add", r#"{"x": 17, "y": "25"}"#),
            ("b", "get_current_datetime", r#"{"format": "date", "timezone": "Asia/Tokyo"}"#),
            ("c", "calculator", r#"{"expression": "2^10"}"#),
        ])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, tools().await).unwrap();
    let output = agent.run("Add, and give the date.").await.unwrap();

    let answer = output.answer().unwrap();
    let steps: Vec<_> = answer.steps.iter().map(|step| (step.step_number, step.tool_name.as_str())).collect();
    assert_eq!(steps, [(1, "add"), (1, "get_current_datetime"), (1, "calculator")]);
    assert_eq!(output.results_of("add").next().unwrap().model_text(), "42");
    assert_eq!(output.results_of("add").next().unwrap().repairs.len(), 1, "`\"25\"` is repaired to 25");
    let date = output.results_of("get_current_datetime").next().unwrap().to_json();
    assert_eq!(date["result"]["timezone"], "Asia/Tokyo");
    assert_eq!(date["result"]["datetime"].as_str().map(str::len), Some("2026-11-21".len()));
}

/// If a tool of a server fails, the model receives the failure and the run continues.
#[tokio::test(flavor = "multi_thread")]
async fn failure_over_stdio_reaches_the_model_like_a_local_one() {
    let model = ScriptedModel::new()
        .reply_calls([
            ("a", "fail", "{}"),
            ("b", "get_current_datetime", r#"{"timezone": "Asia/Tokio"}"#),
            ("c", "get_current_datetime", r#"{"format": "epoch"}"#),
        ])
        .reply_text("It failed.");
    let agent = ReactAgent::new(model, tools().await).unwrap();
    let output = agent.run("Try.").await.unwrap();

    let results: Vec<_> = output.answer().unwrap().steps.iter().map(|step| &step.result).collect();
    let failures: Vec<_> = results.iter().map(|result| result.failure().unwrap()).collect();
    assert_eq!(failures[0].message, "the disk is full");
    assert!(failures[1].message.contains("did you mean \"Asia/Tokyo\"?"), "{}", failures[1]);
    assert_eq!(failures[2].kind, FailureKind::InvalidArguments, "the client enforces the server's schema");
}

/// A child process receives only the environment variables of its configuration, and those that
/// each child inherits.
#[tokio::test(flavor = "multi_thread")]
async fn child_has_only_the_configured_environment() {
    let seen = tools().await.call("environment", ()).await;
    let inherited = StdioServer::DEFAULT_ENV.into_iter().filter(|name| std::env::var_os(name).is_some());
    let mut expected: Vec<_> = inherited.chain(["HAFT_TESTS_SERVE"]).collect();
    expected.sort_unstable();
    assert_eq!(seen.model_text(), expected.join(" "));
}

/// A tool definition is the same before and after its transfer over MCP.
#[tokio::test(flavor = "multi_thread")]
async fn definition_is_the_same_over_stdio() {
    let here = Toolset::new().with_tool(haft_tools::GetCurrentDatetime);
    let there = tools().await;
    let known = async |tools: &Toolset| {
        let it = tools.definition("get_current_datetime").await.unwrap();
        (
            it.name().clone(),
            it.description().to_owned(),
            it.input_schema().clone(),
            it.output_schema().cloned(),
        )
    };
    assert_eq!(known(&there).await, known(&here).await);
    assert_eq!(there.definition("environment").await.unwrap().input_schema().as_value()["type"], "object");
}
