use std::sync::Arc;

use expect_test::{Expect, expect};
use haft_core::{
    Message, ToolCall,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde_json::json;

use super::{CachedMessage, EncodedMessages, EncodingOptions};
use crate::format::MessageForm;

fn text_only() -> Arc<EncodingOptions> {
    Arc::new(EncodingOptions { sends_images: false, ..EncodingOptions::default() })
}

#[test]
fn encoded_message_is_cached() {
    let message = Arc::new(Message::user("Hi"));
    let (one, two) = (
        CachedMessage::of(&message, &text_only(), MessageForm::default()),
        CachedMessage::of(&message.clone(), &text_only(), MessageForm::default()),
    );
    assert!(Arc::ptr_eq(&one, &two));
}

/// Two models with different encoding options can share one conversation. The second model must not
/// reuse the messages that the first model encoded.
#[test]
fn cache_is_ignored_for_other_encoding_options() {
    let content = vec![Content::from_bytes(*b"cat", "image/png")];
    let message = Arc::new(Message::new(MessageBody::User { content }));
    let rendered = |encoding| serde_json::to_string(&EncodedMessages::new([&message], &encoding)).unwrap();
    assert_eq!(rendered(text_only()), r#"[{"role":"user","content":"[image/png, 3 bytes]"}]"#);
    assert!(rendered(Arc::default()).contains("data:image/png;base64,"));
    assert_eq!(rendered(text_only()), r#"[{"role":"user","content":"[image/png, 3 bytes]"}]"#);
}

#[track_caller]
fn check_echo(arguments: &str, expect: Expect) {
    let tool_calls = vec![ToolCall::new("a", "add", arguments)];
    let reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    let wire = super::encode_message(&Message::assistant(reply));
    expect.assert_eq(wire["tool_calls"][0]["function"]["arguments"].as_str().unwrap());
    assert_eq!(wire["content"], json!(null));
}

/// Malformed arguments of an earlier call are wrapped in an object. Servers parse the arguments,
/// and would otherwise reject every later request.
#[test]
fn malformed_arguments_are_wrapped_in_an_object() {
    check_echo(r#"{"x": 1}"#, expect![[r#"{"x": 1}"#]]);
    check_echo(" ", expect!["{}"]);
    check_echo(r#"{"x": 1"#, expect![[r#"{"malformed_arguments":"{\"x\": 1"}"#]]);
    check_echo("not json", expect![[r#"{"malformed_arguments":"not json"}"#]]);
    check_echo("[1]", expect![[r#"{"malformed_arguments":"[1]"}"#]]);
    check_echo("null", expect![[r#"{"malformed_arguments":"null"}"#]]);
}

#[track_caller]
fn check_name(name: &str, expect: Expect) {
    let tool_calls = vec![ToolCall::new("a", name, "{}")];
    let reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    let wire = super::encode_message(&Message::assistant(reply));
    expect.assert_eq(wire["tool_calls"][0]["function"]["name"].as_str().unwrap());
}

/// An invalid tool name in an earlier call is replaced, so that the server does not reject later
/// requests.
#[test]
fn invalid_tool_name_is_replaced_by_a_valid_one() {
    check_name("get_weather", expect!["get_weather"]);
    check_name("add_0123456789ab", expect!["add_0123456789ab"]);
    check_name("", expect!["tool_e3b0c44298fc"]);
    check_name("get.weather(city)", expect!["get_weather_city_23a1ed75024c"]);
}
