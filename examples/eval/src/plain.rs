//! What a program does without haft: a loop around a server's native tool calls. What the model writes is run as it is,
//! without validation, repair or another try.

use std::error::Error;

use haft_core::toolset::ToolList;
use serde_json::{Value, json};

use crate::{score::Went, tools};

/// How often the model is asked at most.
const REQUESTS: usize = 8;

pub(crate) struct PlainLoop {
    client: reqwest::Client,
    url: String,
    tools: Value,
}

impl PlainLoop {
    pub(crate) fn new(base_url: &str, tools: &ToolList) -> Self {
        let url = format!("{base_url}/v1/chat/completions");
        // The only error is a provider that is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { client: reqwest::Client::new(), url, tools: json!(&*haft_openai::tools(tools)) }
    }

    /// Asks one question.
    pub(crate) async fn run(&self, question: &str) -> Went {
        let mut went = Went::default();
        let mut messages = vec![json!({"role": "user", "content": question})];
        for _ in 0..REQUESTS {
            let message = match self.ask(&messages, &mut went).await {
                Ok(message) => message,
                Err(error) => return Went { answer: Err(error.to_string()), ..went },
            };
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            messages.push(message.clone());
            if calls.is_empty() {
                return Went {
                    answer: Ok(message["content"].as_str().unwrap_or_default().to_owned()),
                    ..went
                };
            }
            for call in calls {
                let name = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                let text = call["function"]["arguments"].as_str().unwrap_or_default();
                let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                let result = tools::call(&name, &arguments).unwrap_or_else(|error| error);
                messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
                went.calls.push((name, arguments));
            }
        }
        Went { answer: Err(format!("no answer after {REQUESTS} requests")), ..went }
    }

    async fn ask(&self, messages: &[Value], went: &mut Went) -> Result<Value, Box<dyn Error>> {
        let body = json!({"messages": messages, "tools": self.tools, "temperature": 0, "max_tokens": 512});
        let request =
            self.client.post(&self.url).header("content-type", "application/json").body(body.to_string());
        let reply: Value = serde_json::from_str(&request.send().await?.text().await?)?;
        let count = |name: &str| reply["usage"][name].as_u64().unwrap_or(0);
        went.usage += haft_core::usage::Usage::of_request(count("prompt_tokens"), count("completion_tokens"));
        match reply["choices"].get(0) {
            Some(choice) => Ok(choice["message"].clone()),
            None => Err(reply.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests;
