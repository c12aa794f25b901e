//! Tests of replies with split surrogate pairs or invalid UTF-8. An invalid character must not
//! affect the rest of the reply.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel,
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, ModelError},
};

use crate::server::{STREAM, Server, hello, reply};

#[derive(Clone, Copy, Debug)]
enum Api {
    Chat,
    Responses,
}

/// A text field of a streamed reply: the event with a piece of the text, and a function that reads
/// the whole text from the reply.
struct Field {
    api: Api,
    event: &'static str,
    read: fn(AssistantMessage) -> Option<String>,
}

/// The tested text fields of streamed replies. The character `…` stands for a piece of the text.
const FIELDS: [Field; 9] = [
    Field {
        api: Api::Chat, event: r#"{"choices":[{"delta":{"content":"…"}}]}"#, read: |it| Some(it.text())
    },
    Field {
        api: Api::Chat,
        event: r#"{"choices":[{"delta":{"content":[{"type":"text","text":"…"}]}}]}"#,
        read: |it| Some(it.text()),
    },
    Field {
        api: Api::Chat,
        event: r#"{"choices":[{"delta":{"reasoning_content":"…","content":"."}}]}"#,
        read: |it| it.reasoning,
    },
    Field { api: Api::Chat, event: r#"{"choices":[{"delta":{"refusal":"…"}}]}"#, read: |it| it.refusal },
    Field {
        api: Api::Chat,
        event: r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"add","arguments":"…"}}]}}]}"#,
        read: arguments,
    },
    Field {
        api: Api::Responses,
        event: r#"{"type":"response.output_text.delta","output_index":0,"delta":"…"}"#,
        read: |it| Some(it.text()),
    },
    Field {
        api: Api::Responses,
        event: r#"{"type":"response.refusal.delta","output_index":0,"delta":"…"}"#,
        read: |it| it.refusal,
    },
    Field {
        api: Api::Responses,
        event: r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"…"}"#,
        read: arguments,
    },
    Field {
        api: Api::Chat,
        event: r#"{"choices":[{"delta":{"content":".","reasoning_details":[{"type":"reasoning.text","index":0,"text":"…"}]}}]}"#,
        read: |it| {
            let data = it.provider_data.get("chat_completions")?;
            Some(data.pointer("/message/reasoning_details/0/text")?.as_str()?.to_owned())
        },
    },
];

fn arguments(message: AssistantMessage) -> Option<String> {
    message.tool_calls.into_iter().next().map(|call| call.arguments.to_string())
}

impl Api {
    fn end(self) -> &'static str {
        match self {
            Self::Chat => r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            Self::Responses => r#"{"type":"response.completed","response":{"status":"completed"}}"#,
        }
    }

    async fn events(self, sent: Vec<u8>) -> Vec<ChatEvent> {
        let server = Server::with_replies([sent]).await;
        let model: Box<dyn ChatModel> = match self {
            Self::Chat => Box::new(server.builder().max_retries(0).build().unwrap()),
            Self::Responses => Box::new(server.responses().max_retries(0).build().unwrap()),
        };
        model.stream(&hello()).try_collect().await.unwrap()
    }
}

/// Sends `events` as a stream and returns the reply. Asserts that the concatenated deltas equal the
/// text and the arguments.
async fn streamed(api: Api, events: impl IntoIterator<Item = Vec<u8>>) -> ChatResponse {
    let mut sent = STREAM.as_bytes().to_vec();
    for event in events.into_iter().chain([api.end().into()]) {
        sent.extend([b"data: ", &*event, b"\n\n"].concat());
    }
    let mut events = api.events(sent).await;
    let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
    let (mut text, mut arguments) = (String::new(), String::new());
    for event in events {
        match event {
            ChatEvent::TextDelta { text: more } => text.push_str(&more),
            ChatEvent::ToolCallDelta { arguments: more, .. } => arguments.push_str(&more),
            _ => {}
        }
    }
    assert_eq!(text, reply.message.text());
    let written = reply.message.tool_calls.first().map(|call| call.arguments.clone()).filter(|it| it != "{}");
    assert!(
        arguments.is_empty() || written.as_ref().is_some_and(|it| *it == arguments),
        "{arguments} {written:?}"
    );
    *reply
}

async fn check(pieces: &[&[u8]], expected: &str) {
    for Field { api, event, read } in FIELDS {
        let (before, after) = event.split_once('…').unwrap();
        let named = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"add"}}"#;
        let begun = event.contains("function_call_arguments").then(|| named.into());
        let events = pieces.iter().map(|piece| [before.as_bytes(), piece, after.as_bytes()].concat());
        let reply = streamed(api, begun.into_iter().chain(events)).await;
        assert_eq!(read(reply.message).as_deref(), Some(expected), "{event}");
    }
}

/// A surrogate pair that is split between two deltas is joined. JavaScript splits text between
/// UTF-16 code units, and encodes a lone surrogate as an escape.
#[tokio::test]
async fn surrogate_pairs_are_joined_across_deltas() {
    check(&[br"abcd\ud83c", br"\udf0d!"], "abcd🌍!").await;
    check(&[br"\ud83c", b"", br"\udf0d"], "🌍").await;
    check(&[br"1\uD83C", br"\uDF0D2\ud83c", br"\udf0d"], "1🌍2🌍").await;
}

#[tokio::test]
async fn lone_surrogate_becomes_the_replacement_character() {
    check(&[br"a\ud83c", b"b"], "a\u{fffd}b").await;
    check(&[br"a\ud83cb", br"\udf0dc"], "a\u{fffd}b\u{fffd}c").await;
    check(&[br"a\ud83c", br"\ud83c\udf0d", br"\ud83c"], "a\u{fffd}🌍\u{fffd}").await;
    check(&[br#"\\ud83c \" \\\ud83c"#, br"\u00fc"], "\\ud83c \" \\\u{fffd}ü").await;
}

#[tokio::test]
async fn invalid_utf8_becomes_the_replacement_character() {
    check(&[b"a\xffb", b"c\xf0\x9f"], "a\u{fffd}bc\u{fffd}").await;
}

#[tokio::test]
async fn final_text_completes_a_split_character() {
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"ab🌍"}]}}"#;
    let half = r#"{"type":"response.output_text.delta","output_index":0,"delta":"ab\ud83c"}"#;
    assert_eq!(streamed(Api::Responses, [half.into(), done.into()]).await.message.text(), "ab🌍");
}

#[tokio::test]
async fn surrogates_of_two_messages_are_not_joined() {
    let delta = |index: u8, piece: &str| {
        format!(r#"{{"type":"response.output_text.delta","output_index":{index},"delta":"{piece}"}}"#)
            .into_bytes()
    };
    let events = [delta(0, r"a\ud83c"), delta(1, r"\ud83c"), delta(1, r"\udf0d")];
    assert_eq!(streamed(Api::Responses, events).await.message.text(), "a\u{fffd}\n\n🌍");
}

#[tokio::test]
async fn lone_surrogate_in_a_whole_reply_is_replaced() {
    let chat = r#"{"choices":[{"message":{"content":"a\ud83c"},"finish_reason":"stop"}]}"#;
    let items = r#"{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a\ud83c"}]}]}"#;
    for (api, body) in [(Api::Chat, chat), (Api::Responses, items)] {
        let events = api.events(reply("200 OK", "", body)).await;
        let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
        assert_eq!(reply.message.text(), "a\u{fffd}");
    }
}

#[tokio::test]
async fn lone_surrogate_in_an_error_is_replaced() {
    for body in [r#"{"error":{"message":"no \ud83c"}}"#, r#"{"type":"error","message":"no \ud83c"}"#] {
        let sent = format!("{STREAM}data: {body}\n\n").into_bytes();
        let server = Server::with_replies([sent]).await;
        let model = server.responses().max_retries(0).build().unwrap();
        let error = model.chat(&hello()).await.unwrap_err().to_string();
        assert_eq!(error, "the model's server failed: no \u{fffd}");
    }
}

#[tokio::test]
async fn lone_surrogate_in_a_partial_reply_is_replaced() {
    let half = r#"{"type":"response.output_text.delta","output_index":0,"delta":"ab\ud83c"}"#;
    let broken = r#"{"type":"response.incomplete","response":{"status":"incomplete"}}"#;
    let sent: String = [half, broken].map(|event| format!("data: {event}\n\n")).concat();
    for sent in [sent.clone(), format!("data: {half}\n\n")] {
        let server = Server::with_replies([format!("{STREAM}{sent}").into_bytes()]).await;
        let model = server.responses().max_retries(0).build().unwrap();
        let error = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
        let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
        assert_eq!(partial.text(), "ab\u{fffd}");
    }
}
