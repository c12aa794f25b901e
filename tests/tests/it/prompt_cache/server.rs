//! Model APIs without sockets: a layer that records each request and answers it.

use std::sync::{Arc, Mutex};

use haft_core::ChatModel;
use haft_openai::{ChatCompletions, HttpService, Provider, Responses};
use serde_json::{Value, json};
use tower::{layer::layer_fn, service_fn};

use super::cache::{Block, CacheRules, Prompt};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Api {
    ChatCompletions,
    Responses,
}

impl Api {
    pub(crate) const WITH_RULES: [(Self, CacheRules); 2] =
        [(Self::ChatCompletions, CacheRules::OpenAi), (Self::Responses, CacheRules::OpenAi)];
}

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

impl Recorder {
    pub(crate) fn new(api: Api, mut calls: Vec<usize>, has_child: bool) -> Self {
        calls.reverse();
        let state = State { calls, has_child, bodies: Vec::new(), next_id: 0 };
        Self { api, state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn model(&self) -> Arc<dyn ChatModel> {
        let this = self.clone();
        let layer = layer_fn(move |_: HttpService| {
            let this = this.clone();
            service_fn(move |request: reqwest::Request| {
                let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
                let reply = this.reply(serde_json::from_slice(body).unwrap());
                let response = http::Response::new(reply.to_string());
                async { Ok::<_, std::convert::Infallible>(reqwest::Response::from(response)) }
            })
        });
        match self.api {
            Api::ChatCompletions => Arc::new(
                ChatCompletions::builder("gpt-5.6").provider(Provider::OpenAi).layer(layer).build().unwrap(),
            ),
            Api::Responses => Arc::new(
                Responses::builder("gpt-5.6").provider(Provider::OpenAi).layer(layer).build().unwrap(),
            ),
        }
    }

    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.state.lock().unwrap().bodies.iter().map(|body| self.api.prompt(body)).collect()
    }

    fn reply(&self, body: Value) -> Value {
        let mut state = self.state.lock().unwrap();
        let names: Vec<_> = self.api.tool_names(&body);
        let has_results = body.to_string().contains("child_look");
        let number = match names.first() {
            None => 0,
            Some(name) if name.starts_with("child_") => {
                let messages = body.get("messages").or_else(|| body.get("input")).unwrap();
                usize::from(!messages.to_string().contains("child_look")) * usize::from(has_results)
            }
            Some(_) => state.calls.pop().unwrap_or(0),
        };
        let asks_child = state.has_child && state.calls.len() % 10 == 5;
        let calls: Vec<_> = (0..number)
            .map(|_| {
                state.next_id += 1;
                let is_child = names[0].starts_with("child_");
                let name = match state.next_id % 2 {
                    _ if is_child => "child_look",
                    _ if asks_child && state.next_id.is_multiple_of(3) => "ask_child",
                    0 => "look",
                    _ => "read",
                };
                let key = if name == "ask_child" { "input" } else { "n" };
                let value = if key == "n" {
                    json!(state.next_id)
                } else {
                    json!(format!("Question {}", state.next_id))
                };
                (format!("call_{}", state.next_id), name, json!({ key: value }).to_string())
            })
            .collect();
        state.bodies.push(body);
        self.api.reply(&calls)
    }
}

impl Api {
    fn tool_names(self, body: &Value) -> Vec<String> {
        let tools = body["tools"].as_array().into_iter().flatten();
        let name = |tool: &Value| {
            tool.pointer("/function/name").or(tool.get("name")).and_then(Value::as_str).map(str::to_owned)
        };
        tools.filter_map(name).collect()
    }

    fn reply(self, calls: &[(String, &str, String)]) -> Value {
        match self {
            Self::ChatCompletions => {
                let calls: Vec<_> = calls
                    .iter()
                    .map(|(id, name, arguments)| {
                        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
                    })
                    .collect();
                let message = match calls.is_empty() {
                    true => json!({"role": "assistant", "content": "Done."}),
                    false => json!({"role": "assistant", "content": null, "tool_calls": calls}),
                };
                json!({
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 21_000, "completion_tokens": 10, "total_tokens": 21_010},
                })
            }
            Self::Responses => {
                let mut output: Vec<_> = calls
                    .iter()
                    .map(|(id, name, arguments)| {
                        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                               "arguments": arguments, "status": "completed"})
                    })
                    .collect();
                if output.is_empty() {
                    output.push(json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                                       "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}));
                }
                json!({
                    "id": "resp_1", "status": "completed", "output": output,
                    "usage": {"input_tokens": 21_000, "output_tokens": 10, "total_tokens": 21_010},
                })
            }
        }
    }

    /// Returns the prompt of a request: its tools, and then its messages.
    fn prompt(self, body: &Value) -> Prompt {
        let messages = body.get("messages").or_else(|| body.get("input")).and_then(Value::as_array).unwrap();
        body.get("tools").into_iter().chain(messages).map(block).collect()
    }
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
            let own = object.remove("prompt_cache_breakpoint").is_some();
            let inner = object.values_mut().filter_map(|item| remove_marks(item).then_some(())).count();
            own || inner > 0
        }
        _ => false,
    }
}
