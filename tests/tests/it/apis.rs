//! The APIs of the providers without sockets: a layer answers each request with a function.

use std::{convert::Infallible, sync::Arc};

use haft_anthropic::Messages;
use haft_core::ChatModel;
use haft_gemini::Gemini;
use haft_openai::{ChatCompletions, HttpService, Provider, Responses};
use serde_json::{Value, json};
use tower::{layer::layer_fn, service_fn};

/// An API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    ChatCompletions,
    Responses,
    Anthropic,
    Gemini,
    Interactions,
}

/// A tool call in a reply: its id, the name of the tool, and the arguments.
pub(crate) type Call = (String, String, Value);

impl Api {
    pub(crate) const ALL: [Self; 5] =
        [Self::ChatCompletions, Self::Responses, Self::Anthropic, Self::Gemini, Self::Interactions];

    /// Creates a model that passes the body of each request to `answer`, which returns the body of
    /// the reply.
    pub(crate) fn model(self, answer: impl Fn(Value) -> Value + Send + Sync + 'static) -> Arc<dyn ChatModel> {
        let answer = Arc::new(answer);
        let layer = layer_fn(move |_: HttpService| {
            let answer = Arc::clone(&answer);
            service_fn(move |request: reqwest::Request| {
                let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
                let reply = answer(serde_json::from_slice(body).unwrap());
                let response = http::Response::new(reply.to_string());
                async { Ok::<_, Infallible>(reqwest::Response::from(response)) }
            })
        });
        match self {
            Self::ChatCompletions => Arc::new(
                ChatCompletions::builder("gpt-5.6").provider(Provider::OpenAi).layer(layer).build().unwrap(),
            ),
            Self::Responses => Arc::new(
                Responses::builder("gpt-5.6").provider(Provider::OpenAi).layer(layer).build().unwrap(),
            ),
            Self::Anthropic => Arc::new(Messages::builder("claude-sonnet-5-5").layer(layer).build().unwrap()),
            Self::Gemini => Arc::new(Gemini::builder("gemini-3.8-flash").layer(layer).build().unwrap()),
            Self::Interactions => Arc::new(
                Gemini::builder("gemini-3.8-flash")
                    .api(haft_gemini::Api::Interactions)
                    .layer(layer)
                    .build()
                    .unwrap(),
            ),
        }
    }

    /// Returns the names of the functions in a request.
    pub(crate) fn tool_names(self, body: &Value) -> Vec<String> {
        let tools = body["tools"].as_array().into_iter().flatten();
        let functions = tools.flat_map(|tool| match tool.get("functionDeclarations") {
            Some(Value::Array(list)) => list.iter().collect(),
            _ => vec![tool],
        });
        let name = |tool: &Value| {
            tool.pointer("/function/name").or(tool.get("name")).and_then(Value::as_str).map(str::to_owned)
        };
        functions.filter_map(name).collect()
    }

    /// Returns the body of a reply with `calls`, or with the text `Done.` if there are none. It reports
    /// `input_tokens`.
    pub(crate) fn reply(self, calls: &[Call], input_tokens: u64) -> Value {
        match self {
            Self::ChatCompletions => chat_reply(calls, input_tokens),
            Self::Responses => responses_reply(calls, input_tokens),
            Self::Anthropic => anthropic_reply(calls, input_tokens),
            Self::Gemini => gemini_reply(calls, input_tokens),
            Self::Interactions => interactions_reply(calls, input_tokens),
        }
    }
}

fn chat_reply(calls: &[Call], input_tokens: u64) -> Value {
    let call = |(id, name, arguments): &Call| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"id": id, "type": "function", "function": function})
    };
    let message = match calls {
        [] => json!({"role": "assistant", "content": "Done."}),
        _ => {
            json!({"role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
        }
    };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-5.6",
        "choices": [{"index": 0, "message": message, "finish_reason": if calls.is_empty() { "stop" } else { "tool_calls" }}],
        "usage": {"prompt_tokens": input_tokens, "completion_tokens": 10, "total_tokens": input_tokens + 10},
    })
}

fn responses_reply(calls: &[Call], input_tokens: u64) -> Value {
    let call = |(id, name, arguments): &Call| {
        json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
            "arguments": arguments.to_string(), "status": "completed",
        })
    };
    let text = json!({
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    });
    let output = if calls.is_empty() { vec![text] } else { calls.iter().map(call).collect() };
    json!({
        "id": "resp_1", "object": "response", "created_at": 0, "model": "gpt-5.6", "status": "completed",
        "output": output,
        "usage": {"input_tokens": input_tokens, "output_tokens": 10, "total_tokens": input_tokens + 10},
    })
}

fn anthropic_reply(calls: &[Call], input_tokens: u64) -> Value {
    let call = |(id, name, arguments): &Call| json!({"type": "tool_use", "id": id, "name": name, "input": arguments});
    let text = json!({"type": "text", "text": "Done."});
    let content = if calls.is_empty() { vec![text] } else { calls.iter().map(call).collect() };
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": content,
        "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" }, "stop_sequence": null,
        "usage": {"input_tokens": input_tokens, "output_tokens": 10},
    })
}

fn gemini_reply(calls: &[Call], input_tokens: u64) -> Value {
    let call = |(index, (id, name, arguments)): (usize, &Call)| {
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": arguments}});
        if index == 0 {
            part["thoughtSignature"] = json!("c2lnbmF0dXJl");
        }
        part
    };
    let parts = match calls {
        [] => vec![json!({"text": "Done."})],
        _ => calls.iter().enumerate().map(call).collect(),
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": input_tokens, "candidatesTokenCount": 10, "totalTokenCount": input_tokens + 10,
        },
        "modelVersion": "gemini-3.8-flash", "responseId": "r_1",
    })
}

fn interactions_reply(calls: &[Call], input_tokens: u64) -> Value {
    let call = |(id, name, arguments): &Call| json!({"type": "function_call", "id": id, "name": name, "arguments": arguments});
    let text = json!({"type": "model_output", "content": [{"type": "text", "text": "Done."}]});
    let mut steps = vec![json!({"type": "thought", "signature": "c2lnbmF0dXJl"})];
    match calls {
        [] => steps.push(text),
        _ => steps.extend(calls.iter().map(call)),
    }
    json!({
        "id": "r_1", "status": if calls.is_empty() { "completed" } else { "requires_action" },
        "model": "gemini-3.8-flash", "steps": steps,
        "usage": {"total_input_tokens": input_tokens, "total_output_tokens": 10},
    })
}
