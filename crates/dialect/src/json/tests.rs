use expect_test::{Expect, expect};
use haft_core::{
    Schema, ToolCall, ToolDefinition, ToolName,
    content::Content,
    message::{AssistantMessage, TranscriptView},
    model::{ChatEvent, ChatResponse, ResponseFormat},
    schema::SchemaTarget,
    tool::DynamicTool,
    toolset::ToolList,
};
use proptest::{collection::vec, prelude::any, prop_assert_eq, proptest, test_runner::Config};
use serde_json::{Value, json};

use super::{JsonReact, find_json_object};
use crate::{Dialect, Prompt, ReplyDelta};

fn parse_reply(text: &str) -> AssistantMessage {
    let reply = JsonReact::new().parse_reply(ChatResponse::new(text), None);
    assert_eq!(reply.problem, None, "{text}");
    reply.message
}

#[track_caller]
fn check_call(text: &str, thought: Option<&str>, arguments: &str) {
    let message = parse_reply(text);
    let [call] = message.tool_calls.as_slice() else { panic!("{message:?}") };
    assert_eq!((message.reasoning.as_deref(), &*call.name, &*call.arguments), (thought, "add", arguments));
    assert!(message.content.is_empty());
}

#[test]
fn call_is_parsed_in_all_known_spellings() {
    check_call(r#"{"thought":"so","tool_name":"add","tool_args":{"x":1}}"#, Some("so"), r#"{"x":1}"#);
    check_call("```json\r\n{\"tool_name\":\"add\",\r\n \"tool_args\":{}}\r\n```", None, "{}");
    check_call(r#"{"name":"add","arguments":{"x":1}} and {"name":"sub"}"#, None, r#"{"x":1}"#);
    check_call(r#"I use {x}: {"action":"add","action_input":"{\"x\":1}"}"#, None, r#"{"x":1}"#);
    check_call(r#"{"thought":" ","tool":"add","args":null}"#, None, "{}");
    check_call(
        "{\"thought\":\"a\nb\",\"tool_name\":\"add\",\"tool_args\":{\"x\":1}}",
        Some("a\nb"),
        r#"{"x":1}"#,
    );
    check_call(r#"{"name":"functions.add","input":{"x":1},"note":""}"#, None, r#"{"x":1}"#);
}

#[test]
fn answer_is_parsed_in_all_known_spellings() {
    assert_eq!(
        parse_reply(r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"42"}}"#).text(),
        "42"
    );
    assert_eq!(parse_reply(r#"{"tool_name":"finish","tool_args":"42"}"#).text(), "42");
    assert_eq!(parse_reply(r#"{"tool_name":"finish","answer":42}"#).text(), "42");
    assert_eq!(parse_reply(r#"{"answer":["a"]}"#).text(), r#"["a"]"#);
    assert_eq!(parse_reply(r#"{"tool_name":"finish","tool_args":"{\"answer\":\"42\"}"}"#).text(), "42");
    assert_eq!(parse_reply(r#"{"tool_name":"finish","tool_args":{"result":42}}"#).text(), "42");
    assert_eq!(
        parse_reply(r#"{"type":"function","function":{"name":"finish","arguments":"{\"answer\":1}"}}"#)
            .text(),
        "1"
    );
}

/// Some servers convert a call in the text to a native tool call, so a native call to `finish` must
/// also be parsed as the answer.
#[test]
fn finish_is_accepted_as_a_native_call() {
    let call = |name: &str| ToolCall::new("a", name, r#"{"answer":"42"}"#);
    let parse_reply = |tool_calls| {
        let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
        JsonReact::new().parse_reply(ChatResponse::new(message), None).message
    };
    assert_eq!(parse_reply(vec![call("finish")]), AssistantMessage::from("42"));
    assert_eq!(parse_reply(vec![call("add"), call("finish")]).tool_calls, [call("add")]);
    // Before an extraction of the outputs, `finish` has no arguments.
    let message =
        AssistantMessage { tool_calls: vec![call("add"), call("finish")], ..AssistantMessage::default() };
    let bare = crate::bare_finish_schema();
    let reply = JsonReact::new().parse_reply(ChatResponse::new(message), Some(bare));
    assert_eq!(reply.message.tool_calls, [call("add")]);
}

/// A reply may consist of the outputs alone, without a step around them. The parser must accept
/// such a reply even if an output field has the name of a step key, such as `name`.
#[test]
fn bare_outputs_are_the_answer() {
    let outputs =
        Schema::for_arguments(json!({"properties": {"name": {"type": "string"}}, "required": ["name"]}))
            .unwrap();
    let parse_reply =
        |text: &str| JsonReact::new().parse_reply(ChatResponse::new(text), Some(&outputs)).message;
    assert_eq!(parse_reply(r#"{"name":"Ada"}"#).content, [Content::json(json!({"name": "Ada"}))]);
    assert_eq!(parse_reply(r#"{"tool_name":"add","tool_args":{},"name":"Ada"}"#).tool_calls[0].name, "add");
}

#[test]
fn text_without_a_step_has_a_problem() {
    for text in [
        "It is 42.",
        "{\"thought\":\"hm\"}",
        "{\"tool_name\":\"add\",",
        "[]",
        // The step is incomplete. An object inside its arguments must not be executed as a step.
        r#"{"thought":"x","tool_name":"log","tool_args":{"action":"delete_all"}"#,
        r#"{"thought":"x","tool_args":{"action":"delete_all"}}"#,
        // Calls to `finish` without a usable answer.
        r#"{"tool_name":"finish"}"#,
        r#"{"tool_name":"finish","tool_args":{"answer":" "}}"#,
        r#"{"tool_name":"finish","tool_args":{"a":1,"b":2}}"#,
    ] {
        let reply = JsonReact::new().parse_reply(ChatResponse::new(text), None);
        assert!(reply.problem.is_some() && reply.message.text() == text, "{text}");
    }
    // Empty replies are handled by the run, so the dialect reports no problem.
    assert_eq!(JsonReact::new().parse_reply(ChatResponse::new(""), None).problem, None);
}

#[test]
fn search_for_an_object_is_bounded() {
    assert!(find_json_object(&"{".repeat(1_000_000), |_| true).is_none());
    assert!(find_json_object(r#"{"sum":3,"parts":{"a":1}"#, |_| true).is_none());
    assert_eq!(find_json_object("a {b {\"c\":1} d", |_| true).unwrap()["c"], 1);
}

/// Returns the step schema of a model request with a single tool. `arguments` is the input schema
/// of this tool.
fn step_schema(arguments: Value) -> Schema {
    let definition =
        ToolDefinition::new(ToolName::new("tool").unwrap(), Schema::for_arguments(arguments).unwrap());
    let tools = ToolList::new("test", [DynamicTool::new(definition, |_, _| async {})]);
    let prompt = Prompt {
        messages: TranscriptView::default(),
        tools: &tools,
        instructions: None,
        outputs: None,
        must_answer: false,
        tool_choice: &Default::default(),
        settings: &Default::default(),
    };
    match JsonReact::new().build_request(&prompt).response_format {
        ResponseFormat::JsonSchema { schema, .. } => schema,
        other => panic!("{other:?}"),
    }
}

fn check_arguments(arguments: Value, expected: &Expect) {
    let schema = step_schema(arguments);
    let root = schema.as_value();
    let args = &root["anyOf"][0]["properties"]["tool_args"];
    expected.assert_eq(&format!("{args} {}", root.get("$defs").unwrap_or(&Value::Null)));
}

/// OpenAI's strict mode requires `additionalProperties: false` in each object of the step schema,
/// including the empty arguments of a tool without parameters.
#[test]
fn step_with_a_tool_without_parameters_is_strict() {
    let strict = |arguments| step_schema(arguments).wrapped_in_object("value");
    for (arguments, is_strict) in [
        (json!({}), true),
        (json!({"type": "object", "properties": {}, "required": [], "description": "None."}), true),
        (json!({"additionalProperties": {"type": "string"}}), false),
        (json!({"required": ["x"]}), false),
    ] {
        let schema = Schema::new(strict(arguments.clone())).unwrap();
        assert_eq!(schema.for_provider(SchemaTarget::OpenAiStrict).is_strict, is_strict, "{arguments}");
    }
}

#[test]
fn references_are_rebased_in_the_step_schema() {
    check_arguments(
        json!({"properties": {"n": {"const": {"$ref": "#/data"}}}}),
        &expect![[r##"{"type":"object","properties":{"n":{"const":{"$ref":"#/data"}}}} null"##]],
    );
    let node = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "children": {"items": {"$ref": "#/$defs/Node"}}, "self": {"$ref": "#"}},
        "$defs": {"Node": {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/Node"}}}}},
    });
    check_arguments(
        node.clone(),
        &expect![[
            r##"{"$ref":"#/$defs/tool"} {"tool":{"type":"object","properties":{"$ref":{"type":"string"},"children":{"items":{"$ref":"#/$defs/tool/$defs/Node"}},"self":{"$ref":"#/$defs/tool"}},"$defs":{"Node":{"type":"object","properties":{"children":{"items":{"$ref":"#/$defs/tool/$defs/Node"}}}}}}}"##
        ]],
    );
    let step = |args: Value| json!({"thought": "", "tool_name": "tool", "tool_args": args});
    assert!(step_schema(node.clone()).is_valid(&step(json!({"children": [{"children": []}], "$ref": "x"}))));
    assert!(!step_schema(node).is_valid(&step(json!({"children": [{"children": [1]}]}))));
}

#[test]
fn schema_with_anchors_is_replaced_by_any_object() {
    check_arguments(
        json!({"properties": {"n": {"$ref": "#here"}}, "$defs": {"n": {"$anchor": "here", "type": "integer"}}}),
        &expect![[r#"{"type":"object"} null"#]],
    );
}

fn deltas(chunks: impl IntoIterator<Item = String>) -> (String, String) {
    let mut stream_parser = JsonReact::new().stream_parser(None);
    let (mut thought, mut text) = (String::new(), String::new());
    for chunk in chunks {
        for delta in stream_parser.push(&ChatEvent::TextDelta { text: chunk }) {
            match delta {
                ReplyDelta::Reasoning(more) => thought += &more,
                ReplyDelta::Text(more) => text += &more,
                _ => {}
            }
        }
    }
    (thought, text)
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    /// The streamed thought and answer must be the same for any chunking of the reply.
    #[test]
    fn chunked_step_streams_thought_and_answer(thought: String, answer: String, pretty: bool, ascii: bool, cuts in vec(any::<u8>(), 0..20)) {
        let step = json!({
            "thought": thought,
            "tool_name": "finish",
            "tool_args": {"more": [{"answer": "no"}], "answer": answer},
        });
        let mut written = if pretty { serde_json::to_string_pretty(&step).unwrap() } else { step.to_string() };
        if ascii {
            written = escaped(&written);
        }
        let mut chunks = vec![String::new()];
        let mut cuts = cuts.into_iter().cycle();
        for char in written.chars() {
            if cuts.next().is_some_and(|cut| cut % 4 == 0) {
                chunks.push(String::new());
            }
            chunks.last_mut().unwrap().push(char);
        }
        prop_assert_eq!(deltas(chunks), (thought, answer));
    }
}

/// Escapes all non-ASCII characters of `text` as `\uXXXX`, as some servers do.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if char.is_ascii() {
            escaped.push(char);
        } else {
            escaped.extend(char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")));
        }
    }
    escaped
}

/// Text that cannot be streamed is emitted at the end of the reply. An example is an answer whose
/// key precedes the tool name.
#[test]
fn unusual_step_is_emitted_at_the_end_of_the_reply() {
    for text in [
        r#"{"tool_args":{"answer":"42"},"tool_name":"finish","thought":"so"}"#,
        r#"Let me see {x}. {"thought":"so","tool_name":"finish","tool_args":{"answer":"42"}}"#,
        r#"{"reasoning":"so","answer":42}"#,
    ] {
        let mut stream_parser = JsonReact::new().stream_parser(None);
        let (mut thought, mut answer) = (String::new(), String::new());
        for event in ChatResponse::new(text).into_events() {
            for delta in stream_parser.push(&event) {
                match delta {
                    ReplyDelta::Reasoning(more) => thought += &more,
                    ReplyDelta::Text(more) => answer += &more,
                    _ => {}
                }
            }
        }
        assert_eq!((&*thought, &*answer), ("so", "42"), "{text}");
    }
}

#[test]
fn call_streams_only_its_thought() {
    let step = r#"{"thought":"I look.","tool_name":"search","tool_args":{"answer":"protocol"}}"#;
    assert_eq!(deltas([step.to_owned()]), ("I look.".to_owned(), String::new()));
    assert_eq!(deltas(["Sure! \"thought\": \"x\"".to_owned()]), (String::new(), String::new()));
}
