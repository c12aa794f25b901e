//! An agent loop for Gemini's `generateContent`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::by_hand::{Failure, Integers, add, install_tls, parameters, post};

/// An agent loop that uses reqwest and serde_json. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct GeminiLoop {
    client: reqwest::Client,
    url: String,
    tools: Arc<[Value]>,
}

#[derive(Serialize)]
struct Request<'a> {
    contents: &'a [GeminiContent],
    tools: [Tools<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: &'a [Value],
}

#[derive(Deserialize)]
struct Response {
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    content: GeminiContent,
}

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct GeminiContent {
    role: String,
    parts: Vec<Part>,
}

#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
struct FunctionCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    args: Integers,
}

impl GeminiContent {
    pub(crate) fn new(role: &'static str, text: String) -> Self {
        let part = Part { text: Some(text), ..Part::default() };
        Self { role: if role == "user" { "user" } else { "model" }.to_owned(), parts: vec![part] }
    }
}

impl GeminiLoop {
    pub(crate) fn new(origin: &str, tools: impl IntoIterator<Item = String>) -> Self {
        let tool = |name: String| json!({"name": name, "description": "Adds two integers.", "parametersJsonSchema": parameters()});
        install_tls();
        let url = format!("{origin}/v1beta/models/mock:generateContent");
        Self { client: reqwest::Client::new(), url, tools: tools.into_iter().map(tool).collect() }
    }

    /// Sends the conversation to the model and calls tools until the model answers. Returns the
    /// answer.
    pub(crate) async fn run(&self, mut contents: Vec<GeminiContent>) -> Result<String, Failure> {
        loop {
            let tools = [Tools { function_declarations: &self.tools }];
            let request = Request { contents: &contents, tools };
            let reply: Response = post(&self.client, &self.url, &request).await?;
            let content = reply.candidates.into_iter().next().ok_or("no candidate")?.content;
            let mut parts = Vec::new();
            for call in content.parts.iter().filter_map(|part| part.function_call.as_ref()) {
                let sum = add(call.args.x, call.args.y).await.to_string();
                let response = json!({"id": call.id, "name": call.name, "response": {"output": sum}});
                parts.push(Part { function_response: Some(response), ..Part::default() });
            }
            if parts.is_empty() {
                let text = content.parts.into_iter().find_map(|part| part.text);
                return text.ok_or_else(|| "no text".into());
            }
            contents.push(content);
            contents.push(GeminiContent { role: "user".to_owned(), parts });
        }
    }
}
