//! Tests of `<think>` blocks in the text of servers without a reasoning parser.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel,
    model::{ChatEvent, ModelError},
};
use serde_json::json;

use crate::server::{Server, hello, ok_reply, stream_reply};

/// Asserts that `content` is split into `reasoning` and `answer`: non-streamed, and streamed in
/// pieces of several sizes.
async fn check(content: &str, reasoning: Option<&str>, answer: &str) {
    let whole = ok_reply(&json!({"choices": [{"message": {"content": content}, "finish_reason": "length"}]}));
    let characters: Vec<_> = content.chars().collect();
    let streams = [1, 3, 1000].map(|length| {
        let piece =
            |piece: &[char]| json!({"choices": [{"delta": {"content": piece.iter().collect::<String>()}}]});
        let end = json!({"choices": [{"delta": {}, "finish_reason": "length"}]});
        stream_reply(&characters.chunks(length).map(piece).chain([end]).collect::<Vec<_>>())
    });
    for sent in [whole].into_iter().chain(streams) {
        let server = Server::with_replies([sent]).await;
        let mut events: Vec<_> = server.model().stream(&hello()).try_collect().await.unwrap();
        let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
        assert_eq!(
            (reply.message.reasoning.as_deref(), reply.message.text().as_str()),
            (reasoning, answer),
            "{content}"
        );
        let (mut reasoning_deltas, mut deltas) = (String::new(), String::new());
        for event in events {
            match event {
                ChatEvent::TextDelta { text } => deltas.push_str(&text),
                ChatEvent::ReasoningDelta { text } => reasoning_deltas.push_str(&text),
                _ => {}
            }
        }
        assert_eq!((reasoning_deltas.as_str(), deltas.as_str()), (reasoning.unwrap_or_default(), answer));
    }
}

#[tokio::test]
async fn leading_think_block_is_reasoning() {
    check("<think>Hm.</think>\n\nHi", Some("Hm."), "Hi").await;
    check(
        "\n<think>\nHm,\n\nso.\n</think>\n\nHi <think>x</think>",
        Some("Hm,\n\nso."),
        "Hi <think>x</think>",
    )
    .await;
    check("<think>\n\n</think>\n\nHi", None, "Hi").await;
    check("<think>1 </ 2 </thin </think>Hi\n", Some("1 </ 2 </thin"), "Hi\n").await;
}

#[tokio::test]
async fn unterminated_think_block_is_reasoning() {
    check("<think>Hm, so </th", Some("Hm, so </th"), "").await;
    check("<think>Hm. </think> ", Some("Hm."), "").await;
}

#[tokio::test]
async fn other_texts_are_unchanged() {
    for text in
        ["Hi", " \n Hi", "<thin", "<b>Hi</b>", "<thinking>Hm.</thinking>Hi", "I <think>so</think>", " "]
    {
        check(text, None, text).await;
    }
    let many = " ".repeat(5000) + "<think>";
    check(&many, None, &many).await;
    let many = "<think>a".to_owned() + &" ".repeat(5000) + "b</think>";
    check(&many, Some(&many[7..many.len() - 8]), "").await;
}

#[tokio::test]
async fn think_tags_are_kept_by_option() {
    let whole = ok_reply(
        &json!({"choices": [{"message": {"content": "<think>Hm.</think>Hi"}, "finish_reason": "stop"}]}),
    );
    let server = Server::with_replies([whole]).await;
    let model = server.builder().keep_think_tags(true).build().unwrap();
    assert_eq!(model.chat(&hello()).await.unwrap().message.text(), "<think>Hm.</think>Hi");
}

#[test]
fn think_block_is_parsed_without_a_client() {
    for (content, answer, reasoning) in
        [("<think>Hm.</think>Hi", "Hi", Some("Hm.")), ("<think", "<think", None)]
    {
        let message = haft_openai::decode_message(&json!({"content": content})).unwrap();
        assert_eq!((message.text().as_str(), message.reasoning.as_deref()), (answer, reasoning));
    }
}

/// A reply that ends inside a `<think>` block is an error, because it has no answer. The partial
/// message in the error contains the reasoning.
#[tokio::test]
async fn reply_ending_inside_a_think_block_is_truncated() {
    let choice = json!({"message": {"content": "<think>Hm, it is 4"}, "finish_reason": "stop"});
    let server = Server::with_replies([ok_reply(&json!({"choices": [choice]}))]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
    assert_eq!(partial.reasoning.as_deref(), Some("Hm, it is 4"));
}
