//! The baseline without haft: an agent loop that uses the native tool calls of a server. The loop
//! does not validate or repair arguments, and does not retry requests.

use std::error::Error;

use haft_core::toolset::ToolList;
use serde_json::{Value, json};

use crate::{MAX_TOKENS, score::RunRecord, tools};

/// The maximum number of model requests for one question.
const MAX_REQUESTS: usize = 8;

pub(crate) struct PlainLoop {
    client: reqwest::Client,
    url: String,
    tools: Value,
}

impl PlainLoop {
    pub(crate) fn new(base_url: &str, tools: &ToolList) -> Self {
        let url = format!("{base_url}/v1/chat/completions");
        // `install_default` fails only if a TLS provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { client: reqwest::Client::new(), url, tools: json!(&*haft_openai::encode_tools(tools)) }
    }

    /// Runs the loop with `question`. Returns the calls and the answer of the model.
    pub(crate) async fn run(&self, question: &str) -> RunRecord {
        let mut record = RunRecord::default();
        let mut messages = vec![json!({"role": "user", "content": question})];
        for _ in 0..MAX_REQUESTS {
            let message = match self.ask(&messages, &mut record).await {
                Ok(message) => message,
                Err(error) => return RunRecord { answer: Err(error.to_string()), ..record },
            };
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            messages.push(message.clone());
            if calls.is_empty() {
                return RunRecord {
                    answer: Ok(message["content"].as_str().unwrap_or_default().to_owned()),
                    ..record
                };
            }
            for call in calls {
                let name = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                let text = call["function"]["arguments"].as_str().unwrap_or_default();
                let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                let result = tools::call(&name, &arguments).unwrap_or_else(|error| error);
                messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
                record.calls.push((name, arguments));
            }
        }
        RunRecord { answer: Err(format!("no answer after {MAX_REQUESTS} requests")), ..record }
    }

    async fn ask(&self, messages: &[Value], record: &mut RunRecord) -> Result<Value, Box<dyn Error>> {
        let body =
            json!({"messages": messages, "tools": self.tools, "temperature": 0, "max_tokens": MAX_TOKENS});
        let request =
            self.client.post(&self.url).header("content-type", "application/json").body(body.to_string());
        let reply: Value = serde_json::from_str(&request.send().await?.text().await?)?;
        let count = |name: &str| reply["usage"][name].as_u64().unwrap_or(0);
        record.usage +=
            haft_core::usage::Usage::one_request(count("prompt_tokens"), count("completion_tokens"));
        match reply["choices"].get(0) {
            Some(choice) => Ok(choice["message"].clone()),
            None => Err(reply.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests;
