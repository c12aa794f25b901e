//! Tests of message histories in the JSON of the two APIs.

use std::sync::Arc;

use expect_test::expect;
use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult, Transcript,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use haft_openai::{encode_messages, history, history::History, responses};
use proptest::prelude::*;
use serde_json::{Value, json};

fn chat(json: &Value) -> History {
    history::from_chat_completions(json).unwrap()
}

fn omitted(history: &History) -> Vec<String> {
    history.omitted.iter().map(ToString::to_string).collect()
}

/// Checks that the history is complete, and that `json` is written back unchanged.
fn check_unchanged(history: &History, written: &Value, json: &Value) {
    assert_eq!(omitted(history), Vec::<String>::new());
    assert_eq!(written, json);
}

/// A history of the Chat Completions API is read and written back with media, calls, results,
/// reasoning, refusals and names.
#[test]
fn chat_history_is_read_and_written_back() {
    let json = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        ], "name": "ann"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"x\": 1}"}},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "broken"}},
        ], "reasoning_content": "I look."},
        {"role": "tool", "tool_call_id": "c1", "content": "A cat."},
        {"role": "tool", "tool_call_id": "c2", "content": "invalid arguments"},
        {"role": "assistant", "content": null, "refusal": "I cannot say."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because.", "name": "bob"},
    ]);
    let history = chat(&json);
    check_unchanged(&history, &json!(history::to_chat_completions(messages(&history))), &json);
    let result = &history.messages[3];
    assert!(
        matches!(result.body(), MessageBody::Tool(result) if result.name == "look" && result.is_success())
    );
    assert_eq!(history.messages[1].metadata_value(history::NAME_KEY), Some(&json!("ann")));
    assert_eq!(history.messages[2].tool_calls()[1].arguments.to_string(), "broken");
}

fn messages(history: &History) -> Vec<Arc<Message>> {
    history.clone().into_transcript().messages().to_vec()
}

/// The deprecated form, content as parts, and the whole request are accepted. Unknown parts and
/// fields are listed.
#[test]
fn older_and_unknown_forms_of_chat_are_accepted() {
    let history = chat(&json!({"model": "m", "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "video", "x": 1}, {"type": "file", "file": {"file_id": "f"}}, "Hi"]},
        {"role": "assistant", "content": "", "function_call": {"name": "add", "arguments": "{}"}, "audio": {"id": "a"}},
        {"role": "function", "name": "add", "content": "42"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "refusal", "refusal": "No."}]},
    ]}));
    expect![[r#"
        [
            "messages/1/content/0: the part `video` is not supported",
            "messages/1/content/1: the part `file` is not supported",
            "messages/2/audio: the field is not supported",
        ]
    "#]]
    .assert_debug_eq(&omitted(&history));
    let [system, user, call, result, last] = history.messages.as_slice() else { panic!("{history:?}") };
    assert!(matches!(system.body(), MessageBody::System { .. }));
    assert_eq!(user.text(), "Hi");
    let id = &call.tool_calls()[0].id;
    assert!(
        matches!(result.body(), MessageBody::Tool(result) if result.call_id == *id && result.name == "add")
    );
    let MessageBody::Assistant(last) = last.body() else { panic!("{last:?}") };
    assert_eq!((last.content.len(), last.refusal.as_deref()), (2, Some("No.")));
}

#[test]
fn errors_name_the_path() {
    let error = |json: Value, read: fn(&Value) -> Result<History, history::HistoryError>| {
        read(&json).unwrap_err().to_string()
    };
    let chat = |json| error(json, history::from_chat_completions);
    let items = |json| error(json, history::from_responses);
    expect!["messages: expected a list of messages"].assert_eq(&chat(json!({})));
    expect!["messages/0: the string `role` is missing"].assert_eq(&chat(json!([{"content": "x"}])));
    expect!["messages/0: the role `bot` is unknown"].assert_eq(&chat(json!([{"role": "bot"}])));
    expect!["messages/0/content: expected a string or a list of parts"]
        .assert_eq(&chat(json!([{"role": "user", "content": 1}])));
    expect!["messages/1/tool_calls/0: the string `name` is missing"].assert_eq(&chat(json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]},
    ])));
    expect!["messages/0: the string `tool_call_id` is missing"]
        .assert_eq(&chat(json!([{"role": "tool", "content": "x"}])));
    expect!["messages/0/content/0: the data is not base64: Invalid symbol 33, offset 0."].assert_eq(&chat(json!([
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!!"}}]},
    ])));
    expect!["input/1: the string `call_id` is missing"].assert_eq(&items(json!({"input": [
        {"role": "user", "content": "x"},
        {"type": "function_call", "name": "add", "arguments": "{}"},
    ]})));
    expect!["input/0: the role `bot` is unknown"].assert_eq(&items(json!([{"role": "bot", "content": "x"}])));
}

/// A history of the Responses API is read and written back, with encrypted reasoning and the items
/// of built-in tools in their order.
#[test]
fn responses_history_is_read_and_written_back() {
    let json = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
        ]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}], "encrypted_content": "x"},
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "cat"}},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"x\": 1}"},
        {"type": "function_call_output", "call_id": "c1", "output": "A cat."},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Sure?"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]);
    let history = history::from_responses(&json).unwrap();
    check_unchanged(&history, &json!(history::to_responses(messages(&history))), &json);
    let MessageBody::Assistant(reply) = history.messages[2].body() else { panic!("{history:?}") };
    assert_eq!((reply.reasoning.as_deref(), reply.tool_calls.len()), (Some("I look."), 1));
    // The same data is sent with a request, and not to other APIs.
    let messages = messages(&history);
    assert_eq!(responses::encode_input(&messages[2..3]), json.as_array().unwrap()[2..5]);
    assert!(!json!(encode_messages(&messages)).to_string().contains("encrypted"));
}

#[test]
fn other_forms_of_responses_are_accepted() {
    let history = history::from_responses(&json!({"instructions": "Be brief.", "input": "Hi"})).unwrap();
    assert_eq!(history.messages, [Message::system("Be brief."), Message::user("Hi")]);
    let history = history::from_responses(&json!({"id": "resp_1", "status": "completed", "output": [
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Hi.", "annotations": [{"type": "url_citation"}]},
        ]},
        {"type": "item_reference", "id": "x"},
    ]}))
    .unwrap();
    assert_eq!(history.messages[0].text(), "Hi.");
    expect![[r#"
        [
            "output/0/content/0/annotations: the field is not supported",
            "output/1: the item is only referenced by its id",
        ]
    "#]]
    .assert_debug_eq(&omitted(&history));
}

/// Unknown fields of parts, messages and calls are listed.
#[test]
fn unknown_fields_are_listed() {
    let chat = chat(&json!([
        {"role": "system", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}},
            {"type": "image_url", "image_url": "https://example.com/a.png"},
        ], "tag": 1},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "strict": true}},
        ]},
    ]));
    let items = history::from_responses(&json!([{"role": "user", "content": [
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
    ]}]))
    .unwrap();
    let listed: Vec<_> = [chat, items].iter().flat_map(omitted).collect();
    expect![[r#"
        messages/0/content/0/cache_control: the field is not supported
        messages/1/tag: the field is not supported
        messages/1/content/0/image_url/detail: the field is not supported
        messages/2/tool_calls/0/function/strict: the field is not supported
        input/0/content/0/detail: the field is not supported"#]]
    .assert_eq(&listed.join("\n"));
}

/// A call of a custom tool is omitted with its result. The other calls remain.
#[test]
fn custom_calls_of_chat_are_omitted() {
    let history = chat(&json!([
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "c2", "content": "A cat."},
        {"role": "assistant", "tool_calls": [{"id": "c3", "type": "custom", "custom": {"name": "run", "input": ""}}]},
    ]));
    expect![[r#"
        messages/0/tool_calls/0: the call `custom` is not supported
        messages/1: the result belongs to an omitted call
        messages/3/tool_calls/0: the call `custom` is not supported"#]]
    .assert_eq(&omitted(&history).join("\n"));
    assert_eq!(history.messages[0].tool_calls(), [ToolCall::new("c2", "look", "{}")]);
    assert_eq!(history.messages.len(), 3);
}

/// Calls of other kinds stay together with their outputs, because the API rejects a call without an
/// output.
#[test]
fn other_calls_of_responses_are_written_back_with_their_outputs() {
    let json = json!([
        {"role": "user", "content": "List the files."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "run", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "mcp_approval_request", "id": "m1", "name": "read", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": true},
        {"role": "assistant", "content": "a.txt"},
    ]);
    let history = history::from_responses(&json).unwrap();
    check_unchanged(&history, &json!(history::to_responses(messages(&history))), &json);
    assert_eq!(responses::encode_input(&messages(&history)[1..]), json.as_array().unwrap()[1..]);
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
    let items = history::to_responses(&results);
    let contents =
        |list: &[Value], key: &str| -> Vec<_> { list.iter().map(|it| it[key].to_string()).collect() };
    expect![[r#"
        "{\"n\":1}"
        "42\nWarning: rounded"
        [{"type":"input_image","image_url":"data:image/png;base64,iVBORw=="},{"type":"input_text","text":"Warning: small"}]"#]].assert_eq(&contents(&items, "output").join("\n"));
}

/// An image that was read as a URL is sent as an image.
#[test]
fn remote_images_are_sent_as_images() {
    let json = json!([{"role": "user", "content": [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]}]);
    let messages = messages(&chat(&json));
    assert_eq!(json!(encode_messages(&messages)), json);
    expect![[r#"[{"role":"user","content":[{"type":"input_text","text":"Look:"},{"type":"input_image","image_url":"https://example.com/a.png"}]}]"#]].assert_eq(&json!(responses::encode_input(&messages)).to_string());
}

/// The part of a transcript that every format can express.
fn any_message() -> impl Strategy<Value = Vec<Message>> {
    let text = || "[a-z][a-z é\n\"🌍]{0,7}";
    let image = Just(Content::from_bytes(*b"\x89PNG", "image/png"));
    let file = Just(Content::Resource {
        uri: "a.pdf".to_owned(),
        media_type: Some("application/pdf".to_owned()),
        body: ResourceBody::Blob(b"%PDF".as_slice().into()),
    });
    let piece = prop_oneof![text().prop_map(Content::text), image, file];
    let user = proptest::collection::vec(piece, 1..4)
        .prop_map(|content| vec![Message::new(MessageBody::User { content })]);
    let user = prop_oneof![text().prop_map(|text| vec![Message::user(text.as_str())]), user];
    let reply = text().prop_map(|text| vec![Message::assistant(text.as_str())]);
    let call = (text(), proptest::option::of(text()), any::<i8>());
    let call = call.prop_map(|(result, said, x)| {
        let message = AssistantMessage {
            content: said.into_iter().map(Content::text).collect(),
            tool_calls: vec![ToolCall::new("ID", "look", json!({"x": x}).to_string())],
            ..AssistantMessage::default()
        };
        let result = ToolResult::done("ID", "look", ToolOutput::from(result));
        vec![Message::assistant(message), Message::tool(result)]
    });
    prop_oneof![user, reply, call]
}

/// Joins `groups` to a transcript with unique call ids and without times. Adjacent replies are
/// separated, because the Responses API joins them.
fn transcript(groups: Vec<Vec<Message>>) -> Transcript {
    let mut transcript = Transcript::new();
    transcript.push(Message::system("Be brief."));
    for (number, group) in groups.into_iter().enumerate() {
        let id = format!("call_{number}");
        transcript.push(Message::user(format!("{number}")));
        for message in group {
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
    }
    transcript
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_history_is_read_as_the_same_transcript(groups in proptest::collection::vec(any_message(), 0..6)) {
        let transcript = transcript(groups);
        let messages = transcript.messages();
        let chat = history::from_chat_completions(&json!(history::to_chat_completions(messages)));
        prop_assert_eq!(chat.unwrap().into_transcript(), transcript.clone());
        let items = history::from_responses(&json!(history::to_responses(messages)));
        prop_assert_eq!(items.unwrap().into_transcript(), transcript.clone());
    }
}
