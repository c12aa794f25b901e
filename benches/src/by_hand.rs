//! Agent loops without haft, as baselines. The first uses reqwest and serde_json, and the second
//! uses async-openai.

use std::{error::Error, sync::Arc};

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
        ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage, ChatCompletionTool,
        ChatCompletionTools, CreateChatCompletionRequest, FunctionObject,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// An error of any type.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The arguments of the tools `add` and `multiply`.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Integers {
    pub(crate) x: i64,
    pub(crate) y: i64,
}

/// Installs a TLS provider for `reqwest::Client::new()`, which panics if there is none.
pub(crate) fn install_tls() {
    // `install_default` fails only if a TLS provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Adds two integers. All tools of the loops call this function.
pub(crate) async fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Sends `request` as JSON and parses the reply.
pub(crate) async fn post<T: DeserializeOwned>(
    client: &reqwest::Client,
    url: &str,
    request: &impl Serialize,
) -> Result<T, Failure> {
    let body = serde_json::to_vec(request)?;
    let request = client.post(url).header("content-type", "application/json").body(body);
    let reply = request.send().await?.error_for_status()?.bytes().await?;
    Ok(serde_json::from_slice(&reply)?)
}

/// An agent loop that uses reqwest and serde_json. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct ReqwestLoop {
    client: reqwest::Client,
    url: String,
    tools: Arc<[Value]>,
}

impl ReqwestLoop {
    /// Creates a loop with a tool for each name in `tools`. All of these tools add two integers.
    pub(crate) fn new(base_url: &str, tools: impl IntoIterator<Item = String>) -> Self {
        let tool = |name: String| {
            json!({"type": "function", "function": {
                "name": name, "description": "Adds two integers.", "parameters": parameters(),
            }})
        };
        install_tls();
        let url = format!("{base_url}/chat/completions");
        Self { client: reqwest::Client::new(), url, tools: tools.into_iter().map(tool).collect() }
    }

    /// Sends the conversation to the model and calls tools until the model answers. Returns the
    /// answer.
    ///
    /// # Errors
    ///
    /// Returns the first HTTP or JSON error, or an error if a reply contains no choice.
    pub(crate) async fn run(&self, mut messages: Vec<ChatMessage>) -> Result<String, Failure> {
        loop {
            let request = Request { model: "mock", messages: &messages, tools: &self.tools };
            let reply: Response = post(&self.client, &self.url, &request).await?;
            let message = reply.choices.into_iter().next().ok_or("no choice")?.message;
            let calls = message.tool_calls.clone();
            if calls.is_empty() {
                return Ok(message.content.unwrap_or_default());
            }
            messages.push(message);
            for call in calls {
                let Integers { x, y } = serde_json::from_str(&call.function.arguments)?;
                let result = ChatMessage::new("tool", add(x, y).await.to_string());
                messages.push(ChatMessage { tool_call_id: Some(call.id), ..result });
            }
        }
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [ChatMessage],
    tools: &'a [Value],
}

#[derive(Deserialize)]
struct Response {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: ChatMessage,
}

/// A message in the format of OpenAI's Chat Completions API.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct ChatMessage {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Clone, Deserialize, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl ChatMessage {
    /// Creates a text message with the given role.
    pub(crate) fn new(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: Some(text.into()), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// An agent loop that uses the client and the types of async-openai.
#[derive(Clone)]
pub(crate) struct AsyncOpenAiLoop {
    client: Client<OpenAIConfig>,
    tools: Vec<ChatCompletionTools>,
}

impl AsyncOpenAiLoop {
    /// Creates a loop with a tool for each name in `tools`. All of these tools add two integers.
    pub(crate) fn new(base_url: &str, tools: impl IntoIterator<Item = String>) -> Self {
        install_tls();
        let config = OpenAIConfig::new().with_api_base(base_url).with_api_key("none");
        let tool = |name: String| {
            let (description, parameters) = (Some("Adds two integers.".to_owned()), Some(parameters()));
            let function = FunctionObject { name, description, parameters, strict: None };
            ChatCompletionTools::Function(ChatCompletionTool { function })
        };
        Self { client: Client::with_config(config), tools: tools.into_iter().map(tool).collect() }
    }

    /// Creates a user message if `role` is `user`, or an assistant message if it is not.
    pub(crate) fn message(role: &str, text: String) -> ChatCompletionRequestMessage {
        match role {
            "user" => ChatCompletionRequestUserMessage::from(text).into(),
            _ => ChatCompletionRequestAssistantMessage::from(text).into(),
        }
    }

    /// Sends the conversation to the model and calls tools until the model answers. Returns the
    /// answer.
    ///
    /// # Errors
    ///
    /// Returns the first HTTP or JSON error, or an error if a reply contains no choice.
    pub(crate) async fn run(
        &self,
        mut messages: Vec<ChatCompletionRequestMessage>,
    ) -> Result<String, Failure> {
        loop {
            let request = CreateChatCompletionRequest {
                model: "mock".to_owned(),
                messages: messages.clone(),
                tools: Some(self.tools.clone()),
                ..CreateChatCompletionRequest::default()
            };
            let reply = self.client.chat().create(request).await?;
            let message = reply.choices.into_iter().next().ok_or("no choice")?.message;
            let Some(calls) = message.tool_calls else {
                return Ok(message.content.unwrap_or_default());
            };
            messages.push(
                ChatCompletionRequestAssistantMessage {
                    tool_calls: Some(calls.clone()),
                    ..ChatCompletionRequestAssistantMessage::default()
                }
                .into(),
            );
            for call in calls {
                let ChatCompletionMessageToolCalls::Function(call) = call else { continue };
                let Integers { x, y } = serde_json::from_str(&call.function.arguments)?;
                let content = add(x, y).await.to_string().into();
                messages.push(ChatCompletionRequestToolMessage { content, tool_call_id: call.id }.into());
            }
        }
    }
}

pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
        "additionalProperties": false,
    })
}
