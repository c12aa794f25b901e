//! Tests of the Anthropic, Gemini and Responses formats: tools and results are encoded, and calls
//! are decoded.

use expect_test::expect;
use haft_core::{
    Schema, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult, content::Content,
    model::ModelError, tool, toolset::ToolList,
};
use haft_openai::{anthropic, gemini, responses};
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
fn anthropic_format_is_encoded_and_decoded() {
    expect![[r#"[{"name":"search_files","input_schema":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern of file names."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping","input_schema":{"type":"object","properties":{}}}]"#]].assert_eq(&json_of(anthropic::encode_tools(&list())));
    expect![[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"a cat"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},{"type":"text","text":"[image/svg+xml, 6 bytes]"},{"type":"text","text":"Warning: from the cache"}]},{"type":"tool_result","tool_use_id":"b","content":"no luck","is_error":true}]}"#]].assert_eq(&json_of(anthropic::encode_tool_results(&results())));
    let reply = json!({"content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "ping", "input": null},
        {"type": "tool_use", "id": "b", "name": "search_files", "input": {"pattern": "*.rs"}},
    ]});
    let calls =
        [ToolCall::new("a", "ping", "{}"), ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#)];
    assert_eq!(anthropic::decode_tool_calls(&reply).unwrap(), calls);
    assert_eq!(anthropic::decode_tool_calls(&json!({"content": "Hi"})).unwrap(), []);
    check_invalid(
        anthropic::decode_tool_calls,
        &[json!({}), json!([]), json!({"content": [{"type": "tool_use", "name": "a"}]})],
    );
}

#[test]
fn gemini_format_is_encoded_and_decoded() {
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parametersJsonSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern of file names."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&json_of(gemini::encode_tools(&list())));
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parameters":{"type":"object","properties":{"pattern":{"description":"Glob pattern of file names.","type":"string"},"max_results":{"description":"default: 100","type":"integer","minimum":0}},"required":["pattern"]},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&json_of(gemini::encode_openapi_tools(&list())));
    expect![[r#"{"role":"user","parts":[{"functionResponse":{"name":"draw","response":{"output":"a cat\n[image/png, 4 bytes]\n[image/svg+xml, 6 bytes]\nWarning: from the cache"},"id":"a"}},{"functionResponse":{"name":"ping","response":{"error":"no luck"},"id":"b"}}]}"#]].assert_eq(&json_of(gemini::encode_tool_results(&results())));
    let data = ToolResult::done("", "count", ToolOutput::structured(json!({"n": 3})));
    expect![[
        r#"{"role":"user","parts":[{"functionResponse":{"name":"count","response":{"output":{"n":3}}}}]}"#
    ]]
    .assert_eq(&json_of(gemini::encode_tool_results([&data])));
    // Structured data is sent only if it equals the text for the model. If they differ, the text is
    // sent instead, because it may be shortened or contain a warning.
    let output_of = |result: ToolResult| {
        gemini::encode_tool_results([&result])["parts"][0]["functionResponse"]["response"]["output"].clone()
    };
    let cut = ToolOutput {
        content: vec![Content::text("{\"n\":3 [cut]")],
        ..ToolOutput::structured(json!({"n": 3}))
    };
    assert_eq!(output_of(ToolResult::done("", "count", cut)), json!("{\"n\":3 [cut]"));
    let warned = ToolOutput::structured(json!({"n": 3})).with_warning("rounded");
    assert_eq!(output_of(ToolResult::done("", "count", warned)), json!("{\"n\":3}\nWarning: rounded"));
    let both =
        ToolOutput { content: vec![Content::text("{\"n\": 3}")], ..ToolOutput::structured(json!({"n": 3})) };
    assert_eq!(output_of(ToolResult::done("", "count", both)), json!({"n": 3}));
    let content = json!({"parts": [
        {"text": "I look.", "functionCall": null},
        {"functionCall": {"name": "ping"}},
        {"functionCall": {"id": "b", "name": "search_files", "args": {"pattern": "*.rs"}}},
    ]});
    let calls =
        [ToolCall::new("", "ping", "{}"), ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#)];
    assert_eq!(gemini::decode_tool_calls(&content).unwrap(), calls);
    assert_eq!(gemini::decode_tool_calls(&json!({"role": "model"})).unwrap(), []);
    assert_eq!(gemini::decode_tool_calls(&json!({"role": "model", "parts": null})).unwrap(), []);
    check_invalid(
        gemini::decode_tool_calls,
        &[json!("Hi"), json!({"parts": 1}), json!({"parts": [{"functionCall": {}}]})],
    );
}

/// A schema without `properties` is omitted only if it declares no arguments, because it may
/// declare arguments in other keywords such as `additionalProperties`.
#[test]
fn gemini_schema_is_omitted_only_without_arguments() {
    let parameters_of = |schema| {
        let definition =
            ToolDefinition::new(ToolName::new("set").unwrap(), Schema::for_arguments(schema).unwrap());
        let parameters = [gemini::encode_tool(&definition), gemini::encode_openapi_tool(&definition)];
        parameters.map(|it| it.get("parametersJsonSchema").or(it.get("parameters")).map(json_of))
    };
    assert_eq!(
        parameters_of(json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "required": []})),
        [None, None]
    );
    let [whole, part] = parameters_of(json!({"additionalProperties": {"type": "string"}}));
    expect![[r#"
        {"type":"object","properties":{},"additionalProperties":{"type":"string"}}
        {"description":"additionalProperties: {\"type\":\"string\"}","type":"object"}"#]]
    .assert_eq(&format!("{}\n{}", whole.unwrap(), part.unwrap()));
    let [whole, part] = parameters_of(
        json!({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"properties": {"b": {}}}}}),
    );
    expect![[r##"
        {"type":"object","oneOf":[{"properties":{"a":{"type":"integer"}}},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{}}}}}
        {"type":"object","properties":{"a":{"type":"integer"},"b":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}}}"##]].assert_eq(&format!("{}\n{}", whole.unwrap(), part.unwrap()));
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
    let anthropic = json!({"content": [{"type": "tool_use", "id": "a", "name": "", "input": {"n": 1}}]});
    let gemini = json!({"parts": [{"functionCall": {"name": "", "args": {"n": 1}}}]});
    check_invalid(haft_openai::decode_tool_calls, &[chat]);
    check_invalid(responses::decode_tool_calls, &[responses]);
    check_invalid(anthropic::decode_tool_calls, &[anthropic]);
    check_invalid(gemini::decode_tool_calls, &[gemini]);
}
