//! Tests of replies to questions with lists, with the tuned prompt of the default model.
//!
//! The scripted model calls the tool `sky` for the first item and would then end its reply.

use haft_core::{
    ChatModel, Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput, model::ChatRequest,
    tool::DynamicTool, toolset::ToolList,
};
use haft_local::{KnownModel, LocalModel, PromptProfile};
use serde_json::{Value, json};

use crate::scripted::ScriptedFile;

const QWEN3: &str = include_str!("../templates/qwen3.jinja");

fn sky(properties: &Value) -> DynamicTool {
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let definition =
        ToolDefinition::new(ToolName::new("sky").unwrap(), Schema::for_arguments(schema).unwrap())
            .with_description("Describes the sky over a city.");
    DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("clear")) })
}

/// Returns the arguments of the calls in the reply to `question`. The model writes `first` as the
/// value of the first argument.
async fn calls(question: &str, first: &str, properties: Value) -> Vec<Value> {
    let name: [&str; 9] = [":", " ", "s", "k", "y", "(", "{", "\"", first];
    let file = ScriptedFile::new(QWEN3, &["<think>", "</think>"], &[&name, &[first, "\""]]);
    let profile = PromptProfile::for_model(KnownModel::default_model());
    let model = file.load_with(LocalModel::builder().prompt_profile(profile)).await;
    let tools = ToolList::new("test", [sky(&properties)]);
    let request = ChatRequest::new([Message::user(question)]).with_tools(tools);
    let reply = model.chat(&request).await.unwrap();
    let calls = reply.message.tool_calls.iter();
    calls.map(|call| call.arguments.value_or_string().as_ref().clone()).collect()
}

#[tokio::test]
async fn each_item_of_a_list_gets_a_call() {
    let city = json!({"city": {"type": "string"}});
    let expected = ["Rome", "Oslo", "Lahore"].map(|city| json!({"city": city}));
    for question in ["sky over Rome, Oslo and Lahore?", "sky for Rome, for Oslo and for Lahore?"] {
        assert_eq!(calls(question, "Rome", city.clone()).await, expected, "{question}");
    }
    assert_eq!(calls("sky over Rome?", "Rome", city).await, expected[..1]);
}
