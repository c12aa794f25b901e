//! Tests of the format functions, which need no HTTP client.

use std::sync::Arc;

use expect_test::{Expect, expect};
use haft_core::{
    Message, Schema, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult, content::Content,
    message::AssistantMessage, model::FinishReason, tool::DynamicTool, toolset::ToolList,
};
use serde_json::{Value, json};

fn define(name: &str, schema: Value) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::for_arguments(schema).unwrap())
}

fn add() -> ToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    });
    define("add", schema).with_description("Add two integers.")
}

fn check(actual: impl serde::Serialize, expect: Expect) {
    expect.assert_eq(&serde_json::to_string(&actual).unwrap());
}

/// A tool is converted to OpenAI's function format, without strict mode.
#[test]
fn tool_is_encoded_for_chat_completions() {
    check(
        haft_openai::encode_tool(&add()),
        expect![[
            r#"{"type":"function","function":{"name":"add","description":"Add two integers.","parameters":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer","default":0}},"required":["x"]}}}"#
        ]],
    );
}

/// An empty `properties` is added to a schema without this keyword.
#[test]
fn tool_without_arguments_has_empty_properties() {
    check(
        haft_openai::encode_tool(&define("ping", json!({"type": "object"}))),
        expect![[
            r#"{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}}}"#
        ]],
    );
}

/// The title, the metadata and the annotations of a tool may come from an untrusted MCP server, so
/// they are not sent to the model.
#[test]
fn annotations_and_metadata_are_not_sent() {
    let Value::Object(metadata) = json!({"secret": 1}) else { unreachable!() };
    let annotations = haft_core::tool::Annotations { read_only: Some(true), ..Default::default() };
    let tool = add().with_title("Add").with_metadata(metadata).with_annotations(annotations);
    assert_eq!(haft_openai::encode_tool(&tool), haft_openai::encode_tool(&add()));
}

/// In the schema of a strict tool, an optional argument becomes required and nullable.
#[test]
fn strict_tool_requires_all_properties() {
    check(
        haft_openai::encode_strict_tool(&add()),
        expect![[
            r#"{"type":"function","function":{"name":"add","description":"Add two integers.","parameters":{"type":"object","properties":{"x":{"type":"integer"},"y":{"description":"default: 0","type":["integer","null"]}},"required":["x","y"],"additionalProperties":false},"strict":true}}"#
        ]],
    );
}

/// A tool with an incompatible schema is sent without `strict`. Alternatives at the root are
/// merged.
#[test]
fn incompatible_tool_is_sent_without_strict() {
    check(
        haft_openai::encode_strict_tool(&define("set", json!({"additionalProperties": {"type": "string"}}))),
        expect![[
            r#"{"type":"function","function":{"name":"set","parameters":{"type":"object","properties":{},"additionalProperties":{"type":"string"}}}}"#
        ]],
    );
    let either = json!({"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        haft_openai::encode_strict_tool(&define("set", either.clone())),
        haft_openai::encode_tool(&define("set", either.clone()))
    );
    check(
        haft_openai::encode_tool(&define("set", either)),
        expect![[
            r#"{"type":"function","function":{"name":"set","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"description":"anyOf: [{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{\"required\":[\"b\"]}]"}}}"#
        ]],
    );
}

/// Alternatives at the root of a schema are also merged for the Responses API, because it rejects
/// them.
#[test]
fn root_alternatives_are_merged_for_responses() {
    let either = json!({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]});
    let either = define("set", either);
    check(
        haft_openai::responses::encode_strict_tool(&either),
        expect![[
            r#"{"type":"function","name":"set","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"description":"oneOf: [{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"b\":{\"type\":\"integer\"}}}]"},"strict":false}"#
        ]],
    );
    assert_eq!(
        haft_openai::responses::encode_tool(&either),
        haft_openai::responses::encode_strict_tool(&either)
    );
}

#[test]
fn strict_tool_of_the_responses_api() {
    check(
        haft_openai::responses::encode_strict_tool(&add()),
        expect![[
            r#"{"type":"function","name":"add","parameters":{"type":"object","properties":{"x":{"type":"integer"},"y":{"description":"default: 0","type":["integer","null"]}},"required":["x","y"],"additionalProperties":false},"strict":true,"description":"Add two integers."}"#
        ]],
    );
    let list = ToolList::new("test", [DynamicTool::new(add(), |_, _| async {})]);
    assert_eq!(
        haft_openai::responses::encode_strict_tools(&list),
        [haft_openai::responses::encode_strict_tool(&add())]
    );
    assert_eq!(haft_openai::responses::encode_tools(&list), [haft_openai::responses::encode_tool(&add())]);
}

#[test]
fn strict_and_non_strict_lists_are_cached_separately() {
    let list = ToolList::new("test", [DynamicTool::new(add(), |_, _| async {})]);
    let (open, strict) = (haft_openai::encode_tools(&list), haft_openai::encode_strict_tools(&list));
    assert!(Arc::ptr_eq(&strict, &haft_openai::encode_strict_tools(&list.clone())));
    assert!(Arc::ptr_eq(&open, &haft_openai::encode_tools(&list)));
    assert_eq!(json!(strict), json!([haft_openai::encode_strict_tool(&add())]));
    assert_ne!(open.to_string(), strict.to_string());
}

#[test]
fn encoded_tool_list_is_cached() {
    let list = ToolList::new("test", [DynamicTool::new(add(), |_, _| async {})]);
    let rendered = haft_openai::encode_tools(&list);
    assert!(Arc::ptr_eq(&rendered, &haft_openai::encode_tools(&list.clone())));
    assert_eq!(json!(rendered), json!([haft_openai::encode_tool(&add())]));
    assert_eq!(rendered.to_string(), json!(rendered).to_string());
}

#[test]
fn messages_of_each_role_are_encoded() {
    let pieces = vec![Content::text("What is this?"), Content::from_bytes(*b"cat", "image/png")];
    check(
        haft_openai::encode_message(&Message::system("Be brief.")),
        expect![[r#"{"role":"system","content":"Be brief."}"#]],
    );
    check(
        haft_openai::encode_message(&Message::new(haft_core::message::MessageBody::User { content: pieces })),
        expect![[
            r#"{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,Y2F0"}}]}"#
        ]],
    );
    check(
        haft_openai::encode_message(&Message::assistant("A cat.")),
        expect![[r#"{"role":"assistant","content":"A cat."}"#]],
    );
    let message = AssistantMessage { refusal: Some("No.".into()), ..AssistantMessage::default() };
    check(
        haft_openai::encode_message(&Message::assistant(message)),
        expect![[r#"{"role":"assistant","content":"No."}"#]],
    );
}

#[test]
fn tool_results_are_encoded() {
    let done =
        ToolResult::done("a", "add", ToolOutput::structured(json!({"sum": 3})).with_warning("rounded"));
    check(
        haft_openai::encode_message(&Message::tool(done)),
        expect![[r#"{"role":"tool","tool_call_id":"a","content":"{\"sum\":3}\nWarning: rounded"}"#]],
    );
    let failed = ToolResult::failed("b", "add", &ToolError::failed("no disk"));
    check(
        haft_openai::encode_message(&Message::tool(failed)),
        expect![[r#"{"role":"tool","tool_call_id":"b","content":"no disk"}"#]],
    );
}

#[test]
fn assistant_message_round_trips() {
    let message = AssistantMessage {
        content: vec![Content::text("Let me add.")],
        tool_calls: vec![ToolCall::new("a", "add", r#"{"x":1}"#), ToolCall::new("b", "add", r#"{"x":2}"#)],
        ..AssistantMessage::default()
    };
    let wire = haft_openai::encode_message(&Message::assistant(message.clone()));
    assert_eq!(haft_openai::decode_message(&wire).unwrap(), message);
    assert_eq!(haft_openai::decode_tool_calls(&wire).unwrap(), message.tool_calls);
}

#[test]
fn whole_reply_is_decoded() {
    let reply = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    let reply = haft_openai::decode_response(&reply).unwrap();
    assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("Hi", FinishReason::Stop));
    assert!(haft_openai::decode_response(&json!({"hello": 1})).is_err());
    assert!(haft_openai::decode_message(&json!("Hi")).is_err());
}
