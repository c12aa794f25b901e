//! Tests of reversible redaction.

use expect_test::expect;
use futures::{TryStreamExt as _, executor::block_on};
use haft_core::{
    ChatModel as _, Message, ToolCall, ToolOutput, ToolResult,
    call::{Failure, FailureKind, Outcome},
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ResponseFormat},
};
use haft_middleware::{ModelMiddleware as _, redacted_model::ReversibleRedaction};
use haft_testing::ScriptedModel;
use serde_json::json;

fn names() -> ReversibleRedaction {
    ReversibleRedaction::new().emails().detect("NAME", |text| {
        text.match_indices("Ann \"A\"").map(|(start, name)| start..start + name.len()).collect()
    })
}

/// Returns the messages that the model received, as JSON.
fn received(model: &ScriptedModel, request: usize) -> String {
    let request = &model.requests()[request];
    let bodies = request.all_messages().map(|message| serde_json::to_string(&message.body()).unwrap());
    bodies.collect::<Vec<_>>().join("\n")
}

/// Values in each part of a request become placeholders, and the request itself is unchanged.
#[tokio::test]
async fn each_part_of_a_request_is_redacted() {
    let model = ScriptedModel::new().reply_text("Hi.");
    let reply = AssistantMessage {
        reasoning: Some("ann@x.org it is".to_owned()),
        refusal: Some("Not bob@x.org".to_owned()),
        tool_calls: vec![
            ToolCall::new("a", "mail", r#"{"to":["ann@x.org",7]}"#),
            ToolCall::new("b", "mail", r#"{"to": "bob@x.org"#),
        ],
        ..AssistantMessage::from("To bob@x.org?")
    };
    let image = Content::from_bytes(b"ann@x.org".to_vec(), "image/png");
    let resource = |body| Content::Resource { uri: "mailto:ann@x.org".to_owned(), media_type: None, body };
    let link = Content::ResourceLink {
        uri: "mailto:ann@x.org".to_owned(),
        name: "bob@x.org".to_owned(),
        description: Some("from bob@x.org".to_owned()),
        media_type: None,
    };
    let resources = vec![
        resource(ResourceBody::Text("ann@x.org".to_owned())),
        resource(ResourceBody::Blob(b"%PDF".as_slice().into())),
        link,
    ];
    let failure = Failure { kind: FailureKind::Failed, message: "no bob@x.org".to_owned() };
    let done = ToolOutput::structured(json!({"by": "bob@x.org"})).with_warning("ann@x.org is away");
    let failed = ToolResult { outcome: Outcome::Failed(failure), ..ToolResult::done("b", "mail", "".into()) };
    let request = ChatRequest {
        instructions: Some(Message::system("Ask root@x.org.").into()),
        ..ChatRequest::new([
            Message::user("I am ann@x.org."),
            Message::new(MessageBody::User { content: vec![image] }),
            Message::assistant(reply),
            Message::tool(ToolResult::done("a", "mail", done)),
            Message::tool(failed),
            Message::new(MessageBody::User { content: resources }),
        ])
    };
    let before: Vec<_> = request.all_messages().map(|message| Message::clone(message)).collect();
    model.clone().redacted(names()).chat(&request).await.unwrap();
    assert!(request.all_messages().map(|message| &**message).eq(&before));
    let text = received(&model, 0);
    for (value, placeholder, count) in
        [("root@", "[EMAIL_I1]", 1), ("ann@", "[EMAIL_1]", 8), ("bob@", "[EMAIL_2]", 8)]
    {
        assert!(!text.contains(value), "{text}");
        assert_eq!(text.matches(placeholder).count(), count, "{text}");
    }
    // The image is untouched.
    assert!(text.contains("YW5uQHgub3Jn"), "{text}");
}

/// The values come back in the text, the reasoning, the arguments and the refusal of a reply.
/// Values in JSON are escaped.
#[tokio::test]
async fn values_are_restored_in_replies() {
    let message = AssistantMessage {
        reasoning: Some("[NAME_1]!".to_owned()),
        tool_calls: vec![ToolCall::new("a", "mail", r#"{"to": "[EMAIL_1]", "name": "[NAME_1]", "n": 1}"#)],
        refusal: Some("Not [EMAIL_1]".to_owned()),
        ..AssistantMessage::from("To [NAME_1] at [EMAIL_1], not [EMAIL_7] or [EMAIL_1")
    };
    let model = ScriptedModel::new()
        .reply(ChatResponse::new(message))
        .reply_text(r#"{"to": "[NAME_1]"}"#)
        .redacted(names());
    let request = ChatRequest::new([Message::user("Write to Ann \"A\", ann@x.org.")]);
    let reply = model.chat(&request).await.unwrap().message;
    assert_eq!(reply.text(), "To Ann \"A\" at ann@x.org, not [EMAIL_7] or [EMAIL_1");
    assert_eq!(
        (reply.reasoning.as_deref(), reply.refusal.as_deref()),
        (Some("Ann \"A\"!"), Some("Not ann@x.org"))
    );
    assert_eq!(
        *reply.tool_calls[0].arguments.value().unwrap(),
        json!({"to": "ann@x.org", "name": "Ann \"A\"", "n": 1})
    );
    let request = ChatRequest { response_format: ResponseFormat::JsonObject, ..request };
    let text = model.chat(&request).await.unwrap().message.text();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json!({"to": "Ann \"A\""}));
}

/// Instructions that differ in each request do not change the placeholders of the messages. The
/// placeholder of a value in the instructions keeps its meaning after the conversation has it.
#[tokio::test]
async fn instructions_do_not_renumber_the_conversation() {
    let model = ScriptedModel::new().reply_text("[EMAIL_I1]").reply_text("[EMAIL_I2]");
    let redacted = model.clone().redacted(names());
    let request = |instructions: &str, messages: &[&str]| ChatRequest {
        instructions: Some(Message::system(instructions).into()),
        ..ChatRequest::new(messages.iter().map(|text| Message::user(*text)))
    };
    let first = redacted.chat(&request("Ask root@x.org.", &["ann@x.org"])).await.unwrap();
    assert_eq!(first.message.text(), "root@x.org");
    let messages = ["ann@x.org", "root@x.org", "bob@x.org"];
    let second = redacted.chat(&request("Ask eve@x.org, root@x.org.", &messages)).await.unwrap();
    assert_eq!(second.message.text(), "root@x.org");
    expect![[r#"
        {"role":"system","content":[{"type":"text","text":"Ask [EMAIL_I1]."}]}
        {"role":"user","content":[{"type":"text","text":"[EMAIL_1]"}]}"#]]
    .assert_eq(&received(&model, 0));
    expect![[r#"
        {"role":"system","content":[{"type":"text","text":"Ask [EMAIL_I1], [EMAIL_2]."}]}
        {"role":"user","content":[{"type":"text","text":"[EMAIL_1]"}]}
        {"role":"user","content":[{"type":"text","text":"[EMAIL_2]"}]}
        {"role":"user","content":[{"type":"text","text":"[EMAIL_3]"}]}"#]]
    .assert_eq(&received(&model, 1));
}

/// The mapping is the same for a longer conversation, also after it was saved. A text that looks
/// like a placeholder is never restored.
#[tokio::test]
async fn mapping_is_deterministic() {
    let model = ScriptedModel::new().reply_text("[EMAIL_1]").reply_text("[EMAIL_1] [EMAIL_2] [EMAIL_3]");
    let redacted = model.clone().redacted(names());
    let mut messages = vec![Message::user("ann@x.org")];
    redacted.chat(&ChatRequest::new(messages.clone())).await.unwrap();
    messages.push(Message::assistant("ann@x.org"));
    messages.push(Message::user("bob@x.org, not [EMAIL_2]"));
    let saved = serde_json::to_string(&messages).unwrap();
    let messages: Vec<Message> = serde_json::from_str(&saved).unwrap();
    let reply = redacted.chat(&ChatRequest::new(messages)).await.unwrap();
    expect![[r#"
        {"role":"user","content":[{"type":"text","text":"[EMAIL_1]"}]}
        {"role":"assistant","content":[{"type":"text","text":"[EMAIL_1]"}]}
        {"role":"user","content":[{"type":"text","text":"[EMAIL_3], not [EMAIL_2]"}]}"#]]
    .assert_eq(&received(&model, 1));
    assert_eq!(reply.message.text(), "ann@x.org [EMAIL_2] bob@x.org");
}

/// A request without values is passed on as it is: its messages are the same objects.
#[tokio::test]
async fn messages_without_values_are_shared() {
    let model = ScriptedModel::new().reply_text("Hi.").reply_text("Hi.");
    let redacted = model.clone().redacted(names());
    let plain = ChatRequest::new([Message::user("Hello."), Message::user("ann@x.org")]);
    redacted.chat(&plain).await.unwrap();
    redacted.chat(&plain).await.unwrap();
    let requests = model.requests();
    let pointers =
        |index: usize| -> Vec<_> { requests[index].messages.iter().map(std::sync::Arc::as_ptr).collect() };
    assert_eq!(pointers(0)[0], plain.messages.iter().map(std::sync::Arc::as_ptr).next().unwrap());
    // The redacted message is cached.
    assert_eq!(pointers(0), pointers(1));
}

/// The partial reply of a truncated request is restored.
#[tokio::test]
async fn partial_replies_are_restored() {
    let partial = Box::new(AssistantMessage::from("To [EMAIL_1]"));
    let error = ModelError::Truncated { reason: "reset".to_owned(), partial };
    let model = ScriptedModel::new().fail(error).redacted(names());
    let error = model.chat(&ChatRequest::new([Message::user("ann@x.org")])).await.unwrap_err();
    let ModelError::Truncated { partial, .. } = error else { panic!("{error:?}") };
    assert_eq!(partial.text(), "To ann@x.org");
}

/// Debug output contains no value.
#[test]
fn debug_output_has_no_values() {
    expect![[r#"RedactedModel { redaction: ReversibleRedaction { kinds: ["EMAIL", "NAME"] }, .. }"#]]
        .assert_eq(&format!("{:?}", ScriptedModel::new().redacted(names())));
}

#[test]
fn detectors_find_addresses_and_card_numbers() {
    let cases = [
        ("ann@example.org", "[EMAIL_1]"),
        ("<a.b+c@mail.example.org>, x@y", "<[EMAIL_1]>, x@y"),
        ("see ann@example.org. @ann a@b.1", "see [EMAIL_1]. @ann a@b.1"),
        ("jürgen@müller.de", "[EMAIL_1]"),
        ("4111 1111 1111 1111!", "[CARD_1]!"),
        ("4111-1111-1111-1111 and 4111111111111112", "[CARD_1] and 4111111111111112"),
        ("12 34", "12 34"),
        ("4111 1111 1111 1111 12/27", "[CARD_1] 12/27"),
        ("4111 1111 1111 1111 123", "[CARD_1] 123"),
        ("2024-01-01 4111 1111 1111 1111", "2024-01-01 [CARD_1]"),
        ("3782 822463 10005-4111111111111111", "[CARD_1]-[CARD_2]"),
        ("0 0 0 0 0 0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0 0 0 0 0 0"),
        ("ann@example.xn--p1ai a@10.0.0.12", "[EMAIL_1] a@10.0.0.12"),
    ];
    for (text, redacted) in cases {
        let model = ScriptedModel::new().reply_text("Hi.");
        let redaction = ReversibleRedaction::new().emails().card_numbers();
        let request = ChatRequest::new([Message::user(text)]);
        block_on(model.clone().redacted(redaction).chat(&request)).unwrap();
        assert_eq!(model.requests()[0].messages.iter().next().unwrap().text(), redacted);
    }
}

/// The deltas of a streamed call are the arguments of the complete call, also if they are not JSON.
#[test]
fn restored_deltas_add_up_to_the_arguments() {
    let request = ChatRequest::new([Message::user("Ann \"A\", ann@x.org")]);
    for arguments in [r#"{"to":  "[NAME_1]", "n": 1.0}"#, r#"{"to": "[NAME_1], [EMAIL_1]"#] {
        let calls = vec![ToolCall::new("a", "mail", arguments)];
        let message = AssistantMessage { tool_calls: calls, ..AssistantMessage::default() };
        let model = ScriptedModel::new().reply(ChatResponse::new(message)).redacted(names());
        let events: Vec<_> = block_on(model.stream(&request).try_collect()).unwrap();
        let (mut deltas, mut complete) = (String::new(), String::new());
        for event in events {
            match event {
                ChatEvent::ToolCallDelta { arguments, .. } => deltas += &arguments,
                ChatEvent::Finished(response) => {
                    complete = response.message.tool_calls[0].arguments.to_string();
                }
                _ => {}
            }
        }
        assert!(deltas.contains(r#"Ann \"A\""#), "{deltas}");
        assert_eq!(deltas, complete);
    }
}

/// Any chunking of a streamed reply gives the same restored text.
#[test]
fn split_placeholders_are_restored() {
    let text = "To [EMAIL_1], [[EMAIL_12] [EMAIL_2] [x] [EMAIL_1][EMAIL_";
    let expected = "To ann@x.org, [[EMAIL_12] bob@x.org [x] ann@x.org[EMAIL_";
    let request = ChatRequest::new([Message::user("ann@x.org, bob@x.org")]);
    for size in 1..=text.len() {
        let chunks: Vec<String> =
            text.as_bytes().chunks(size).map(|it| String::from_utf8_lossy(it).into()).collect();
        let deltas = chunks.iter().map(|text| Ok(ChatEvent::TextDelta { text: text.clone() }));
        let thoughts = chunks.iter().map(|text| Ok(ChatEvent::ReasoningDelta { text: text.clone() }));
        let arguments =
            chunks.iter().map(|text| Ok(ChatEvent::ToolCallDelta { index: 0, arguments: text.clone() }));
        let end = Ok(ChatEvent::Finished(Box::new(ChatResponse::new(text))));
        let events: Vec<_> = deltas.chain(thoughts).chain(arguments).chain([end]).collect();
        let model = ScriptedModel::new().reply_events(events).redacted(names());
        let events: Vec<_> = block_on(model.stream(&request).try_collect()).unwrap();
        let mut streamed = [String::new(), String::new(), String::new(), String::new()];
        for event in events {
            match event {
                ChatEvent::TextDelta { text } => streamed[0] += &text,
                ChatEvent::ReasoningDelta { text } => streamed[1] += &text,
                ChatEvent::ToolCallDelta { arguments, .. } => streamed[2] += &arguments,
                ChatEvent::Finished(response) => streamed[3] = response.message.text(),
                _ => {}
            }
        }
        assert_eq!(streamed, [expected; 4], "{size}");
    }
}
