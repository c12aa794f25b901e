//! Message histories in the JSON of the API.

use std::sync::Arc;

use expect_test::expect;
use haft_anthropic::history;
use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult, Transcript,
    call::{Failure, FailureKind, Outcome},
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns `value` with each string content as a list of one text.
fn with_lists(mut value: Value) -> Value {
    let to_list = |content: &mut Value| {
        if let Value::String(text) = content {
            *content = json!([{"type": "text", "text": text}]);
        }
    };
    if value.get("system").is_some() {
        to_list(&mut value["system"]);
    }
    value["messages"].as_array_mut().unwrap().iter_mut().for_each(|message| to_list(&mut message["content"]));
    value
}

/// A history is read and written back, with signed thinking in its place and the error flag of
/// results.
#[test]
fn history_is_read_and_written_back() {
    let json = json!({
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A note."}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I look.", "signature": "s1"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"x": 1}},
                {"type": "thinking", "thinking": "Twice.", "signature": "s2"},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "A cat."},
                {"type": "tool_result", "tool_use_id": "t2", "content": "no such image", "is_error": true},
                {"type": "text", "text": "Go on."},
            ]},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cat"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                {"type": "text", "text": "A cat.", "citations": [{"type": "page"}]},
            ]},
            {"role": "user", "content": "Thanks."},
            {"role": "assistant", "content": "Bye."},
        ],
    });
    let history = history::from_messages(&json).unwrap();
    assert_eq!(history.omitted, []);
    let messages: Vec<_> = history.messages.iter().cloned().map(Arc::new).collect();
    assert_eq!(history::to_messages(&messages), with_lists(json));
    let MessageBody::Assistant(reply) = history.messages[2].body() else { panic!("{history:?}") };
    assert_eq!(reply.reasoning.as_deref(), Some("I look.\n\nTwice."));
    let MessageBody::Tool(result) = history.messages[4].body() else { panic!("{history:?}") };
    let failure = Failure::new(FailureKind::Failed, "no such image");
    assert_eq!((result.name.as_str(), &result.outcome), ("look", &Outcome::Failed(failure)));
}

/// After a change, the thoughts before the first call remain, and later ones are omitted.
#[test]
fn changed_reply_keeps_its_first_thoughts() {
    let history = history::from_messages(&json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "a", "signature": "s1"},
        {"type": "text", "text": "Hello"},
        {"type": "thinking", "thinking": "b", "signature": "s2"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
    ]}]))
    .unwrap();
    let MessageBody::Assistant(reply) = history.messages[0].body().clone() else { panic!("{history:?}") };
    let changed = AssistantMessage { tool_calls: Vec::new(), ..reply };
    let written = history::to_messages([Arc::new(Message::assistant(changed))]);
    assert_eq!(
        written["messages"][0]["content"],
        json!([{"type": "thinking", "thinking": "a", "signature": "s1"}, {"type": "text", "text": "Hello"}])
    );
}

#[test]
fn errors_name_the_path() {
    let error = |json: Value| history::from_messages(&json).unwrap_err().to_string();
    expect!["messages: expected a list of messages"].assert_eq(&error(json!({})));
    expect!["messages/0: the role `bot` is unknown"].assert_eq(&error(json!([{"role": "bot"}])));
    expect!["messages/0/content/0: the string `id` is missing"].assert_eq(&error(json!([
        {"role": "assistant", "content": [{"type": "tool_use", "name": "add"}]},
    ])));
    expect!["messages/0/content/0: the string `tool_use_id` is missing"].assert_eq(&error(json!([
        {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
    ])));
}

/// Unknown fields of blocks are listed.
#[test]
fn unknown_fields_are_listed() {
    let history = history::from_messages(&json!({
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a", "citations": {"enabled": true}}]},
            {"type": "document", "source": {"type": "text", "data": "a", "x": 1}, "context": "b"},
        ]}],
    }))
    .unwrap();
    let listed: Vec<_> = history.omitted.iter().map(ToString::to_string).collect();
    expect![[r#"
        system/0/cache_control: the field is not supported
        messages/0/content/0/content/0/citations: the field is not supported
        messages/0/content/1/source/x: the field is not supported
        messages/0/content/1/context: the field is not supported"#]]
    .assert_eq(&listed.join("\n"));
}

/// Warnings and structured output without content are written.
#[test]
fn warnings_and_structured_output_are_written() {
    let image = Content::from_bytes(*b"\x89PNG", "image/png");
    let outputs = [
        ToolOutput { structured: Some(json!({"n": 1})), ..ToolOutput::default() },
        ToolOutput::from("42").with_warning("rounded"),
        ToolOutput { content: vec![image], ..ToolOutput::default() }.with_warning("small"),
    ];
    let results = outputs.map(|output| Arc::new(Message::tool(ToolResult::done("c", "look", output))));
    let blocks = history::to_messages(&results)["messages"][0]["content"].clone();
    let contents: Vec<_> = blocks.as_array().unwrap().iter().map(|it| it["content"].to_string()).collect();
    expect![[r#"
        "{\"n\":1}"
        "42\nWarning: rounded"
        [{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},{"type":"text","text":"Warning: small"}]"#]].assert_eq(&contents.join("\n"));
}

/// The API rejects unsupported media, empty texts, and some ids and names.
#[test]
fn history_contains_only_valid_blocks() {
    let calls = vec![ToolCall::new("functions.add:0", "my.add", r#"{"x":1}"#)];
    let reply = AssistantMessage {
        content: vec![Content::text("")],
        tool_calls: calls,
        ..AssistantMessage::default()
    };
    let media =
        ["image/svg+xml", "image/tiff", "application/zip"].map(|kind| Content::from_bytes(*b"x", kind));
    let note = Content::Resource {
        uri: "a.html".to_owned(),
        media_type: Some("text/html".to_owned()),
        body: ResourceBody::Text("<p>".to_owned()),
    };
    let result = ToolOutput { content: vec![Content::text(""), media[0].clone()], ..ToolOutput::default() };
    let messages = [
        Message::system(""),
        Message::user(""),
        Message::new(MessageBody::User {
            content: media.into_iter().chain([Content::text(" "), note]).collect(),
        }),
        Message::assistant(reply),
        Message::tool(ToolResult::done("functions.add:0", "my.add", result)),
        Message::user(""),
        Message::user("Go on."),
        Message::assistant(""),
    ];
    let written = history::to_messages(messages.map(Arc::new));
    let id = written["messages"][1]["content"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("call_"));
    let text = serde_json::to_string_pretty(&written).unwrap().replace(id, "ID");
    expect![[r#"
        {
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "[image/svg+xml, 1 bytes]"
                },
                {
                  "type": "text",
                  "text": "[image/tiff, 1 bytes]"
                },
                {
                  "type": "text",
                  "text": "[application/zip, 1 bytes]"
                },
                {
                  "type": "document",
                  "source": {
                    "type": "text",
                    "media_type": "text/plain",
                    "data": "<p>"
                  },
                  "title": "a.html"
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "tool_use",
                  "id": "ID",
                  "name": "my_add_bf345c0abd11",
                  "input": {
                    "x": 1
                  }
                }
              ]
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "tool_result",
                  "tool_use_id": "ID",
                  "content": [
                    {
                      "type": "text",
                      "text": "[image/svg+xml, 1 bytes]"
                    }
                  ]
                },
                {
                  "type": "text",
                  "text": "Go on."
                }
              ]
            }
          ]
        }"#]]
    .assert_eq(&text);
}

/// The part of a transcript that the format can express.
fn any_message() -> impl Strategy<Value = Vec<Message>> {
    // The API rejects blank texts, and whitespace at the end of a reply.
    let text = || "[a-z][a-z é\n\"🌍]{0,7}";
    let said = || "[a-z][a-zé\"🌍]{0,7}";
    let image = Just(Content::from_bytes(*b"\x89PNG", "image/png"));
    let file = Just(Content::Resource {
        uri: "a.pdf".to_owned(),
        media_type: Some("application/pdf".to_owned()),
        body: ResourceBody::Blob(b"%PDF".as_slice().into()),
    });
    let piece = prop_oneof![text().prop_map(Content::text), image, file];
    let user = prop::collection::vec(piece, 1..4)
        .prop_map(|content| vec![Message::assistant("Go on."), Message::new(MessageBody::User { content })]);
    let reply = said().prop_map(|text| vec![Message::assistant(text.as_str()), Message::user("And?")]);
    let call = (text(), prop::option::of(text()), any::<i8>(), any::<bool>());
    let call = call.prop_map(move |(result, said, x, fails)| {
        let message = AssistantMessage {
            content: said.into_iter().map(Content::text).collect(),
            tool_calls: vec![ToolCall::new("ID", "look", json!({"x": x}).to_string())],
            ..AssistantMessage::default()
        };
        let result = ToolResult::done("ID", "look", ToolOutput::from(result));
        let failure = Failure::new(FailureKind::Failed, result.model_text());
        let outcome = if fails { Outcome::Failed(failure) } else { result.outcome.clone() };
        vec![Message::assistant(message), Message::tool(ToolResult { outcome, ..result })]
    });
    prop_oneof![user, reply, call]
}

/// Joins `groups` to a transcript with unique call ids and without times.
fn transcript(groups: Vec<Vec<Message>>) -> Transcript {
    let mut transcript = Transcript::new();
    transcript.push(Message::system("Be brief."));
    transcript.push(Message::user("Hello"));
    for (number, message) in groups
        .into_iter()
        .enumerate()
        .flat_map(|(number, group)| group.into_iter().map(move |it| (number, it)))
    {
        let id = format!("call_{number}");
        let body = match message.body().clone() {
            MessageBody::Assistant(mut reply) => {
                reply.tool_calls.iter_mut().for_each(|call| call.id.clone_from(&id));
                MessageBody::Assistant(reply)
            }
            MessageBody::Tool(result) => {
                let (call_id, started_at) = (id.clone(), haft_core::Timestamp::default());
                let result = ToolResult { call_id, started_at, ..ToolResult::clone(&result) };
                MessageBody::Tool(result.into())
            }
            body => body,
        };
        transcript.push(Message::new(body));
    }
    transcript
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_history_is_read_as_the_same_transcript(groups in prop::collection::vec(any_message(), 0..6)) {
        let transcript = transcript(groups);
        let history = history::from_messages(&history::to_messages(transcript.messages())).unwrap();
        prop_assert!(history.omitted.is_empty());
        prop_assert_eq!(history.into_transcript(), transcript);
    }
}
