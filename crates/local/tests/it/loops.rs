//! Tests of replies that repeat themselves.

use haft_core::{
    ChatModel, Message, Schema, ToolName,
    model::{ChatRequest, ChatResponse, FinishReason, ResponseFormat},
};
use haft_local::LocalModel;
use serde_json::{Value, json};

use crate::scripted::{END, ScriptedFile};

const QWEN3: &str = include_str!("../templates/qwen3.jinja");
const TAGS: [&str; 2] = ["<think>", "</think>"];
/// The number of tokens after which a repeated text ends.
const LOOP_TOKENS: usize = 160;

async fn model(chains: &[&[&str]]) -> LocalModel {
    ScriptedFile::new(QWEN3, &TAGS, chains).load().await
}

/// Returns the reply in JSON with the property `value`, which has the schema `property`.
async fn json_reply(chains: &[&[&str]], property: Value) -> ChatResponse {
    let schema = json!({"type": "object", "properties": {"value": property}, "required": ["value"]});
    let response_format = ResponseFormat::JsonSchema {
        name: ToolName::new("reply").unwrap(),
        schema: Schema::new(schema).unwrap(),
    };
    let request = ChatRequest { response_format, ..ChatRequest::new([Message::user("List.")]) };
    model(chains).await.chat(&request).await.unwrap()
}

#[tokio::test]
async fn text_that_repeats_itself_ends() {
    let request = ChatRequest::new([Message::user("Tell me.")]);
    let reply = model(&[&["\n", "So ", "it ", "is. ", "So "]]).await.chat(&request).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Length);
    // 160 is no multiple of the three tokens of the block.
    assert_eq!(reply.usage.output_tokens as usize, LOOP_TOKENS.next_multiple_of(3));
    assert!(reply.message.text().starts_with("So it is. So it is."), "{}", reply.message.text());
}

#[tokio::test]
async fn text_that_differs_does_not_end() {
    let words: Vec<String> = (0..300).map(|number| format!("word{number} ")).collect();
    let chain: Vec<_> = ["\n"].into_iter().chain(words.iter().map(String::as_str)).chain([END]).collect();
    let reply = model(&[&chain]).await.chat(&ChatRequest::new([Message::user("Tell me.")])).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Stop);
    assert_eq!(reply.usage.output_tokens, 300);
}

/// The list is closed where the schema permits it. In the second list, the repetition is detected
/// within a string, which is not truncated.
#[tokio::test]
async fn list_that_repeats_itself_is_closed() {
    let numbers: [&[&str]; 2] = [&["[", "1", ","], &[" ", "1"]];
    let strings: [&[&str]; 2] = [&["[", "\"a", "\","], &[" ", "\"a"]];
    for (chains, items) in [(numbers, json!({"type": "integer"})), (strings, json!({"type": "string"}))] {
        let reply = json_reply(&chains, json!({"type": "array", "items": items})).await;
        assert_eq!(reply.finish_reason, FinishReason::Stop);
        let value: Value = serde_json::from_str(&reply.message.text()).unwrap();
        let list = value["value"].as_array().unwrap();
        let (last, others) = list.split_last().unwrap();
        assert!((40..LOOP_TOKENS).contains(&others.len()), "{list:?}");
        assert!(others.iter().all(|item| *item == others[0]), "{last}");
    }
}

#[tokio::test]
async fn string_that_repeats_itself_is_not_truncated() {
    let chains: [&[&str]; 3] = [&["\"", "x", "x"], &[":", "\""], &[" ", "\""]];
    let reply = json_reply(&chains, json!({"type": "string"})).await;
    assert_eq!((reply.finish_reason, reply.message.text().as_str()), (FinishReason::Length, ""));
    assert!(reply.usage.output_tokens < 2 * LOOP_TOKENS as u64, "{:?}", reply.usage);
}
