//! Whatever the weights, only calls that fit their schemas come out.

use haft_core::{
    ChatModel, Message, Schema, Tool, ToolDefinition,
    model::{ChatRequest, FinishReason, ModelError, ToolChoice},
};
use haft_core::{ToolName, ToolOutput, tool::DynamicTool, toolset::ToolList};
use serde_json::{Value, json};

use crate::tiny::TinyFile;

/// Schemas of arguments, by what is hard about them.
fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("no arguments", json!({"type": "object", "properties": {}})),
        (
            "scalars",
            object(
                json!({"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": "boolean"}, "d": {"type": "null"}}),
            ),
        ),
        (
            "an optional property",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}),
        ),
        (
            "nesting",
            object(
                json!({"who": object(json!({"name": {"type": "string"}, "at": object(json!({"x": {"type": "number"}}))}))}),
            ),
        ),
        ("an enumeration", object(json!({"unit": {"enum": ["celsius", "fahrenheit", 3, null, {"x": 1.5}]}}))),
        ("a constant", object(json!({"kind": {"const": "a \"quoted\" kind"}}))),
        (
            "alternatives",
            object(
                json!({"v": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}, object(json!({"deep": {"type": "boolean"}}))]}}),
            ),
        ),
        (
            "exclusive alternatives",
            object(
                json!({"v": {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 10}, {"type": "string"}]}}),
            ),
        ),
        (
            "recursion",
            json!({"$defs": {"Node": {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}, "required": ["value", "children"], "additionalProperties": false}}, "$ref": "#/$defs/Node"}),
        ),
        (
            "a reference with escapes",
            json!({"$defs": {"a/b c~": {"type": "integer"}}, "type": "object", "properties": {"v": {"$ref": "#/$defs/a~1b%20c~0"}}, "required": ["v"]}),
        ),
        ("a pattern", object(json!({"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}}))),
        (
            "a pattern with lookahead",
            object(json!({"code": {"type": "string", "pattern": "^(?!x)[a-z]*$", "maxLength": 4}})),
        ),
        (
            "formats",
            object(
                json!({"day": {"type": "string", "format": "date"}, "when": {"type": "string", "format": "date-time"}, "id": {"type": "string", "format": "uuid"}, "mail": {"type": "string", "format": "email"}, "site": {"type": "string", "format": "uri"}, "ip": {"type": "string", "format": "ipv4"}}),
            ),
        ),
        (
            "rare formats",
            object(
                json!({"a": {"type": "string", "format": "json-pointer"}, "b": {"type": "string", "format": "regex"}, "c": {"type": "string", "format": "uri-reference"}, "d": {"type": "integer", "format": "int64"}}),
            ),
        ),
        (
            "ranges",
            object(
                json!({"n": {"type": "integer", "minimum": -5, "exclusiveMaximum": 12}, "x": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.25}, "m": {"type": "integer", "multipleOf": 7}}),
            ),
        ),
        (
            "lengths",
            object(
                json!({"s": {"type": "string", "minLength": 3, "maxLength": 6}, "l": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}}),
            ),
        ),
        (
            "a tuple",
            object(
                json!({"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2}}),
            ),
        ),
        ("an open map", json!({"type": "object", "additionalProperties": {"type": "integer"}})),
        (
            "a map with patterns",
            json!({"type": "object", "patternProperties": {"^x_": {"type": "string"}}, "additionalProperties": false}),
        ),
        ("anything", json!({"type": "object"})),
        (
            "an intersection",
            json!({"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string", "maxLength": 2}}, "required": ["b"]}]}),
        ),
        ("several types", object(json!({"v": {"type": ["string", "integer", "null"]}}))),
        (
            "a refusal",
            object(json!({"v": {"type": "integer", "minimum": 0, "maximum": 9, "not": {"const": 3}}})),
        ),
        (
            "a condition",
            json!({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}}, "required": ["kind"], "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["n"]}}),
        ),
        (
            "unique items",
            object(
                json!({"l": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": true, "maxItems": 2}}),
            ),
        ),
        (
            "a required property that is not declared",
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}),
        ),
        (
            "a property that asks for another",
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "dependentRequired": {"a": ["b"]}}),
        ),
        (
            "an anchor",
            json!({"$defs": {"n": {"$anchor": "node", "enum": ["x", "y"]}}, "type": "object", "properties": {"v": {"$ref": "#node"}}, "required": ["v"]}),
        ),
        ("a chain of references", chain(2500)),
        ("letters that have another form", object(json!({"e\u{301}t\u{e9}": {"const": "\u{2126}"}}))),
        (
            "names of properties",
            json!({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "propertyNames": {"maxLength": 40}}),
        ),
    ]
}

/// More links than a stack has room for.
fn chain(links: usize) -> Value {
    let link =
        |index: usize| (index.to_string(), json!({"items": {"$ref": format!("#/$defs/{}", index + 1)}}));
    let definitions: serde_json::Map<_, _> =
        (0..links).map(link).chain([(links.to_string(), json!(true))]).collect();
    json!({"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/0", "type": "array", "maxItems": 1}}, "required": ["a"]})
}

fn object(properties: Value) -> Value {
    let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

fn tool(name: &str, schema: &Value) -> DynamicTool {
    let definition =
        ToolDefinition::new(ToolName::new(name).unwrap(), Schema::arguments(schema.clone()).unwrap());
    DynamicTool::new(definition.with_description("Does something."), |_, _| async {
        Ok::<_, haft_core::ToolError>(ToolOutput::from("ok"))
    })
}

pub(crate) fn request(choice: ToolChoice, schema: &Value) -> ChatRequest {
    let tools = ToolList::new("test", [tool("first", schema), tool("second", schema)]);
    let request = ChatRequest::new([Message::user("Do something.")]).with_tools(tools);
    ChatRequest { tool_choice: choice, ..request }
}

/// What a grammar cannot express is checked on the finished call, and random weights may never get it right: then
/// there is an error, and no call.
const BEYOND_GRAMMAR: [&str; 5] =
    ["a pattern with lookahead", "a refusal", "a condition", "unique items", "names of properties"];

/// Every call of a random model is whole and fits its schema. A reply that comes to its limit has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_weights_make_valid_calls_only() {
    let model = TinyFile::new(0).load().await;
    let (mut replies, mut called) = (0, 0);
    for (what, schema) in schemas() {
        let mut request = request(ToolChoice::Required, &schema);
        request.settings.temperature = Some(1.0);
        request.settings.seed = Some(1);
        let reply = match model.chat(&request).await {
            Ok(reply) => reply,
            Err(ModelError::InvalidResponse(_)) if BEYOND_GRAMMAR.contains(&what) => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        replies += 1;
        called += usize::from(reply.finish_reason == FinishReason::ToolCalls);
        assert_eq!(
            reply.message.tool_calls.is_empty(),
            reply.finish_reason == FinishReason::Length,
            "{what}"
        );
        for call in &reply.message.tool_calls {
            let tool = request.tools.get(&call.name).expect(what);
            let arguments: Value = serde_json::from_str(&call.arguments).expect(what);
            let fits = tool.definition().input_schema().validate(&arguments);
            assert!(fits.is_ok(), "{what}: {} {}", call.arguments, fits.unwrap_err());
        }
    }
    assert!(called * 4 >= replies * 3, "only {called} of {replies} replies have calls");
}
