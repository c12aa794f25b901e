use serde_json::json;

use super::TestModel;
use haft_core::{
    ChatModel as _, Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult,
    model::{ChatRequest, ModelError, ToolChoice},
    tool::DynamicTool,
    toolset::ToolList,
};

fn tool(name: &str) -> DynamicTool {
    let schema = Schema::new(json!({"type": "object", "properties": {}})).unwrap();
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), schema);
    DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("done".into()) })
}

/// Sends three requests with the tools `names` and the tool choice `Required`. Returns the names
/// of the called tools.
async fn called_tools(model: &TestModel, names: &[&str]) -> Result<Vec<String>, ModelError> {
    let tools = ToolList::new("test", names.iter().map(|name| tool(name)));
    let (mut messages, mut called) = (vec![Message::user("Try all tools.")], Vec::new());
    for _ in 0..3 {
        let mut request = ChatRequest::new(messages.clone()).with_tools(tools.clone());
        request.tool_choice = ToolChoice::Required;
        let message = model.chat(&request).await?.message;
        let calls = message.tool_calls.clone();
        messages.push(Message::assistant(message));
        for call in calls {
            messages.push(Message::tool(ToolResult::done(&call.id, &call.name, ToolOutput::from("done"))));
            called.push(call.name);
        }
    }
    Ok(called)
}

/// A tool outside the restriction may have side effects, so the model must not call it even after
/// all selected tools were called.
#[tokio::test]
async fn required_call_is_restricted_to_the_selected_tools() {
    let model = TestModel::new().with_only_tools(["read", "search"]);
    let called = called_tools(&model, &["search", "read", "delete"]).await.unwrap();
    assert_eq!(called, ["search", "read", "read"]);
    let error = called_tools(&model, &["delete"]).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Unsupported(reason) if reason.contains("with_only_tools")),
        "{error}"
    );
}

#[tokio::test]
async fn required_call_repeats_the_last_tool() {
    let called = called_tools(&TestModel::new(), &["search", "finish"]).await.unwrap();
    assert_eq!(called, ["search", "finish", "finish"]);
}
