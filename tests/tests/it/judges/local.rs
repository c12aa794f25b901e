//! Tests of the local model with real weights.

use haft_core::{Schema, ToolDefinition, ToolName, Toolset, tool::DynamicTool};
use haft_local::LocalModel;
use haft_react::ReactAgent;
use haft_tests::judge;
use haft_tools::{BuiltinConfig, builtin};
use serde_json::json;

use crate::catalogues::{Catalogue, list_over_mcp};

/// The model has the tools of `haft run` and of the filesystem server. None of them fits, although
/// one writes files and another returns the time.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_fitting_tool_are_answered() {
    let Some(path) = judge::llama_cpp_model() else { return };
    let server = Catalogue::read("npm-modelcontextprotocol-server-filesystem.json");
    let (files, list) = list_over_mcp(server.tools).await;
    assert!(list.names().any(|name| name.as_str() == "write_file"));
    let model = LocalModel::open(path).await.unwrap();
    let tools = builtin(&BuiltinConfig::default()).with_source(files);
    let agent = ReactAgent::new(model, tools).unwrap();
    for question in ["Write a haiku about rust.", "What is the capital of France?"] {
        let output = agent.run(question).await.unwrap();
        let messages = output.transcript().unwrap().messages();
        assert!(messages.iter().all(|message| message.tool_calls().is_empty()), "{messages:?}");
        let answer = output.text().unwrap();
        assert!(!answer.trim().is_empty() && !answer.starts_with("Please tell me"), "{answer}");
        assert!(!question.contains("France") || answer.contains("Paris"), "{answer}");
    }
}

/// The first of two requests lacks the size of the pizza, a required enumeration. The second one
/// implies it.
#[tokio::test(flavor = "multi_thread")]
async fn a_required_choice_is_made_by_the_user() {
    let Some(path) = judge::llama_cpp_model() else { return };
    let schema = json!({
        "type": "object",
        "properties": {
            "topping": {"type": "string", "description": "Topping of the pizza."},
            "size": {"enum": ["small", "medium", "large"], "description": "Size of the pizza."},
        },
        "required": ["topping", "size"],
    });
    let definition = ToolDefinition::new(ToolName::new("order_pizza").unwrap(), Schema::new(schema).unwrap());
    let definition = definition.with_description("Orders a pizza.");
    let tool = DynamicTool::new(definition, |_arguments, _cx| async { "ordered" });
    let model = LocalModel::open(path).await.unwrap();
    let agent = ReactAgent::new(model, Toolset::new().with_tool(tool)).unwrap();
    for (question, sizes) in [
        ("I'd like a pizza with mushrooms.", vec![]),
        ("The biggest pizza with mushrooms, please.", vec!["large"]),
    ] {
        let output = agent.run(question).await.unwrap();
        let messages = output.transcript().unwrap().messages();
        let calls = messages.iter().flat_map(|message| message.tool_calls());
        let arguments: Vec<_> = calls.map(|call| call.arguments.value_or_string()).collect();
        let ordered: Vec<_> = arguments.iter().filter_map(|arguments| arguments["size"].as_str()).collect();
        assert_eq!(ordered, sizes, "{question}");
    }
}
