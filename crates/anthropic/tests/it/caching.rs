//! Prompt caching, against a simulation of the API's cache.

use std::collections::HashMap;
use std::sync::Arc;

use expect_test::expect;
use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult,
    message::AssistantMessage,
    model::{ChatModel as _, ChatRequest},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::server::{Server, message, ok_reply, pretty, sent, tools};

/// The number of blocks before a breakpoint at which the API looks for an entry.
const LOOKBACK: usize = 20;

/// A block of a request, without its `cache_control`.
struct Block {
    json: String,
    is_breakpoint: bool,
}

/// Returns the blocks of `body` in the order of the cache: tools, system, messages.
fn blocks_of(body: &Value) -> Vec<Block> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages = list(&body["messages"]).into_iter().flat_map(|message| {
        let role = message["role"].clone();
        list(&message["content"]).into_iter().map(move |block| (role.clone(), block))
    });
    let others = [("tool", "tools"), ("system", "system")];
    let others =
        others.iter().flat_map(|(kind, key)| list(&body[*key]).into_iter().map(move |it| (json!(kind), it)));
    let block = |(role, mut block): (Value, Value)| {
        let is_breakpoint = block.as_object_mut().unwrap().shift_remove("cache_control").is_some();
        assert!(!is_breakpoint || !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")));
        assert!(!is_breakpoint || block["text"] != "");
        Block { json: format!("{role}{block}"), is_breakpoint }
    };
    others.chain(messages).map(block).collect()
}

/// The cache: the prefixes that were written, and their sizes.
#[derive(Default)]
struct Cache(HashMap<String, usize>);

impl Cache {
    /// Sends `blocks`. Returns the number of bytes that are read from the cache.
    fn send(&mut self, blocks: &[Block]) -> usize {
        let prefix = |end: usize| blocks[..end].iter().map(|block| block.json.as_str()).collect::<String>();
        let breakpoints: Vec<_> = (0..blocks.len()).filter(|place| blocks[*place].is_breakpoint).collect();
        assert!(breakpoints.len() <= 4);
        let hit = |place: &usize| {
            let ends = (place.saturating_sub(LOOKBACK - 1)..=*place).rev();
            ends.filter_map(|place| self.0.get(&prefix(place + 1)).copied()).next()
        };
        let read = breakpoints.iter().filter_map(hit).max().unwrap_or_default();
        for place in breakpoints {
            let text = prefix(place + 1);
            self.0.insert(text.clone(), text.len());
        }
        read
    }
}

/// A step of a conversation.
#[derive(Clone, Debug)]
enum Step {
    /// A reply with calls, and their results.
    Calls(usize),
    /// A reply with a text, and the next question. The numbers are those of the pieces.
    Turn(usize, usize),
    /// A question without a reply in between.
    Question,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..30).prop_map(Step::Calls),
        2 => (1_usize..3, 1_usize..4).prop_map(|(said, asked)| Step::Turn(said, asked)),
        1 => Just(Step::Question),
    ]
}

fn messages_of(number: usize, step: &Step) -> Vec<Message> {
    let question = |place| Message::user(format!("question {number} {place} {}", "x".repeat(50)));
    match step {
        Step::Calls(count) => {
            let id = |place: usize| format!("c{number}_{place}");
            let calls =
                (0..*count).map(|place| ToolCall::new(id(place), "t1", json!({"x": place}).to_string()));
            let reply = AssistantMessage { tool_calls: calls.collect(), ..AssistantMessage::default() };
            let result = |place| {
                Message::tool(ToolResult::done(
                    id(place),
                    "t1",
                    ToolOutput::from(format!("{place} {}", "y".repeat(40))),
                ))
            };
            [Message::assistant(reply)].into_iter().chain((0..*count).map(result)).collect()
        }
        Step::Turn(said, asked) => {
            let content = (0..*said).map(|place| format!("answer {number} {place}").into()).collect();
            let reply = AssistantMessage { content, ..AssistantMessage::default() };
            [Message::assistant(reply)].into_iter().chain((0..*asked).map(question)).collect()
        }
        Step::Question => vec![question(0)],
    }
}

/// Sends the requests of a conversation. Returns the bytes that were read from the cache, and those
/// that could have been read: the blocks of the previous request.
async fn run(steps: &[Step], tool_count: usize) -> (usize, usize) {
    let reply = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies(vec![reply; steps.len() + 1]).await;
    let model = server.model();
    let instructions = Some(Arc::new(Message::system("Be brief. ".repeat(20))));
    let list = tools((0..tool_count).map(|number| format!("t{number}")));
    let mut messages = vec![Arc::new(Message::user("question"))];
    for number in 0..=steps.len() {
        let request = ChatRequest {
            instructions: instructions.clone(),
            messages: messages.iter().cloned().collect(),
            ..ChatRequest::default().with_tools(list.clone())
        };
        model.chat(&request).await.unwrap();
        if let Some(step) = steps.get(number) {
            messages.extend(messages_of(number, step).into_iter().map(Arc::new));
        }
    }
    let (mut cache, mut read, mut possible) = (Cache::default(), 0, 0);
    let mut previous = Vec::<Block>::new();
    for request in server.take_requests() {
        let blocks = blocks_of(&request.body);
        assert!(
            blocks.iter().zip(&previous).all(|(one, other)| one.json == other.json),
            "the prefix changed"
        );
        assert!(blocks.len() >= previous.len());
        read += cache.send(&blocks);
        possible += previous.iter().map(|block| block.json.len()).sum::<usize>();
        previous = blocks;
    }
    (read, possible)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each request reads what the previous one has written, also after a step with many blocks.
    #[test]
    fn previous_request_is_read_from_the_cache(steps in prop::collection::vec(any_step(), 1..8), tool_count in 2_usize..45) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (read, possible) = runtime.block_on(run(&steps, tool_count));
        prop_assert!(read * 100 >= possible * 95, "{read} of {possible}");
    }
}

#[tokio::test]
async fn breakpoints_are_placed() {
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        ..ChatRequest::new([
            Message::user("one"),
            Message::assistant("two"),
            Message::user("three"),
            Message::assistant("four"),
            Message::user("five"),
        ])
        .with_tools(tools(["a".to_owned(), "b".to_owned()]))
    };
    let hour = std::time::Duration::from_secs(3_600);
    let mut body = sent("claude-opus-5-5", |it| it.prompt_cache_ttl(hour), &request).await;
    body.as_object_mut().unwrap().retain(|key, _| matches!(key.as_str(), "tools" | "system" | "messages"));
    body["tools"].as_array_mut().unwrap().iter_mut().for_each(|tool| tool["input_schema"] = json!({}));
    expect![[r#"
        {
          "system": [
            {
              "type": "text",
              "text": "Be brief.",
              "cache_control": {
                "type": "ephemeral",
                "ttl": "1h"
              }
            }
          ],
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "one"
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "text",
                  "text": "two"
                }
              ]
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "three",
                  "cache_control": {
                    "type": "ephemeral",
                    "ttl": "1h"
                  }
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "text",
                  "text": "four"
                }
              ]
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "five",
                  "cache_control": {
                    "type": "ephemeral",
                    "ttl": "1h"
                  }
                }
              ]
            }
          ],
          "tools": [
            {
              "name": "a",
              "input_schema": {},
              "description": "A tool."
            },
            {
              "name": "b",
              "input_schema": {},
              "description": "A tool.",
              "cache_control": {
                "type": "ephemeral",
                "ttl": "1h"
              }
            }
          ]
        }"#]]
    .assert_eq(&pretty(&body));
    let without = sent("claude-opus-5-5", |it| it.prompt_cache(false), &request).await;
    assert!(!without.to_string().contains("cache_control"));
}
