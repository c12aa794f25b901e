//! The format of `generateContent` without a client.

use expect_test::expect;
use haft_core::{
    Schema, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult, content::Content,
    model::ModelError, tool, toolset::ToolList,
};
use haft_gemini::{
    decode_tool_calls, encode_openapi_tool, encode_openapi_tools, encode_tool, encode_tool_results,
    encode_tools,
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

#[test]
fn tools_are_encoded() {
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parametersJsonSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern of file names."},"max_results":{"type":"integer","default":100,"minimum":0}},"required":["pattern"],"additionalProperties":false},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&encode_tools(&list()).to_string());
    expect![[r#"{"functionDeclarations":[{"name":"search_files","parameters":{"type":"object","properties":{"pattern":{"description":"Glob pattern of file names.","type":"string"},"max_results":{"description":"default: 100","type":"integer","minimum":0}},"required":["pattern"]},"description":"Searches files."},{"name":"ping"}]}"#]].assert_eq(&encode_openapi_tools(&list()).to_string());
}

#[test]
fn results_are_encoded() {
    expect![[r#"{"role":"user","parts":[{"functionResponse":{"name":"draw","response":{"output":"a cat\n[image/png, 4 bytes]\n[image/svg+xml, 6 bytes]\nWarning: from the cache"},"id":"a"}},{"functionResponse":{"name":"ping","response":{"error":"no luck"},"id":"b"}}]}"#]].assert_eq(&encode_tool_results(&results()).to_string());
    let data = ToolResult::done("", "count", ToolOutput::structured(json!({"n": 3})));
    expect![[
        r#"{"role":"user","parts":[{"functionResponse":{"name":"count","response":{"output":{"n":3}}}}]}"#
    ]]
    .assert_eq(&encode_tool_results([&data]).to_string());
}

/// Structured data is sent only if it equals the text for the model, and if Gemini accepts it. The
/// text may be shortened or contain a warning.
#[test]
fn structured_results_are_data_or_text() {
    let output_of = |output: ToolOutput| {
        let result = ToolResult::done("", "count", output);
        encode_tool_results([&result])["parts"][0]["functionResponse"]["response"]["output"].clone()
    };
    let data = || ToolOutput::structured(json!({"n": 3}));
    let with_text = |text: &str| ToolOutput { content: vec![Content::text(text)], ..data() };
    assert_eq!(output_of(with_text("{\"n\":3 [cut]")), json!("{\"n\":3 [cut]"));
    assert_eq!(output_of(data().with_warning("rounded")), json!("{\"n\":3}\nWarning: rounded"));
    assert_eq!(output_of(with_text("{\"n\": 3}")), json!({"n": 3}));
    let reference = json!({"schema": [{"$ref": "#/$defs/a"}]});
    assert_eq!(output_of(ToolOutput::structured(reference.clone())), json!(reference.to_string()));
}

#[test]
fn calls_are_decoded() {
    let content = json!({"parts": [
        {"text": "I look.", "functionCall": null},
        {"functionCall": {"name": "ping"}},
        {"functionCall": {"id": "b", "name": "search_files", "args": {"pattern": "*.rs"}}},
        {"functionCall": {"id": "c", "name": "_.3d_print", "args": null}},
    ]});
    let calls = [
        ToolCall::new("", "ping", "{}"),
        ToolCall::new("b", "search_files", r#"{"pattern":"*.rs"}"#),
        ToolCall::new("c", "3d_print", "{}"),
    ];
    assert_eq!(decode_tool_calls(&content).unwrap(), calls);
    assert_eq!(decode_tool_calls(&json!({"role": "model"})).unwrap(), []);
    assert_eq!(decode_tool_calls(&json!({"role": "model", "parts": null})).unwrap(), []);
    for invalid in [
        json!("Hi"),
        json!({"parts": 1}),
        json!({"parts": [{"functionCall": {}}]}),
        json!({"parts": [{"functionCall": {"name": "", "args": {"n": 1}}}]}),
    ] {
        assert!(matches!(decode_tool_calls(&invalid), Err(ModelError::InvalidResponse(_))), "{invalid}");
    }
}

/// A schema without `properties` is omitted only if it declares no arguments, because it may
/// declare arguments in other keywords such as `additionalProperties`.
#[test]
fn schema_is_omitted_only_without_arguments() {
    let parameters_of = |schema| {
        let definition =
            ToolDefinition::new(ToolName::new("set").unwrap(), Schema::for_arguments(schema).unwrap());
        let parameters = [encode_tool(&definition), encode_openapi_tool(&definition)];
        parameters.map(|it| it.get("parametersJsonSchema").or(it.get("parameters")).map(Value::to_string))
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
