//! Tests of replies with calls that a model writes as text.

use haft_core::{
    Schema, ToolCall,
    content::Content,
    message::AssistantMessage,
    model::{ChatResponse, FinishReason, ModelError},
};
use haft_dialect::{
    JsonReact, NativeCalls, Reply, ReplyContext, ReplyDelta, read_failed_generation, read_reply,
    stream_parser,
};
use serde_json::json;

use crate::calculator;

const WRITTEN: &str = "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}\n```";

fn read(response: impl Into<AssistantMessage>) -> Reply {
    let tools = calculator();
    let context = ReplyContext { tools: Some(&tools), ..ReplyContext::default() };
    read_reply(&NativeCalls, ChatResponse::new(response), &context)
}

/// A reply with calls as text is a reply with calls, and can be saved.
#[test]
fn written_call_is_a_call() {
    let reply = read(WRITTEN);
    assert_eq!(reply.message.tool_calls, [ToolCall::new("", "add", r#"{"x":17,"y":25}"#)]);
    assert!(reply.message.content.is_empty() && reply.has_written_calls);
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    let saved = serde_json::to_string(&reply).unwrap();
    assert_eq!(serde_json::from_str::<Reply>(&saved).unwrap(), reply);
}

/// A text that mentions a tool, explains a call or shows another object stays the answer.
#[test]
fn other_text_stays_the_answer() {
    for text in [
        "I would use add.",
        "To add, write:\n```json\n{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}\n```",
        "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}\n```\nThis is an example.",
        r#"{"name": "remove", "arguments": {"x": 17}}"#,
        r#"{"name": "Ada", "age": 36}"#,
        "```python\nadd(x=17, y=25)\n```",
    ] {
        assert_eq!(read(text), Reply::from(ChatResponse::new(text)));
    }
}

/// A call is not taken from a truncated reply, without tools, from a reply with native calls, or in
/// a dialect that does not read written calls.
#[test]
fn call_is_taken_only_where_it_is_expected() {
    let tools = calculator();
    let with_tools = ReplyContext { tools: Some(&tools), ..ReplyContext::default() };
    let whole = ChatResponse::new(WRITTEN);
    let cut = ChatResponse { finish_reason: FinishReason::Length, ..whole.clone() };
    let tool_calls = vec![ToolCall::new("a", "add", r#"{"x":1,"y":2}"#)];
    let native = ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::from(WRITTEN) });
    for (response, context) in [(whole, ReplyContext::default()), (cut, with_tools), (native, with_tools)] {
        let reply = read_reply(&NativeCalls, response.clone(), &context);
        assert_eq!(reply, Reply::from(response));
    }
    let reply = read_reply(&JsonReact::new(), ChatResponse::new(WRITTEN), &with_tools);
    assert!(!reply.has_written_calls && reply.message.tool_calls.len() == 1);
}

/// Reasoning that the server sends in a separate field, and the text beside the calls, are kept.
#[test]
fn reasoning_and_text_beside_written_calls_are_kept() {
    let text = r#"{"role": "assistant", "content": "I add them.", "tool_calls": [{"name": "add", "arguments": {"x": 17, "y": 25}}]}"#;
    let message = AssistantMessage { reasoning: Some("Hm.".to_owned()), ..AssistantMessage::from(text) };
    assert_eq!(read(message).message.reasoning.as_deref(), Some("Hm.\n\nI add them."));
}

/// A written call of `finish` is the structured answer, unless the request requires a tool. An
/// object or a property of the outputs with the keys of a call is an answer too.
#[test]
fn structured_answer_is_told_from_a_call() {
    let read = |outputs: &Schema, output_property, may_finish, text: &str| {
        let tools = calculator();
        let outputs = Some(outputs);
        let context = ReplyContext { tools: Some(&tools), outputs, output_property, may_finish };
        read_reply(&NativeCalls, ChatResponse::new(text), &context).message
    };
    let sum = Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap();
    let finish = r#"{"name": "finish", "arguments": {"sum": 42}}"#;
    assert_eq!(read(&sum, None, true, finish).content, [Content::json(json!({"sum": 42}))]);
    assert_eq!(read(&sum, None, false, finish).content, [Content::text(finish)]);

    let call = json!({"properties": {"name": {}, "arguments": {}}, "required": ["name", "arguments"]});
    assert_eq!(read(&Schema::new(call.clone()).unwrap(), None, true, WRITTEN).text(), WRITTEN);
    let property = Schema::new(json!({"properties": {"response": call}, "required": ["response"]})).unwrap();
    assert_eq!(read(&property, Some("response"), true, WRITTEN).text(), WRITTEN);
    assert_eq!(read(&property, None, true, WRITTEN).tool_calls.len(), 1);
}

#[test]
fn calls_in_a_failed_generation_are_native_calls() {
    let failed = |text: &str| ModelError::InvalidGeneration {
        reason: "The call could not be read.".to_owned(),
        generation: Some(text.to_owned()),
    };
    let tools = calculator();
    let context = ReplyContext { tools: Some(&tools), ..ReplyContext::default() };
    let reply = read_failed_generation(&NativeCalls, failed(WRITTEN), &context).unwrap();
    assert_eq!((reply.message.tool_calls.len(), reply.has_written_calls), (1, false));
    assert_eq!(reply.usage.requests, 1);

    for error in [failed("I would use add."), ModelError::EmptyResponse] {
        let text = error.to_string();
        let unread = read_failed_generation(&NativeCalls, error, &context).unwrap_err();
        assert_eq!(unread.to_string(), text);
    }
    assert!(read_failed_generation(&NativeCalls, failed(WRITTEN), &ReplyContext::default()).is_err());
}

/// The stream of a reply has the text of the whole reply.
#[test]
fn streamed_text_agrees_with_the_reply() {
    let tools = calculator();
    let with_tools = ReplyContext { tools: Some(&tools), ..ReplyContext::default() };
    for (text, context, expected) in [
        (WRITTEN, with_tools, ""),
        (WRITTEN, ReplyContext::default(), WRITTEN),
        ("[1, 2]", with_tools, "[1, 2]"),
    ] {
        let mut parser = stream_parser(&NativeCalls, &context);
        let deltas = ChatResponse::new(text).into_events().flat_map(|event| parser.push(&event));
        let text: String = deltas
            .map(|delta| match delta {
                ReplyDelta::Text(text) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(text, expected);
    }
}
