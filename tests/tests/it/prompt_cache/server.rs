//! A model that records the prompts of a run.

use std::sync::{Arc, Mutex};

use haft_core::ChatModel;
use serde_json::{Value, json};

use super::cache::{Block, Prompt};
use crate::apis::{Api, Call};

/// A model whose requests are recorded. Each step of the main agent calls its tools, and the last
/// one answers. A child answers after one call, and so does a request without tools.
#[derive(Clone)]
pub(crate) struct Recorder {
    api: Api,
    state: Arc<Mutex<State>>,
}

struct State {
    /// The number of calls of each step of the main agent, in reverse order.
    calls: Vec<usize>,
    has_child: bool,
    bodies: Vec<Value>,
    next_id: usize,
}

/// The reported number of input tokens. It exceeds the maximum of the summarized view, so each
/// step with that view begins with a summary.
pub(crate) const INPUT_TOKENS: u64 = 21_000;

impl Recorder {
    pub(crate) fn new(api: Api, mut calls: Vec<usize>, has_child: bool) -> Self {
        calls.reverse();
        let state = State { calls, has_child, bodies: Vec::new(), next_id: 0 };
        Self { api, state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn model(&self) -> Arc<dyn ChatModel> {
        let this = self.clone();
        self.api.model(move |body| this.api.reply(&this.calls(body), INPUT_TOKENS))
    }

    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.state.lock().unwrap().bodies.iter().map(prompt).collect()
    }

    /// Records `body` and returns the calls of its reply.
    fn calls(&self, body: Value) -> Vec<Call> {
        let mut state = self.state.lock().unwrap();
        let names = self.api.tool_names(&body);
        let is_child = names.first().is_some_and(|name| name.starts_with("child_"));
        let number = match names.first() {
            None => 0,
            Some(_) if is_child => usize::from(!has_call(&body, "child_look")),
            Some(_) => state.calls.pop().unwrap_or(0),
        };
        let asks_child = state.has_child && state.calls.len() % 10 == 5;
        let calls = (0..number).map(|_| {
            state.next_id += 1;
            let id = state.next_id;
            let (name, arguments) = match id % 2 {
                _ if is_child => ("child_look", json!({"n": id})),
                _ if asks_child && id.is_multiple_of(3) => {
                    ("ask_child", json!({"input": format!("Question {id}")}))
                }
                0 => ("look", json!({"n": id})),
                _ => ("read", json!({"n": id})),
            };
            (format!("call_{id}"), name.to_owned(), arguments)
        });
        let calls = calls.collect();
        state.bodies.push(body);
        calls
    }
}

/// Returns `true` if the messages of a request contain a call of `tool`.
fn has_call(body: &Value, tool: &str) -> bool {
    let messages = ["messages", "input", "contents"].iter().find_map(|key| body.get(key));
    messages.is_some_and(|messages| messages.to_string().contains(tool))
}

/// Returns the prompt of a request: its tools, its instructions, and then its messages. A message of
/// Anthropic has a block for each of its parts.
fn prompt(body: &Value) -> Prompt {
    let list = |key: &str| body.get(key).and_then(Value::as_array).into_iter().flatten();
    let is_anthropic = body.get("max_tokens").is_some() && body.get("system").is_some();
    if !is_anthropic {
        let tools = body.get("tools").map(block);
        return tools.into_iter().chain(list("messages").chain(list("input")).map(block)).collect();
    }
    let parts = list("messages").flat_map(|message| message["content"].as_array().into_iter().flatten());
    list("tools").chain(list("system")).chain(parts).map(block).collect()
}

/// Returns `value` without its marks as a block.
fn block(value: &Value) -> Block {
    let mut value = value.clone();
    let is_marked = remove_marks(&mut value);
    Block { text: value.to_string(), is_marked }
}

/// Removes the cache breakpoints in `value`. Returns `true` if there was one.
fn remove_marks(value: &mut Value) -> bool {
    match value {
        Value::Array(list) => list.iter_mut().filter_map(|item| remove_marks(item).then_some(())).count() > 0,
        Value::Object(object) => {
            let marks = ["prompt_cache_breakpoint", "cache_control"];
            let own = marks.iter().filter(|mark| object.remove(**mark).is_some()).count();
            let inner = object.values_mut().filter_map(|item| remove_marks(item).then_some(())).count();
            own + inner > 0
        }
        _ => false,
    }
}
