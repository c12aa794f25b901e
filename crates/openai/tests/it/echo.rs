//! What a response consists of goes back as it came, whatever its items are.

use std::sync::Arc;

use futures::TryStreamExt as _;
use haft_core::{ChatModel as _, Message, message::AssistantMessage, model::ChatEvent};
use haft_openai::responses;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    responses::{events_of, of_any_server},
    server::{Server, chunks, hello, ok},
};

#[derive(Clone, Debug)]
enum Item {
    Thought,
    Text(String),
    Call,
    Search,
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        Just(Item::Thought),
        "[aü\n 🌍]{0,6}".prop_map(Item::Text),
        Just(Item::Call),
        Just(Item::Search)
    ]
}

impl Item {
    fn sent(&self, place: usize) -> Value {
        match self {
            Self::Thought => {
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
            Self::Thought | Self::Search => self.sent(place),
        }
    }
}

fn said(items: &[Item]) -> Option<AssistantMessage> {
    let output: Vec<_> = items.iter().enumerate().map(|(place, item)| item.sent(place)).collect();
    // A response that says nothing is none.
    responses::response(&json!({"status": "completed", "output": output})).ok().map(|reply| reply.message)
}

/// The items without empty texts, and without thoughts that lead to nothing that is left.
fn expected(items: &[Item], is_left: impl Fn(&Item) -> bool) -> Vec<Value> {
    let (mut sent, mut thoughts) = (Vec::new(), Vec::new());
    for (place, item) in items.iter().enumerate() {
        match item {
            Item::Thought => thoughts.push(item.expected(place)),
            Item::Text(text) if text.is_empty() => thoughts.clear(),
            item if !is_left(item) => thoughts.clear(),
            item => {
                sent.append(&mut thoughts);
                sent.push(item.expected(place));
            }
        }
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn items_go_back_in_their_order(items in prop::collection::vec(item(), 0..8)) {
        if let Some(message) = said(&items) {
            let input = responses::input(&[Arc::new(Message::assistant(message))]);
            prop_assert_eq!(input, expected(&items, |_| true));
        }
    }

    /// What the program takes out of a reply is not sent, and no thought that led to it.
    #[test]
    fn calls_that_were_taken_out_take_their_thoughts_with_them(items in prop::collection::vec(item(), 0..8)) {
        if let Some(mut message) = said(&items) {
            message.tool_calls.clear();
            let input = responses::input(&[Arc::new(Message::assistant(message))]);
            prop_assert_eq!(input, expected(&items, |item| !matches!(item, Item::Call)));
        }
    }
}

/// What a model says to a response, whole and streamed, and what was heard of the text.
async fn both_ways(response: &Value) -> [Option<(AssistantMessage, String)>; 2] {
    let server = Server::replying([ok(response), chunks(&events_of(response))]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    let whole = model.chat(&hello()).await.ok().map(of_any_server);
    let whole = whole.map(|reply| (reply.message.clone(), reply.message.text()));
    let events = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_or_default();
    let mut heard = String::new();
    let mut streamed = None;
    for event in events {
        match event {
            ChatEvent::TextDelta { text } => heard += &text,
            ChatEvent::Finished(reply) => streamed = Some(of_any_server(*reply).message),
            _ => {}
        }
    }
    [whole, streamed.map(|message| (message, heard))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Streamed or not, it is the same reply, and what was heard is what it says.
    #[test]
    fn a_stream_gives_the_reply_that_the_whole_gives(items in prop::collection::vec(item(), 0..8)) {
        let output: Vec<_> = items.iter().enumerate().map(|(place, item)| item.sent(place)).collect();
        let response = json!({"id": "r", "status": "completed", "output": output});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [whole, streamed] = runtime.block_on(both_ways(&response));
        prop_assert_eq!(whole, streamed);
    }
}
