//! Conversations as data.

use haft_core::{
    Message, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    content::Content,
    message::{AssistantMessage, View},
};
use proptest::prelude::*;
use serde_json::json;
use serde_json::{Map, Value};

fn sample() -> Transcript {
    let calls = AssistantMessage {
        reasoning: Some("two calls".into()),
        tool_calls: vec![ToolCall::new("1", "draw", "{\"n\": 1}"), ToolCall::new("2", "nope", "{oops")],
        ..AssistantMessage::default()
    };
    let output = ToolOutput {
        content: vec![
            Content::text("a\u{0}b"),
            Content::blob([0_u8, 255], "image/png"),
            Content::json(json!(null)),
        ],
        structured: Some(Value::Null),
        ..ToolOutput::default()
    };
    [
        Message::system("Be brief.").at(Timestamp::from_unix_millis(-1)),
        Message::user("Draw 0.1 + 0.2 = 0.30000000000000004"),
        Message::assistant(calls),
        Message::tool(ToolResult::done("1", "draw", output.with_warning("small"))),
        Message::tool(ToolResult::failed("2", "nope", &ToolError::Unconfirmed("connection lost".into()))),
        Message::assistant("There."),
    ]
    .into_iter()
    .collect()
}

/// Behaviour D39: equal after a round trip, explicit null and all.
#[test]
fn a_transcript_is_equal_after_a_round_trip() {
    let transcript = sample();
    let saved = serde_json::to_string(&transcript).unwrap();
    assert!(saved.starts_with(r#"{"version":1,"#));
    assert_eq!(serde_json::from_str::<Transcript>(&saved).unwrap(), transcript);
}

/// Behaviour D39: a newer format is refused with a clear error.
#[test]
fn a_newer_format_is_refused() {
    for newer in [r#"{"version": 2, "messages": [{"parts": []}]}"#, r#"{"version": 2, "turns": []}"#] {
        let error = serde_json::from_str::<Transcript>(newer).unwrap_err();
        assert!(error.to_string().contains("transcript format 2 is not known here"), "{error}");
    }
}

/// Behaviour D39: what is no transcript says what was expected, and where.
#[test]
fn garbage_is_told_what_was_expected_and_where() {
    let error = |saved: &str| serde_json::from_str::<Transcript>(saved).unwrap_err().to_string();
    let expected = "a saved transcript is an object with a number `version` and `messages`; this is not one";
    assert!(error("[]").starts_with(expected) && error(r#"{"messages": []}"#).starts_with(expected));
    let told =
        error(r#"{"version": 1, "messages": [{"body": {"role": "user", "content": []}}, {"body": 7}]}"#);
    assert!(told.starts_with("at `messages[1].body`: invalid type: integer `7`"), "{told}");
    assert!(error(r#"{"version": 1}"#).starts_with("at `messages`: invalid type: null"));
}

/// Absent data, null and the empty output are three things.
#[test]
fn explicit_null_is_kept() {
    for structured in [None, Some(Value::Null), Some(json!({"a": null}))] {
        let output = ToolOutput { structured, ..ToolOutput::default() };
        let again: ToolOutput = serde_json::from_str(&serde_json::to_string(&output).unwrap()).unwrap();
        assert_eq!(again, output);
    }
}

/// Appending does not move what a view shows; what lies outside the transcript is left out, and only that.
#[test]
fn a_view_stays_what_it_was() {
    let mut transcript = sample();
    let view = transcript.view_of([1..2, 5..9, 20..30]);
    transcript.push(Message::user("More."));
    let texts: Vec<_> = view.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Draw 0.1 + 0.2 = 0.30000000000000004", "There."]);
    assert_eq!(transcript.len(), 7);
    assert!(View::default().is_empty());
}

/// A message is rendered once for the adapter that came first; another renders afresh.
#[test]
fn a_rendering_is_kept_for_the_first_adapter() {
    let message = Message::user("hi");
    let first = message.rendering(|message| message.text().len());
    assert_eq!(*message.rendering::<usize>(|_| unreachable!()), *first);
    assert_eq!(*message.rendering(Message::text), "hi");
    assert_eq!(*message.clone().rendering::<usize>(|_| 7), 2);
}

proptest! {
    /// Any JSON in a result, any text in a message.
    #[test]
    fn whatever_it_holds_comes_back(text in any::<String>(), number in any::<f64>(), large in any::<u64>()) {
        prop_assume!(number.is_finite());
        let output = ToolOutput::structured(json!({ "text": text, "number": number, "large": large }));
        let transcript: Transcript =
            [Message::user(text.as_str()), Message::tool(ToolResult::done(text, "t", output))].into_iter().collect();
        let again: Transcript = serde_json::from_str(&serde_json::to_string(&transcript).unwrap()).unwrap();
        prop_assert_eq!(again, transcript);
    }
}

/// Without notes a message is the same, however that is said; and notes are kept.
#[test]
fn notes_are_there_or_not() {
    let plain = Message::user("Hi");
    let mut json = serde_json::to_value(&plain).unwrap();
    assert_eq!(json.get("metadata"), None);
    json["metadata"] = json!({});
    assert_eq!(serde_json::from_value::<Message>(json.clone()).unwrap(), plain);
    assert_eq!(plain.clone().with_metadata(Map::new()), plain);
    json["metadata"] = json!({"page": 3});
    let noted: Message = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(noted.metadata_value("page"), Some(&json!(3)));
    assert_eq!(serde_json::to_value(&noted).unwrap(), json);
    json["metadata"] = json!(null);
    assert!(serde_json::from_value::<Message>(json).is_err());
}
