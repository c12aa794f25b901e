//! Messages, transcripts and views, with their JSON forms.

use haft_core::{
    Message, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    content::Content,
    message::{AssistantMessage, TranscriptView},
    model::ChatRequest,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Results are listed by call id and by tool name in a transcript, and in order in a request.
#[test]
fn results_are_listed_by_id_and_by_tool() {
    let result = |id: &str, name: &str, text: &str| Message::tool(ToolResult::done(id, name, text.into()));
    let failed = Message::tool(ToolResult::failed("d", "add", &ToolError::Cancelled));
    let messages = [
        Message::user("Go."),
        result("a", "add", "1"),
        result("b", "sub", "2"),
        result("c", "add", "3"),
        failed,
    ];
    let transcript: Transcript = messages.into_iter().collect();
    let part = ChatRequest { messages: transcript.view_ranges([0..2, 3..4]), ..ChatRequest::default() };

    let texts =
        |results: Vec<&ToolResult>| results.iter().map(|it| it.model_text().into_owned()).collect::<Vec<_>>();
    assert_eq!(texts(transcript.tool_results().collect()), ["1", "2", "3", "cancelled"]);
    assert_eq!(texts(transcript.results_of("add").collect()), ["1", "3", "cancelled"]);
    assert_eq!(texts(transcript.tool_result("b").into_iter().collect()), ["2"]);
    assert_eq!(texts(part.tool_results().collect()), ["1", "3"]);
    assert_eq!((transcript.tool_result("z"), transcript.results_of("mul").count()), (None, 0));
}

fn sample_transcript() -> Transcript {
    let calls = AssistantMessage {
        reasoning: Some("two calls".into()),
        tool_calls: vec![ToolCall::new("1", "draw", "{\"n\": 1}"), ToolCall::new("2", "nope", "{oops")],
        ..AssistantMessage::default()
    };
    let output = ToolOutput {
        content: vec![
            Content::text("a\u{0}b"),
            Content::from_bytes([0_u8, 255], "image/png"),
            Content::json(json!(null)),
        ],
        structured: Some(Value::Null),
        ..ToolOutput::default()
    };
    [
        Message::system("Be brief.").with_created_at(Timestamp::from_unix_millis(-1)),
        Message::user("Draw 0.1 + 0.2 = 0.30000000000000004"),
        Message::assistant(calls),
        Message::tool(ToolResult::done("1", "draw", output.with_warning("small"))),
        Message::tool(ToolResult::failed("2", "nope", &ToolError::Unconfirmed("connection lost".into()))),
        Message::assistant("There."),
    ]
    .into_iter()
    .collect()
}

/// A transcript is equal after a round trip through JSON. Explicit nulls are kept.
#[test]
fn transcript_is_equal_after_a_round_trip() {
    let transcript = sample_transcript();
    let saved = serde_json::to_string(&transcript).unwrap();
    assert!(saved.starts_with(r#"{"version":1,"#));
    assert_eq!(serde_json::from_str::<Transcript>(&saved).unwrap(), transcript);
}

/// A transcript with a newer format version is rejected. The error contains the version number.
#[test]
fn newer_format_is_rejected() {
    for newer in [r#"{"version": 2, "messages": [{"parts": []}]}"#, r#"{"version": 2, "turns": []}"#] {
        let error = serde_json::from_str::<Transcript>(newer).unwrap_err();
        assert!(error.to_string().contains("transcript format 2 is not known here"), "{error}");
    }
}

/// The error for an invalid transcript names the path of the invalid value, or the expected form.
#[test]
fn invalid_transcript_is_rejected_with_its_path() {
    let error = |saved: &str| serde_json::from_str::<Transcript>(saved).unwrap_err().to_string();
    let expected = "a saved transcript is an object with a number `version` and `messages`; this is not one";
    assert!(error("[]").starts_with(expected) && error(r#"{"messages": []}"#).starts_with(expected));
    let invalid =
        error(r#"{"version": 1, "messages": [{"body": {"role": "user", "content": []}}, {"body": 7}]}"#);
    assert!(invalid.starts_with("at `messages[1].body`: invalid type: integer `7`"), "{invalid}");
    assert!(error(r#"{"version": 1}"#).starts_with("at `messages`: invalid type: null"));
}

/// The structured output `null` differs from a missing structured output, even after a JSON round
/// trip.
#[test]
fn structured_null_survives_a_round_trip() {
    for structured in [None, Some(Value::Null), Some(json!({"a": null}))] {
        let output = ToolOutput { structured, ..ToolOutput::default() };
        let again: ToolOutput = serde_json::from_str(&serde_json::to_string(&output).unwrap()).unwrap();
        assert_eq!(again, output);
    }
}

/// A view does not change if messages are appended to its transcript. A view ignores indices past
/// the end of the transcript.
#[test]
fn view_is_unchanged_after_appending() {
    let mut transcript = sample_transcript();
    let view = transcript.view_ranges([1..2, 5..9, 20..30]);
    transcript.push(Message::user("More."));
    let texts: Vec<_> = view.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Draw 0.1 + 0.2 = 0.30000000000000004", "There."]);
    assert_eq!(transcript.len(), 7);
    assert!(TranscriptView::default().is_empty());
}

/// `Message::memoize` caches one value for each type. A clone of the message has the same cached
/// values.
#[test]
fn renderings_are_cached_by_type() {
    let message = Message::user("hi");
    let first = message.memoize(|message| message.text().len());
    assert_eq!(*message.memoize::<usize>(|_| unreachable!()), *first);
    assert_eq!(*message.memoize(Message::text), "hi");
    assert_eq!(*message.memoize::<String>(|_| unreachable!()), "hi");
    assert_eq!(*message.clone().memoize::<usize>(|_| 7), 2);
}

proptest! {
    /// A transcript is equal after a JSON round trip, for any text in a message and any text and
    /// numbers in a result.
    #[test]
    fn any_content_survives_a_round_trip(text in any::<String>(), number in any::<f64>(), large in any::<u64>()) {
        prop_assume!(number.is_finite());
        let output = ToolOutput::structured(json!({ "text": text, "number": number, "large": large }));
        let transcript: Transcript =
            [Message::user(text.as_str()), Message::tool(ToolResult::done(text, "t", output))].into_iter().collect();
        let again: Transcript = serde_json::from_str(&serde_json::to_string(&transcript).unwrap()).unwrap();
        prop_assert_eq!(again, transcript);
    }
}

/// A message without metadata equals a message with empty metadata. Metadata with the JSON value
/// `null` is rejected.
#[test]
fn metadata_is_optional_and_survives_a_round_trip() {
    let plain = Message::user("Hi");
    let mut json = serde_json::to_value(&plain).unwrap();
    assert_eq!(json.get("metadata"), None);
    json["metadata"] = json!({});
    assert_eq!(serde_json::from_value::<Message>(json.clone()).unwrap(), plain);
    assert_eq!(plain.clone().with_metadata(Map::new()), plain);
    json["metadata"] = json!({"page": 3});
    let with_metadata: Message = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(with_metadata.metadata_value("page"), Some(&json!(3)));
    assert_eq!(serde_json::to_value(&with_metadata).unwrap(), json);
    json["metadata"] = json!(null);
    assert!(serde_json::from_value::<Message>(json).is_err());
}
