//! Tests of complete runs with `TestModel`, a model that calls every tool once.

use haft_core::{
    Schema, ToolError, ToolOutput, Toolset,
    agent::AgentErrorKind,
    model::{ChatSettings, ModelProfile},
    tool,
};
use haft_react::{JsonReact, ReactAgent};
use haft_testing::TestModel;
use serde_json::json;

/// Finds pages.
#[tool]
fn search(query: String, #[tool(default = 5)] limit: u32) -> String {
    format!("{limit} of {query}")
}

/// Reads a page.
#[tool]
fn read(
    /// The URL of the page.
    #[tool(format = "uri")]
    address: String,
) -> String {
    format!("the page at {address}")
}

/// Rates a page.
#[tool]
fn rate(#[tool(range = 1..=5)] stars: u8) -> Result<String, String> {
    Err(format!("{stars} stars are too few"))
}

fn tools() -> Toolset {
    Toolset::new().with_tool(Search).with_tool(Read).with_tool(Rate)
}

fn lines(answer: &haft_core::agent::RunAnswer) -> Vec<String> {
    let line = |step: &haft_core::agent::AgentStep| {
        format!("{}. {} {}: {}", step.step_number, step.tool_name, step.tool_args, step.result.model_text())
    };
    answer.steps.iter().map(line).collect()
}

#[tokio::test]
async fn every_tool_is_called_once_before_the_answer() {
    let agent = ReactAgent::new(TestModel::new(), tools()).unwrap();
    let output = agent.run("Try all tools.").await.unwrap();
    let expected = [
        r#"1. search {"query":"a"}: 5 of a"#,
        r#"1. read {"address":"https://example.org/a"}: the page at https://example.org/a"#,
        r#"1. rate {"stars":1}: 1 stars are too few"#,
    ];
    assert_eq!(lines(output.answer().unwrap()), expected);
    assert_eq!(
        output.text().unwrap(),
        r#"{"search":"5 of a","read":"the page at https://example.org/a","rate":"1 stars are too few"}"#
    );
}

#[tokio::test]
async fn selected_tools_are_called_one_per_reply_without_parallel_calls() {
    let model = TestModel::new().with_only_tools(["read", "search"]).with_answer("Done.");
    let settings = ChatSettings { parallel_tool_calls: Some(false), ..ChatSettings::default() };
    let agent = ReactAgent::builder(model).tools(tools()).settings(settings).build().unwrap();
    let output = agent.run("Try two tools.").await.unwrap();
    let numbers: Vec<_> =
        output.answer().unwrap().steps.iter().map(|it| (it.step_number, &*it.tool_name)).collect();
    assert_eq!(numbers, [(1, "search"), (2, "read")]);
    assert_eq!(output.text().unwrap(), "Done.");
}

#[tokio::test]
async fn outputs_are_generated_from_their_schema() {
    let outputs = Schema::new(json!({
        "properties": {"title": {"type": "string", "minLength": 2}, "year": {"type": "integer", "minimum": 1900}},
        "required": ["title", "year"],
    }))
    .unwrap();
    let agent = ReactAgent::builder(TestModel::new()).tools(tools()).outputs(outputs).build().unwrap();
    let output = agent.run("Try all tools.").await.unwrap();
    let answer = output.answer().unwrap();
    assert_eq!(answer.outputs["title"], "aa");
    assert_eq!(answer.outputs["year"], 1900);
    assert_eq!(answer.steps.len(), 3);
}

#[tokio::test]
async fn every_tool_is_called_in_the_json_dialect() {
    let profile = ModelProfile { supports_native_tools: false, ..ModelProfile::new("test") };
    let agent =
        ReactAgent::builder(TestModel::new().with_profile(profile)).tools(tools()).dialect(JsonReact::new());
    let output = agent.build().unwrap().run("Try all tools.").await.unwrap();
    let called: Vec<_> = output.answer().unwrap().steps.iter().map(|step| &*step.tool_name).collect();
    assert_eq!(called, ["search", "read", "rate"]);
}

#[tokio::test]
async fn unsatisfiable_schema_is_an_error_with_tool_and_path() {
    let impossible =
        json!({"properties": {"x": {"type": "integer", "minimum": 2, "maximum": 1}}, "required": ["x"]});
    let definition = haft_core::ToolDefinition::new(
        haft_core::ToolName::new("impossible").unwrap(),
        Schema::new(impossible).unwrap(),
    );
    let tool = tool::DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("ran".into()) });
    let agent = ReactAgent::new(TestModel::new(), Toolset::new().with_tool(tool)).unwrap();
    let error = agent.run("Try all tools.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(_)));
    assert_eq!(
        error.to_string(),
        "the model failed: tool \"impossible\" cannot be called: no example of the schema could be made, at /x: no value was found for {\"type\":\"integer\"} and {\"minimum\":2,\"maximum\":1}"
    );
}
