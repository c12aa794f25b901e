//! An agent loop for Anthropic's Messages API.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::by_hand::{Failure, Integers, add, install_tls, parameters, post};

/// An agent loop that uses reqwest and serde_json. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct AnthropicLoop {
    client: reqwest::Client,
    url: String,
    tools: Arc<[Value]>,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    messages: &'a [AnthropicMessage],
    tools: &'a [Value],
}

#[derive(Deserialize)]
struct Response {
    content: Vec<Block>,
}

#[derive(Clone, Serialize)]
pub(crate) struct AnthropicMessage {
    role: &'static str,
    content: Vec<Block>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text { text: String },
    ToolUse { id: String, name: String, input: Integers },
    ToolResult { tool_use_id: String, content: String },
}

impl AnthropicMessage {
    pub(crate) fn new(role: &'static str, text: String) -> Self {
        Self { role, content: vec![Block::Text { text }] }
    }
}

impl AnthropicLoop {
    pub(crate) fn new(origin: &str, tools: impl IntoIterator<Item = String>) -> Self {
        let tool = |name: String| json!({"name": name, "description": "Adds two integers.", "input_schema": parameters()});
        install_tls();
        let url = format!("{origin}/v1/messages");
        Self { client: reqwest::Client::new(), url, tools: tools.into_iter().map(tool).collect() }
    }

    /// Sends the conversation to the model and calls tools until the model answers. Returns the
    /// answer.
    pub(crate) async fn run(&self, mut messages: Vec<AnthropicMessage>) -> Result<String, Failure> {
        loop {
            let request =
                Request { model: "mock", max_tokens: 4096, messages: &messages, tools: &self.tools };
            let reply: Response = post(&self.client, &self.url, &request).await?;
            let mut results = Vec::new();
            for block in &reply.content {
                if let Block::ToolUse { id, input, .. } = block {
                    let content = add(input.x, input.y).await.to_string();
                    results.push(Block::ToolResult { tool_use_id: id.clone(), content });
                }
            }
            if results.is_empty() {
                let text = reply.content.into_iter().find_map(|block| match block {
                    Block::Text { text } => Some(text),
                    _ => None,
                });
                return text.ok_or_else(|| "no text".into());
            }
            messages.push(AnthropicMessage { role: "assistant", content: reply.content });
            messages.push(AnthropicMessage { role: "user", content: results });
        }
    }
}
