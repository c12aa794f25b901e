use haft_core::{
    Message, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult, message::AssistantMessage,
    tool::DynamicTool, toolset::ToolList,
};
use serde_json::json;

use super::*;

fn schema() -> Schema {
    let properties =
        json!({"city": {"type": "string"}, "days": {"type": "integer"}, "text": {"type": "string"}});
    Schema::new(json!({"type": "object", "properties": properties})).unwrap()
}

fn call(arguments: Value) -> ToolCall {
    ToolCall::new("1", "look", arguments.to_string())
}

#[test]
fn a_short_question_continues_the_last_call() {
    let definition = ToolDefinition::new(ToolName::new("look").unwrap(), schema());
    let tool = DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("ok")) });
    let reply =
        AssistantMessage { tool_calls: vec![call(json!({"city": "Rome"}))], ..AssistantMessage::default() };
    let messages = [Message::user("Rain in Rome?"), Message::assistant(reply), Message::user("And in Oslo?")];
    let request = ChatRequest::new(messages).with_tools(ToolList::new("test", [tool]));
    assert!(continued_call(&request, "And in Oslo?").is_some());
    assert!(continued_call(&request, "What about Oslo?").is_some());
    assert!(continued_call(&request, "Which rain is it?").is_none());
    assert!(continued_call(&request, &"And in Oslo".repeat(5)).is_none());
    assert!(continued_call(&ChatRequest::new([]), "And in Oslo?").is_none());
}

#[test]
fn a_known_result_may_answer_a_question() {
    let result = r#"{"city": "Bergen", "weather": {"humidity": 80, "day_high": 21}}"#;
    let answered = |question: &str| {
        let result = ToolResult::done("1", "look", ToolOutput::from(result));
        let messages = [Message::user("Rain in Bergen?"), Message::tool(result), Message::user(question)];
        may_be_answered(&ChatRequest::new(messages), question)
    };
    assert!(answered("And how humid is it?"));
    assert!(answered("What is the highest in Bergen?"));
    assert!(!answered("How humid is it in Oslo?"));
    assert!(!answered("What will it be in 5 hours, how humid?"));
    assert!(answered("Thanks. Which one is it?"));
    assert!(!answered("How windy is it?"));
    assert!(!answered("Set the humidity"));
    assert!(!may_be_answered(&ChatRequest::new([]), "How humid is it?"));
}

#[test]
fn unchanged_arguments_are_kept() {
    let merged = |question: &str, arguments: Value| {
        let earlier = call(json!({"city": "Rome", "days": 3, "text": "Good morning"}));
        let call = call(arguments);
        let merged = with_earlier_arguments(&call, &earlier, question, &schema()).unwrap_or(call);
        merged.arguments.value_or_string().as_ref().clone()
    };
    let oslo = json!({"city": "Oslo", "days": 3, "text": "Good morning"});
    assert_eq!(merged("And in Oslo?", json!({"city": "Oslo", "days": 1})), oslo);
    assert_eq!(merged("And in Oslo?", json!({"city": "Oslo", "text": "And in Oslo"})), oslo);
    let quoted = json!({"city": "Rome", "days": 3, "text": "Bye"});
    assert_eq!(merged("And \"Bye\"?", json!({"text": "Bye"})), quoted);
    let days = json!({"city": "Rome", "days": 5, "text": "Good morning"});
    assert_eq!(merged("What about 5 days?", json!({"city": "Lima", "days": 5})), days);
}
