use haft_core::{Message, ToolError, ToolOutput, call::ToolResult, message::AssistantMessage};
use serde_json::json;

use super::*;

/// Returns `true` if a call with `arguments` is a repetition after an earlier call with
/// `{"city": "Oslo"}` and the question `question`.
fn repeats(question: &str, arguments: &str, earlier_failed: bool) -> bool {
    let earlier = ToolCall::new("1", "weather", r#"{"city": "Oslo"}"#);
    let result = match earlier_failed {
        true => ToolResult::failed("1", "weather", &ToolError::failed("no connection")),
        false => ToolResult::done("1", "weather", ToolOutput::from("9 degrees and rain")),
    };
    let reply = AssistantMessage { tool_calls: vec![earlier], ..AssistantMessage::default() };
    let mut messages =
        vec![Message::user("How is the weather in Oslo?"), Message::assistant(reply), Message::tool(result)];
    if !question.is_empty() {
        messages.extend([Message::assistant("9 degrees."), Message::user(question)]);
    }
    repeats_known_result(&ChatRequest::new(messages), &ToolCall::new("2", "weather", arguments))
}

#[test]
fn a_call_with_a_known_result_is_a_repetition() {
    assert!(repeats("Does it rain?", r#"{"city":"Oslo"}"#, false));
    assert!(!repeats("Does it rain in Bergen?", r#"{"city":"Bergen"}"#, false));
    assert!(!repeats("Does it rain?", r#"{"city":"Oslo"}"#, true));
}

#[test]
fn the_user_may_ask_for_a_repetition() {
    assert!(!repeats("Check again, please.", r#"{"city":"Oslo"}"#, false));
}

#[test]
fn a_call_is_not_repeated_for_the_same_question() {
    assert!(repeats("", r#"{"city":"Oslo"}"#, false));
}

#[test]
fn a_call_without_new_arguments_is_a_repetition() {
    let schema = json!({
        "type": "object",
        "required": ["sender"],
        "properties": {
            "sender": {"type": "string", "default": "Kim"},
            "unread": {"type": "boolean"},
            "limit": {"type": "integer", "default": 10},
        },
    });
    let schema = Schema::new(schema).unwrap();
    let made = ToolCall::new("1", "mail", r#"{"sender": "Ben", "unread": true}"#);
    let repeats = |name: &str, need: &str, arguments: Value| {
        is_repetition(&made, need, &ToolCall::new("2", name, arguments.to_string()), &schema)
    };
    assert!(repeats("mail", "mail from Ben", json!({"sender": "Ben", "unread": true})));
    assert!(repeats("mail", "mail from Ben", json!({"sender": "Ben", "unread": true, "limit": 10})));
    assert!(!repeats("mail", "mail from Ben", json!({"sender": "Ben", "unread": true, "limit": 5})));
    assert!(!repeats("mail", "mail from Kim", json!({"sender": "Kim", "unread": true})));
    assert!(!repeats("chat", "mail from Ben", json!({"sender": "Ben", "unread": true})));
    // An argument is missing. The need decides if the request is another one.
    assert!(repeats("mail", "at most 10", json!({"sender": "Ben"})));
    assert!(!repeats("mail", "all mail from Ben", json!({"sender": "Ben"})));
}

#[test]
fn a_call_that_reverts_another_must_be_asked_for() {
    let call = |arguments: Value| ToolCall::new("1", "operate_door", arguments.to_string());
    let reverts = |question: &str, door: &str| {
        let facts = KnownFacts::new(&ChatRequest::new([Message::user(question)]));
        let lock = call(json!({"door": "garage", "action": "lock"}));
        reverts(&lock, &call(json!({"door": door, "action": "unlock"})), &facts)
    };
    assert!(reverts("The garage is open, could you lock it?", "garage"));
    assert!(!reverts("The garage is open, could you lock it?", "front"));
    assert!(!reverts("Lock the garage, and unlock it at ten.", "garage"));
}

#[test]
fn a_part_of_the_list_of_another_call_is_a_repetition() {
    let schema =
        Schema::new(json!({"properties": {"paths": {"type": "array"}, "into": {"type": "string"}}})).unwrap();
    let pack = |paths: &[&str], into: &str| {
        ToolCall::new("1", "pack", json!({"paths": paths, "into": into}).to_string())
    };
    let made = pack(&["a.txt", "b.txt"], "all.zip");
    assert!(is_repetition(&made, "b.txt into all.zip", &pack(&["b.txt"], "all.zip"), &schema));
    assert!(!is_repetition(&made, "c.txt into all.zip", &pack(&["c.txt"], "all.zip"), &schema));
    assert!(!is_repetition(&made, "b.txt into b.zip", &pack(&["b.txt"], "b.zip"), &schema));
}
