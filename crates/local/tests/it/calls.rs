//! Tests of tool calls with models that have random weights. All calls must be valid.

use futures::StreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, Tool, ToolCall, ToolDefinition, ToolResult,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError, ToolChoice},
};
use haft_core::{ToolName, ToolOutput, tool::DynamicTool, toolset::ToolList};
use haft_local::LocalModel;
use serde_json::{Value, json};

use crate::tiny::TinyFile;

/// Returns the tested argument schemas with their names, roughly in order of increasing difficulty.
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
            "a negation",
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
            "an undeclared required property",
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}),
        ),
        (
            "a dependent property",
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "dependentRequired": {"a": ["b"]}}),
        ),
        (
            "an anchor",
            json!({"$defs": {"n": {"$anchor": "node", "enum": ["x", "y"]}}, "type": "object", "properties": {"v": {"$ref": "#node"}}, "required": ["v"]}),
        ),
        (LONG_SCHEMA, chain(2500)),
        ("denormalised characters", object(json!({"e\u{301}t\u{e9}": {"const": "\u{2126}"}}))),
        (
            "names of properties",
            json!({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "propertyNames": {"maxLength": 40}}),
        ),
    ]
}

const LONG_SCHEMA: &str = "a chain of references";

/// Creates a schema with a chain of `links` references. Processing it recursively would overflow
/// the stack.
fn chain(links: usize) -> Value {
    let link =
        |index: usize| (index.to_string(), json!({"items": {"$ref": format!("#/$defs/{}", index + 1)}}));
    let definitions: serde_json::Map<_, _> =
        (0..links).map(link).chain([(links.to_string(), json!(true))]).collect();
    json!({"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/0", "type": "array", "maxItems": 1}}, "required": ["a"]})
}

pub(crate) fn object(properties: Value) -> Value {
    let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

fn tool(name: &str, schema: &Value) -> DynamicTool {
    let definition =
        ToolDefinition::new(ToolName::new(name).unwrap(), Schema::for_arguments(schema.clone()).unwrap());
    DynamicTool::new(definition.with_description("Does something."), |_, _| async {
        Ok::<_, haft_core::ToolError>(ToolOutput::from("ok"))
    })
}

pub(crate) fn request(choice: ToolChoice, schema: &Value) -> ChatRequest {
    let tools = ToolList::new("test", [tool("first", schema), tool("second", schema)]);
    let request = ChatRequest::new([Message::user("Do something.")]).with_tools(tools);
    ChatRequest { tool_choice: choice, ..request }
}

/// The names of the schemas that the grammar engine supports only partly. With random weights, all
/// generated arguments may violate such a schema. An error is therefore an acceptable reply.
const INEXPRESSIBLE_SCHEMAS: [&str; 6] = [
    "a pattern with lookahead",
    "a negation",
    "a condition",
    "unique items",
    "names of properties",
    "a dependent property",
];

/// Every call must match its schema. A reply that reaches the token limit must contain no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_weights_make_valid_calls_only() {
    let [by_template, by_examples] = TinyFile::new(0).load_all().await;
    // The template renders the complete schemas, so `LONG_SCHEMA` does not fit into the context
    // window. The profile with examples renders only signatures.
    let (long, shown): (Vec<_>, Vec<_>) = schemas().into_iter().partition(|(name, _)| *name == LONG_SCHEMA);
    check_calls(&by_template, &shown).await;
    // Both profiles decode arguments in the same way, so a third of the schemas is enough here.
    let some: Vec<_> = shown.into_iter().step_by(3).chain(long).collect();
    check_calls(&by_examples, &some).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_weights_make_valid_calls_in_each_format() {
    let hard = ["scalars", "an enumeration", "a pattern", "lengths", "a negation"];
    let schemas: Vec<_> = schemas().into_iter().filter(|(name, _)| hard.contains(name)).collect();
    for (template, specials) in TEMPLATES.into_iter().chain(FAMILY_TEMPLATES) {
        let model = TinyFile::with_template(0, template, specials).load().await;
        check_calls(&model, &schemas).await;
    }
}

async fn check_calls(model: &LocalModel, schemas: &[(&str, Value)]) {
    let (mut replies, mut with_calls) = (0, 0);
    for (what, schema) in schemas {
        let mut request = request(ToolChoice::Required, schema);
        request.settings.temperature = Some(1.0);
        request.settings.seed = Some(1);
        let reply = match model.chat(&request).await {
            Ok(reply) => reply,
            Err(ModelError::InvalidResponse(_)) if INEXPRESSIBLE_SCHEMAS.contains(what) => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        replies += 1;
        with_calls += usize::from(reply.finish_reason == FinishReason::ToolCalls);
        let is_cut = reply.finish_reason == FinishReason::Length;
        assert_eq!(reply.message.tool_calls.is_empty(), is_cut, "{what}");
        check_arguments(&request, &reply, what);
    }
    assert!(with_calls * 4 >= replies * 3, "only {with_calls} of {replies} replies have calls");
}

pub(crate) fn check_arguments(request: &ChatRequest, reply: &ChatResponse, what: &str) {
    for call in &reply.message.tool_calls {
        let tool = request.tools.get(&call.name).expect(what);
        let arguments: Value = serde_json::from_str(&call.arguments).expect(what);
        let fits = tool.definition().input_schema().validate(&arguments);
        assert!(fits.is_ok(), "{what}: {} {}", call.arguments, fits.unwrap_err());
    }
}

/// Chat templates in the style of well-known model families. Each template is listed with the
/// special tokens that its tool format requires.
const TEMPLATES: [(&str, &[&str]); 7] = [
    (include_str!("../templates/hermes.jinja"), &[]),
    (include_str!("../templates/hermes.jinja"), &["<tool_call>", "</tool_call>"]),
    (include_str!("../templates/llama3.jinja"), &["<|eot_id|>", "<|python_tag|>"]),
    (
        include_str!("../templates/mistral.jinja"),
        &["[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"],
    ),
    (include_str!("../templates/name_args.jinja"), &["[TOOL_CALLS]", "[ARGS]", "[INST]", "[/INST]"]),
    (include_str!("../templates/function_tag.jinja"), &[]),
    (include_str!("../templates/parameter_tags.jinja"), &[]),
];
const LLAMA3: usize = 2;

/// Further chat templates. The replies of these families are tested in the module `forms`.
const FAMILY_TEMPLATES: [(&str, &[&str]); 5] = [
    (
        include_str!("../templates/mistral_call_id.jinja"),
        &["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[INST]", "[/INST]"],
    ),
    (include_str!("../templates/qwen3.jinja"), &["<think>", "</think>", "<tool_call>", "</tool_call>"]),
    (include_str!("../templates/smollm3.jinja"), &["<think>", "</think>", "<tool_call>", "</tool_call>"]),
    (
        include_str!("../templates/phi4_mini.jinja"),
        &["<|end|>", "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>"],
    ),
    (include_str!("../templates/gemma3.jinja"), &["<start_of_turn>", "<end_of_turn>"]),
];

/// If the tool choice does not require a call, the model sometimes opens a call with the special
/// token of the format. The arguments of this call must also be valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optional_calls_are_valid() {
    let schema = object(json!({"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 8}}));
    for (template, specials) in TEMPLATES.into_iter().filter(|(_, specials)| !specials.is_empty()) {
        let model = TinyFile::with_template(1, template, specials).load().await;
        let (mut with_calls, mut without_calls) = (0, 0);
        for seed in 0..12 {
            let mut request = request(ToolChoice::Auto, &schema);
            request.settings.max_tokens = Some(400);
            request.settings.temperature = Some(1.5);
            request.settings.seed = Some(seed);
            let events: Vec<_> = model.stream(&request).collect().await;
            let Some(Ok(ChatEvent::Finished(reply))) = events.last() else { continue };
            let text: String = events
                .iter()
                .filter_map(|event| match event {
                    Ok(ChatEvent::TextDelta { text }) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(reply.message.text(), text);
            check_arguments(&request, reply, template);
            let has_calls = !reply.message.tool_calls.is_empty();
            assert_eq!(has_calls, reply.finish_reason == FinishReason::ToolCalls);
            with_calls += usize::from(has_calls);
            without_calls += usize::from(reply.finish_reason == FinishReason::Stop);
            if with_calls > 1 {
                break;
            }
        }
        assert!(with_calls > 0, "no call of 12, {without_calls} answers: {template}");
    }
}

/// If a tool result contains the spelling of a special token, the prompt must contain it as
/// ordinary text, with one token per byte. The template `parameter_tags.jinja` has no supported
/// tool format, so its tools are rendered as text.
#[tokio::test]
async fn results_are_encoded_in_each_format() {
    let schema = object(json!({"s": {"type": "string"}}));
    for (template, specials) in TEMPLATES {
        let model = TinyFile::with_template(0, template, specials).load().await;
        let length = async |result: &str| {
            let mut request = request(ToolChoice::Auto, &schema);
            let call = ToolCall::new("a", "first", r#"{"s": "x"}"#);
            let reply = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
            let result = ToolResult::done("a", "first", ToolOutput::from(result));
            let messages = [Message::user("Go."), Message::assistant(reply), Message::tool(result)];
            request.messages = messages.into_iter().collect();
            request.settings.max_tokens = Some(4);
            request.settings.temperature = Some(1.0);
            request.settings.seed = Some(3);
            match model.chat(&request).await {
                Ok(reply) => reply.usage.input_tokens,
                Err(error) => panic!("{error}: {template}"),
            }
        };
        let plain = length("ok").await;
        for special in specials.iter().chain(&["<|im_end|>"]) {
            let marked = length(&format!("ok{special}")).await;
            assert_eq!(marked - plain, special.len() as u64, "{special} is text in {template}");
        }
    }
}

/// Llama's template rejects turns with two calls, but a different model may have generated such a
/// turn. It is then split.
#[tokio::test]
async fn history_rejected_by_the_template_is_split() {
    let (template, specials) = TEMPLATES[LLAMA3];
    let model = TinyFile::with_template(0, template, specials).load().await;
    let schema = object(json!({"n": {"enum": [1, 2]}}));
    let mut request = request(ToolChoice::Required, &schema);
    let calls = ["a", "b"].map(|id| ToolCall::new(id, "first", r#"{"n": 1}"#)).to_vec();
    let results = ["a", "b"].map(|id| Message::tool(ToolResult::done(id, "first", ToolOutput::from("ok"))));
    let reply = AssistantMessage { tool_calls: calls, ..AssistantMessage::default() };
    let messages = [Message::user("Go."), Message::assistant(reply)].into_iter().chain(results);
    request.messages = messages.collect();
    request.settings.parallel_tool_calls = Some(false);
    let reply = model.chat(&request).await.unwrap();
    assert_eq!(reply.message.tool_calls.len(), 1);
    check_arguments(&request, &reply, template);
}

/// Some tokens of the test vocabulary begin a string with a stray space, such as ` Tokyo` and
/// `": " b`. The model must not generate them at the beginning of a string.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_have_no_stray_space() {
    let free = object(
        json!({"a": {"type": "string", "maxLength": 6}, "b": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 2, "maxItems": 3}, "c": {"type": "string", "pattern": "^[ a-z]{3,5}$"}}),
    );
    let open = json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 6}, "minProperties": 2, "maxProperties": 3});
    let mut strings = 0;
    for model in TinyFile::new(0).load_all().await {
        for seed in 0..12 {
            let mut request = request(ToolChoice::Required, if seed % 2 == 0 { &free } else { &open });
            request.settings.temperature = Some(1.0);
            request.settings.seed = Some(seed);
            request.settings.parallel_tool_calls = Some(false);
            request.settings.max_tokens = Some(250);
            let Ok(reply) = model.chat(&request).await else { continue };
            for call in &reply.message.tool_calls {
                strings += check_spaces(&serde_json::from_str(&call.arguments).unwrap());
            }
        }
    }
    assert!(strings > 30, "only {strings} strings");
}

/// Asserts that no string in `value` begins with a stray space. Returns the number of strings.
fn check_spaces(value: &Value) -> usize {
    let is_clean = |text: &str| !text.starts_with(' ') || text == " " || text.starts_with("  ");
    match value {
        Value::String(text) => {
            assert!(is_clean(text), "{text:?}");
            1
        }
        Value::Array(items) => items.iter().map(check_spaces).sum(),
        Value::Object(entries) => {
            assert!(entries.keys().all(|key| is_clean(key)), "{value}");
            entries.values().map(check_spaces).sum()
        }
        _ => 0,
    }
}

#[tokio::test]
async fn required_space_is_generated() {
    let schema = object(
        json!({"a": {"const": " x"}, "b": {"type": "string", "pattern": "^ [a-z]$"}, " c": {"enum": [" y"]}}),
    );
    for model in TinyFile::new(0).load_all().await {
        let reply = model.chat(&request(ToolChoice::Required, &schema)).await.unwrap();
        let arguments: Value = serde_json::from_str(&reply.message.tool_calls[0].arguments).unwrap();
        assert_eq!((&arguments["a"], &arguments[" c"]), (&json!(" x"), &json!(" y")));
        assert!(arguments["b"].as_str().unwrap().starts_with(' '));
    }
}
