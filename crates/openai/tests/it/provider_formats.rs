//! Tests of the formats of the Responses API: tools and results are encoded, and calls
//! are decoded.

use expect_test::expect;
use haft_core::{
    ToolCall, ToolError, ToolOutput, ToolResult, content::Content, model::ModelError, tool, toolset::ToolList,
};
use haft_openai::responses;
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

fn list() -> ToolList {
    ToolList::new("test", [&SearchFiles as &'static dyn haft_core::Tool, &Ping])
}

/// Returns a successful result with text and an image, and a failed result.
fn results() -> [ToolResult; 2] {
    let content = vec![
        Content::text("a cat"),
        Content::from_bytes(*b"\x89PNG", "image/png"),
        Content::from_bytes(*b"<svg/>", "image/svg+xml"),
    ];
    let output = ToolOutput { content, ..ToolOutput::default() }.with_warning("from the cache");
    [ToolResult::done("a", "draw", output), ToolResult::failed("b", "ping", &ToolError::failed("no luck"))]
}

fn json_of(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).unwrap()
}

#[test]
fn responses_format_is_encoded_and_decoded() {
    expect![[r#"[{"type":"function","name":"search_files","parameters":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern of file names."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"strict":false,"description":"Searches files."},{"type":"function","name":"ping","parameters":{"type":"object","properties":{}},"strict":false}]"#]].assert_eq(&json_of(responses::encode_tools(&list())));
    expect![[r#"[{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"a cat"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw=="},{"type":"input_text","text":"[image/svg+xml, 6 bytes]"},{"type":"input_text","text":"Warning: from the cache"}]},{"type":"function_call_output","call_id":"b","output":"no luck"}]"#]].assert_eq(&json_of(responses::encode_tool_results(&results())));
    let response = json!({"output": [
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "ping", "arguments": ""},
    ]});
    assert_eq!(responses::decode_tool_calls(&response).unwrap(), [ToolCall::new("a", "ping", "")]);
    check_invalid(
        responses::decode_tool_calls,
        &[json!({}), json!({"output": [{"type": "function_call", "name": "a"}]})],
    );
}

fn check_invalid(read: impl Fn(&Value) -> Result<Vec<ToolCall>, ModelError>, replies: &[Value]) {
    for reply in replies {
        assert!(matches!(read(reply), Err(ModelError::InvalidResponse(_))), "{reply}");
    }
}

/// A whole reply in place of its message is an error, because it would otherwise be decoded as a
/// message without calls.
#[test]
fn whole_reply_in_place_of_a_message_is_rejected() {
    let message = json!({"role": "assistant", "content": "Hi"});
    let reply = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    check_invalid(haft_openai::decode_tool_calls, &[reply]);
    assert_eq!(haft_openai::decode_tool_calls(&message).unwrap(), []);
}

/// A call with an empty name is an error in each format.
#[test]
fn call_with_an_empty_name_is_rejected() {
    let chat = json!({"tool_calls": [{"id": "a", "function": {"name": "", "arguments": "{\"n\":1}"}}]});
    let responses =
        json!({"output": [{"type": "function_call", "call_id": "a", "name": "", "arguments": "{}"}]});
    check_invalid(haft_openai::decode_tool_calls, &[chat]);
    check_invalid(responses::decode_tool_calls, &[responses]);
}
