//! An agent loop for OpenAI's Responses API.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::by_hand::{Failure, Integers, add, install_tls, parameters, post};

/// An agent loop that uses reqwest and serde_json. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct ResponsesLoop {
    client: reqwest::Client,
    url: String,
    tools: Arc<[Value]>,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [InputItem],
    tools: &'a [Value],
    store: bool,
}

#[derive(Deserialize)]
struct Response {
    output: Vec<OutputItem>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputItem {
    Message { content: Vec<OutputText> },
    FunctionCall { call_id: String, name: String, arguments: String },
}

#[derive(Deserialize)]
struct OutputText {
    text: String,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum InputItem {
    Message { role: &'static str, content: String },
    Call { r#type: &'static str, call_id: String, name: String, arguments: String },
    Output { r#type: &'static str, call_id: String, output: String },
}

impl InputItem {
    pub(crate) fn new(role: &'static str, text: String) -> Self {
        Self::Message { role, content: text }
    }
}

impl ResponsesLoop {
    pub(crate) fn new(base_url: &str, tools: impl IntoIterator<Item = String>) -> Self {
        let tool = |name: String| {
            json!({
                "type": "function", "name": name, "description": "Adds two integers.",
                "parameters": parameters(), "strict": false,
            })
        };
        install_tls();
        let url = format!("{base_url}/responses");
        Self { client: reqwest::Client::new(), url, tools: tools.into_iter().map(tool).collect() }
    }

    /// Sends the conversation to the model and calls tools until the model answers. Returns the
    /// answer.
    pub(crate) async fn run(&self, mut input: Vec<InputItem>) -> Result<String, Failure> {
        loop {
            let request = Request { model: "mock", input: &input, tools: &self.tools, store: false };
            let reply: Response = post(&self.client, &self.url, &request).await?;
            let mut answer = None;
            for item in reply.output {
                match item {
                    OutputItem::Message { content } => {
                        answer = content.into_iter().next().map(|part| part.text);
                    }
                    OutputItem::FunctionCall { call_id, name, arguments } => {
                        let Integers { x, y } = serde_json::from_str(&arguments)?;
                        let output = add(x, y).await.to_string();
                        let call = InputItem::Call {
                            r#type: "function_call",
                            call_id: call_id.clone(),
                            name,
                            arguments,
                        };
                        input.push(call);
                        input.push(InputItem::Output { r#type: "function_call_output", call_id, output });
                    }
                }
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}
