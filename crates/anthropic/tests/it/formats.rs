//! The format functions, which need no HTTP client.

use expect_test::expect;
use haft_core::{
    Schema, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult, content::Content,
    model::ModelError, tool, toolset::ToolList,
};
use serde_json::{Value, json};

/// Searches files.
#[tool]
fn search_files(
    /// Glob pattern of file names.
    pattern: String,
    #[tool(default = 100)] max_results: u32,
) -> String {
    format!("{pattern} {max_results}")
}

#[tool]
fn ping() -> &'static str {
    "pong"
}

fn json_of(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).unwrap()
}

#[test]
fn tools_and_results_are_encoded_and_calls_decoded() {
    let list = ToolList::new("test", [&SearchFiles as &'static dyn haft_core::Tool, &Ping]);
    expect![[r#"[{"name":"search_files","input_schema":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern of file names."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping","input_schema":{"type":"object","properties":{}}}]"#]].assert_eq(&json_of(haft_anthropic::encode_tools(&list)));
    let content = vec![
        Content::text("a cat"),
        Content::from_bytes(*b"\x89PNG", "image/png"),
        Content::from_bytes(*b"<svg/>", "image/svg+xml"),
    ];
    let output = ToolOutput { content, ..ToolOutput::default() }.with_warning("from the cache");
    let results = [
        ToolResult::done("a", "draw", output),
        ToolResult::failed("b", "ping", &ToolError::failed("no luck")),
    ];
    expect![[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"a cat"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},{"type":"text","text":"[image/svg+xml, 6 bytes]"},{"type":"text","text":"Warning: from the cache"}]},{"type":"tool_result","tool_use_id":"b","content":"no luck","is_error":true}]}"#]].assert_eq(&json_of(haft_anthropic::encode_tool_results(&results)));
    let reply = json!({"content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "ping", "input": null},
        {"type": "tool_use", "id": "b", "name": "search_files", "input": {"pattern": "*.rs"}},
    ]});
    let calls =
        [ToolCall::new("a", "ping", "{}"), ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#)];
    assert_eq!(haft_anthropic::decode_tool_calls(&reply).unwrap(), calls);
    assert_eq!(haft_anthropic::decode_tool_calls(&json!({"content": "Hi"})).unwrap(), []);
}

/// The API rejects whitespace as a text, and an error without content.
#[test]
fn blank_results_are_valid() {
    let failed = ToolResult::failed("b", "ping", &ToolError::failed(" "));
    let results = [ToolResult::done("a", "ping", ToolOutput::from(" \n")), failed];
    let message = haft_anthropic::encode_tool_results(&results);
    assert_eq!(message["content"][0]["content"], "");
    assert_eq!(message["content"][1]["content"], "The tool failed.");
}

#[test]
fn malformed_replies_are_rejected() {
    for reply in [
        json!({}),
        json!([]),
        json!({"content": [{"type": "tool_use", "name": "a"}]}),
        json!({"content": [{"type": "tool_use", "id": "a", "name": "", "input": {"n": 1}}]}),
    ] {
        let error = haft_anthropic::decode_tool_calls(&reply);
        assert!(matches!(error, Err(ModelError::InvalidResponse(_))), "{reply}");
    }
}

/// Alternatives at the root are merged, because the API rejects them. Such a tool cannot be strict.
#[test]
fn root_alternatives_are_merged() {
    let define = |schema: Value| {
        ToolDefinition::new(ToolName::new("set").unwrap(), Schema::for_arguments(schema).unwrap())
    };
    let either = define(
        json!({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]}),
    );
    expect![[r#"{"name":"set","input_schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"description":"oneOf: [{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"b\":{\"type\":\"integer\"}}}]"}}"#]].assert_eq(&json_of(haft_anthropic::encode_tool(&either)));
    assert_eq!(haft_anthropic::encode_strict_tool(&either), haft_anthropic::encode_tool(&either));
    let optional = define(json!({"properties": {"a": {"type": "integer"}}}));
    expect![[r#"{"name":"set","input_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":[],"additionalProperties":false},"strict":true}"#]].assert_eq(&json_of(haft_anthropic::encode_strict_tool(&optional)));
}
