//! Property tests: the items of a response are sent back in order, and streamed and non-streamed
//! replies are equal.

use std::sync::Arc;

use futures::TryStreamExt as _;
use haft_core::{ChatModel as _, Message, message::AssistantMessage, model::ChatEvent};
use haft_openai::responses;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    responses::{events_of, without_origin},
    server::{Server, chunks_reply, hello, ok_reply},
};

#[derive(Clone, Debug)]
enum Item {
    Reasoning,
    Text(String),
    Call,
    Search,
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        Just(Item::Reasoning),
        "[aü\n 🌍]{0,6}".prop_map(Item::Text),
        Just(Item::Call),
        Just(Item::Search)
    ]
}

impl Item {
    fn wire_item(&self, place: usize) -> Value {
        match self {
            Self::Reasoning => {
                json!({"id": format!("rs_{place}"), "type": "reasoning", "encrypted_content": "x", "summary": []})
            }
            Self::Text(text) => {
                let part = json!({"type": "output_text", "text": text});
                json!({"id": format!("msg_{place}"), "type": "message", "role": "assistant", "content": [part]})
            }
            Self::Call => {
                json!({"id": format!("fc_{place}"), "type": "function_call", "call_id": format!("call_{place}"), "name": "add", "arguments": "{}"})
            }
            Self::Search => json!({"id": format!("ws_{place}"), "type": "web_search_call"}),
        }
    }

    fn expected(&self, place: usize) -> Value {
        match self {
            Self::Text(text) => json!({"role": "assistant", "content": text}),
            Self::Call => {
                json!({"type": "function_call", "call_id": format!("call_{place}"), "name": "add", "arguments": "{}"})
            }
            Self::Reasoning | Self::Search => self.wire_item(place),
        }
    }
}

fn message_of(items: &[Item]) -> Option<AssistantMessage> {
    let output: Vec<_> = items.iter().enumerate().map(|(place, item)| item.wire_item(place)).collect();
    // A response without any content is an error, so it has no message.
    responses::decode_response(&json!({"status": "completed", "output": output}))
        .ok()
        .map(|reply| reply.message)
}

/// Returns the input items that must be sent back for `items`. Empty texts are omitted, and so are
/// items for which `is_present` returns `false`. Reasoning is omitted together with the item that
/// follows it, and at the end of `items`.
fn expected(items: &[Item], is_present: impl Fn(&Item) -> bool) -> Vec<Value> {
    let (mut sent, mut reasoning) = (Vec::new(), Vec::new());
    for (place, item) in items.iter().enumerate() {
        match item {
            Item::Reasoning => reasoning.push(item.expected(place)),
            Item::Text(text) if text.is_empty() => reasoning.clear(),
            item if !is_present(item) => reasoning.clear(),
            item => {
                sent.append(&mut reasoning);
                sent.push(item.expected(place));
            }
        }
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn items_are_sent_back_in_order(items in prop::collection::vec(item(), 0..8)) {
        if let Some(message) = message_of(&items) {
            let input = responses::encode_input(&[Arc::new(Message::assistant(message))]);
            prop_assert_eq!(input, expected(&items, |_| true));
        }
    }

    #[test]
    fn reasoning_before_removed_calls_is_omitted(items in prop::collection::vec(item(), 0..8)) {
        if let Some(mut message) = message_of(&items) {
            message.tool_calls.clear();
            let input = responses::encode_input(&[Arc::new(Message::assistant(message))]);
            prop_assert_eq!(input, expected(&items, |item| !matches!(item, Item::Call)));
        }
    }
}

/// Receives `response`, non-streamed and streamed. Returns the message and the concatenated text
/// deltas of each reply, or `None` if the reply is an error.
async fn both_ways(response: &Value) -> [Option<(AssistantMessage, String)>; 2] {
    let server = Server::with_replies([ok_reply(response), chunks_reply(&events_of(response))]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    let whole = model.chat(&hello()).await.ok().map(without_origin);
    let whole = whole.map(|reply| (reply.message.clone(), reply.message.text()));
    let events = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_or_default();
    let mut deltas = String::new();
    let mut streamed = None;
    for event in events {
        match event {
            ChatEvent::TextDelta { text } => deltas += &text,
            ChatEvent::Finished(reply) => streamed = Some(without_origin(*reply).message),
            _ => {}
        }
    }
    [whole, streamed.map(|message| (message, deltas))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streamed_and_whole_replies_are_equal(items in prop::collection::vec(item(), 0..8)) {
        let output: Vec<_> = items.iter().enumerate().map(|(place, item)| item.wire_item(place)).collect();
        let response = json!({"id": "r", "status": "completed", "output": output});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [whole, streamed] = runtime.block_on(both_ways(&response));
        prop_assert_eq!(whole, streamed);
    }
}
