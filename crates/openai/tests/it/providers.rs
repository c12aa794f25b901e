//! The forms of other providers: what is sent, and what of a reply is read.

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
    /// What the names match.
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

/// A result with text and a picture, and one that failed.
fn results() -> [ToolResult; 2] {
    let content = vec![Content::text("a cat"), Content::blob(*b"\x89PNG", "image/png")];
    let output = ToolOutput { content, ..ToolOutput::default() };
    [ToolResult::done("a", "draw", output), ToolResult::failed("b", "ping", &ToolError::failed("no luck"))]
}

fn pretty(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).unwrap()
}

#[test]
fn anthropic_both_ways() {
    expect![[r#"[{"name":"search_files","input_schema":{"type":"object","properties":{"pattern":{"type":"string","description":"What the names match."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping","input_schema":{"type":"object","properties":{}}}]"#]].assert_eq(&pretty(anthropic::tools(&list())));
    expect![[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"a cat"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]},{"type":"tool_result","tool_use_id":"b","content":"no luck","is_error":true}]}"#]].assert_eq(&pretty(anthropic::tool_results(&results())));
    let reply = json!({"content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "ping", "input": null},
        {"type": "tool_use", "id": "b", "name": "search_files", "input": {"pattern": "*.rs"}},
    ]});
    let calls =
        [ToolCall::new("a", "ping", "{}"), ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#)];
    assert_eq!(anthropic::tool_calls(&reply).unwrap(), calls);
    assert_eq!(anthropic::tool_calls(&json!({"content": "Hi"})).unwrap(), []);
    refused(
        anthropic::tool_calls,
        &[json!({}), json!([]), json!({"content": [{"type": "tool_use", "name": "a"}]})],
    );
}

#[test]
fn gemini_both_ways() {
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parametersJsonSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"What the names match."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&pretty(gemini::tools(&list())));
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parameters":{"type":"object","properties":{"pattern":{"description":"What the names match.","type":"string"},"max_results":{"description":"default: 100","type":"integer","minimum":0}},"required":["pattern"]},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&pretty(gemini::subset_tools(&list())));
    expect![[r#"{"role":"user","parts":[{"functionResponse":{"name":"draw","response":{"output":"a cat\n[image/png, 4 bytes]"},"id":"a"}},{"functionResponse":{"name":"ping","response":{"error":"no luck"},"id":"b"}}]}"#]].assert_eq(&pretty(gemini::tool_results(&results())));
    let data = ToolResult::done("", "count", ToolOutput::structured(json!({"n": 3})));
    expect![[
        r#"{"role":"user","parts":[{"functionResponse":{"name":"count","response":{"output":{"n":3}}}}]}"#
    ]]
    .assert_eq(&pretty(gemini::tool_results([&data])));
    // What a model reads is what is sent: nothing that was cut, and no warning is lost.
    let said = |result: ToolResult| {
        gemini::tool_results([&result])["parts"][0]["functionResponse"]["response"]["output"].clone()
    };
    let cut = ToolOutput {
        content: vec![Content::text("{\"n\":3 [cut]")],
        ..ToolOutput::structured(json!({"n": 3}))
    };
    assert_eq!(said(ToolResult::done("", "count", cut)), json!("{\"n\":3 [cut]"));
    let warned = ToolOutput::structured(json!({"n": 3})).with_warning("rounded");
    assert_eq!(said(ToolResult::done("", "count", warned)), json!("{\"n\":3}\nWarning: rounded"));
    let both =
        ToolOutput { content: vec![Content::text("{\"n\": 3}")], ..ToolOutput::structured(json!({"n": 3})) };
    assert_eq!(said(ToolResult::done("", "count", both)), json!({"n": 3}));
    let content = json!({"parts": [
        {"text": "I look.", "functionCall": null},
        {"functionCall": {"name": "ping"}},
        {"functionCall": {"id": "b", "name": "search_files", "args": {"pattern": "*.rs"}}},
    ]});
    let calls =
        [ToolCall::new("", "ping", "{}"), ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#)];
    assert_eq!(gemini::tool_calls(&content).unwrap(), calls);
    assert_eq!(gemini::tool_calls(&json!({"role": "model"})).unwrap(), []);
    assert_eq!(gemini::tool_calls(&json!({"role": "model", "parts": null})).unwrap(), []);
    refused(
        gemini::tool_calls,
        &[json!("Hi"), json!({"parts": 1}), json!({"parts": [{"functionCall": {}}]})],
    );
}

/// A function without declared parameters may take some all the same.
#[test]
fn gemini_is_told_of_every_parameter() {
    let takes = |schema| {
        let definition =
            ToolDefinition::new(ToolName::new("set").unwrap(), Schema::arguments(schema).unwrap());
        let parameters = [gemini::tool(&definition), gemini::subset_tool(&definition)];
        parameters.map(|it| it.get("parametersJsonSchema").or(it.get("parameters")).map(pretty))
    };
    assert_eq!(
        takes(json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "required": []})),
        [None, None]
    );
    let [whole, part] = takes(json!({"additionalProperties": {"type": "string"}}));
    expect![[r#"
        {"type":"object","properties":{},"additionalProperties":{"type":"string"}}
        {"description":"additionalProperties: {\"type\":\"string\"}","type":"object"}"#]]
    .assert_eq(&format!("{}\n{}", whole.unwrap(), part.unwrap()));
    let [whole, part] = takes(
        json!({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"properties": {"b": {}}}}}),
    );
    expect![[r##"
        {"type":"object","oneOf":[{"properties":{"a":{"type":"integer"}}},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{}}}}}
        {"type":"object","properties":{"a":{"type":"integer"},"b":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}}}"##]].assert_eq(&format!("{}\n{}", whole.unwrap(), part.unwrap()));
}

#[test]
fn responses_both_ways() {
    expect![[r#"[{"type":"function","name":"search_files","parameters":{"type":"object","properties":{"pattern":{"type":"string","description":"What the names match."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"strict":false,"description":"Searches files."},{"type":"function","name":"ping","parameters":{"type":"object","properties":{}},"strict":false}]"#]].assert_eq(&pretty(responses::tools(&list())));
    expect![[r#"[{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"a cat"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw=="}]},{"type":"function_call_output","call_id":"b","output":"no luck"}]"#]].assert_eq(&pretty(responses::tool_results(&results())));
    let response = json!({"output": [
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "ping", "arguments": ""},
    ]});
    assert_eq!(responses::tool_calls(&response).unwrap(), [ToolCall::new("a", "ping", "")]);
    refused(responses::tool_calls, &[json!({}), json!({"output": [{"type": "function_call", "name": "a"}]})]);
}

fn refused(read: impl Fn(&Value) -> Result<Vec<ToolCall>, ModelError>, replies: &[Value]) {
    for reply in replies {
        assert!(matches!(read(reply), Err(ModelError::InvalidResponse(_))), "{reply}");
    }
}

/// A whole reply has no calls where a message has them: that there are none would be a lie.
#[test]
fn a_whole_reply_is_no_message() {
    let message = json!({"role": "assistant", "content": "Hi"});
    let reply = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    refused(haft_openai::tool_calls, &[reply]);
    assert_eq!(haft_openai::tool_calls(&message).unwrap(), []);
}
