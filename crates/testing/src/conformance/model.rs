use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use serde_json::json;

use super::{DEFAULT_TIMEOUT, Report, Rule, reply, with_timeout};
use haft_core::{
    ChatModel, Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput,
    model::{ChatRequest, ChatResponse, ChatSettings, ModelError, ResponseFormat},
    tool::DynamicTool,
    toolset::ToolList,
};

const PROFILE_CONSTANT: Rule = Rule {
    text: "the profile is constant and has a name",
    remedy: "create the profile once, with the provider's name of the model",
};
const REQUEST_SUCCEEDS: Rule = Rule {
    text: "a request gets a reply in time",
    remedy: "start the server of the model and set its key; put a deadline on each wait and return `ModelError::TimedOut`",
};
const CHAT_MATCHES_STREAM: Rule = Rule {
    text: "`chat` and `stream` give the same reply",
    remedy: "send the same request in both, and parse both replies with the same rules",
};
const REPLY_MATCHES_SCHEMA: Rule = Rule {
    text: "a reply matches the requested schema",
    remedy: "send the schema to the server, or set `supports_json_schema: false` in the profile",
};
const REQUESTS_INDEPENDENT: Rule = Rule {
    text: "concurrent and dropped requests do not affect others",
    remedy: "end the request when its future or stream is dropped, and leave nothing locked",
};

/// The `max_tokens` setting of each request. It bounds replies that would otherwise never end.
const MAX_TOKENS: u32 = 200;

/// A conformance check of a model, created by [`model`]. It runs when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct ModelCheck {
    model: Arc<dyn ChatModel>,
    timeout: Duration,
    is_deterministic: bool,
}

/// Creates a check of `model` against these rules of the [`ChatModel`] contract:
///
/// - the profile has a name and does not change
/// - requests get a reply within the timeout, also concurrently and after dropped requests
/// - replies are not empty, count as at least one request in the usage, and contain complete calls
///   with unique ids
/// - streams end exactly once, and their deltas add up to the reply
/// - `chat` and `stream` give the same reply (see
///   [`assume_deterministic`](ModelCheck::assume_deterministic))
/// - replies match the requested schema, if the profile supports JSON schemas
///
/// The check sends up to nine requests: greetings, two requests with a tool if the profile has
/// native tools, and a request for JSON if the profile has JSON schemas.
pub fn model(model: impl ChatModel + 'static) -> ModelCheck {
    ModelCheck { model: Arc::new(model), timeout: DEFAULT_TIMEOUT, is_deterministic: false }
}

impl ModelCheck {
    /// Sets the timeout of each request. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Declares that the model gives equal replies to equal requests. The check then compares the
    /// replies of `chat` and `stream`, but ignores call ids and provider data.
    pub fn assume_deterministic(mut self) -> Self {
        self.is_deterministic = true;
        self
    }

    async fn run(self) -> Report {
        let profile = self.model.profile().clone();
        let mut report = Report::new(format!("model {:?}", profile.name));
        report.require(PROFILE_CONSTANT, !profile.name.is_empty(), || "the name is empty".to_owned());
        if let Some(error) = self.compare_chat_and_stream(&greeting_request(), &mut report).await {
            report.add_finding(REQUEST_SUCCEEDS, error.to_string());
            return report;
        }
        if profile.supports_native_tools {
            self.compare_chat_and_stream(&tool_request(), &mut report).await;
        }
        if profile.supports_json_schema {
            self.check_json_reply(&mut report).await;
        }
        self.check_independent_requests(&mut report).await;
        report.require(PROFILE_CONSTANT, *self.model.profile() == profile, || {
            "it changed between requests".to_owned()
        });
        report
    }

    /// Sends `request` with `chat` and with `stream`, checks both replies, and compares them. Returns
    /// the error if both fail.
    async fn compare_chat_and_stream(
        &self,
        request: &ChatRequest,
        report: &mut Report,
    ) -> Option<ModelError> {
        let whole = self.check_chat(request, report).await?;
        let events = self.model.stream(request).collect::<Vec<_>>();
        let Some(events) = with_timeout(self.timeout, events).await else {
            report.add_finding(REQUEST_SUCCEEDS, format!("no end of a stream in {:?}", self.timeout));
            return None;
        };
        let streamed = reply::check_stream(&events, report);
        match (whole, streamed) {
            (Ok(whole), Some(streamed)) => {
                let (whole, streamed) = (&whole.message, &streamed.message);
                let is_same = !self.is_deterministic || reply::is_same_reply(whole, streamed);
                report.require(CHAT_MATCHES_STREAM, is_same, || {
                    format!("`chat` gives {}, `stream` gives {}", json!(whole), json!(streamed))
                });
                None
            }
            (Ok(_), None) => {
                if let Some(Err(error)) = events.last() {
                    report.add_finding(CHAT_MATCHES_STREAM, format!("`stream` fails: {error}"));
                }
                None
            }
            (Err(error), Some(_)) => {
                report.add_finding(CHAT_MATCHES_STREAM, format!("`chat` fails: {error}"));
                None
            }
            (Err(error), None) => Some(error),
        }
    }

    /// Sends `request` with `chat` and checks the reply. Returns `None` if the request does not end.
    async fn check_chat(
        &self,
        request: &ChatRequest,
        report: &mut Report,
    ) -> Option<Result<ChatResponse, ModelError>> {
        let reply = with_timeout(self.timeout, self.model.chat(request)).await;
        match &reply {
            None => report.add_finding(REQUEST_SUCCEEDS, format!("no reply in {:?}", self.timeout)),
            Some(Ok(response)) => reply::check_reply(response, report),
            Some(Err(_)) => {}
        }
        reply
    }

    async fn check_json_reply(&self, report: &mut Report) {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
        let Ok(schema) = Schema::new(schema) else { return };
        let question = Message::user("What is the capital of France? Answer as JSON with the key \"city\".");
        let response_format =
            ResponseFormat::JsonSchema { name: ToolName::sanitize("capital"), schema: schema.clone() };
        let request =
            ChatRequest { response_format, messages: [question].into_iter().collect(), ..greeting_request() };
        if let Some(Ok(response)) = self.check_chat(&request, report).await {
            let text = response.message.text();
            let is_valid = serde_json::from_str(&text).is_ok_and(|value| schema.is_valid(&value));
            report.require(REPLY_MATCHES_SCHEMA, is_valid, || {
                format!("for {{\"city\": …}} the reply is {text:?}")
            });
        }
    }

    /// Drops a request and a stream before they are complete, and then sends two requests at the
    /// same time.
    async fn check_independent_requests(&self, report: &mut Report) {
        let request = greeting_request();
        drop(self.model.chat(&request).now_or_never());
        let mut stream = self.model.stream(&request);
        drop(with_timeout(self.timeout, stream.next()).await);
        drop(stream);
        let chat = || with_timeout(self.timeout, self.model.chat(&request));
        let (one, other) = futures::join!(chat(), chat());
        for reply in [one, other] {
            match reply {
                Some(Ok(_)) => {}
                Some(Err(error)) => report.add_finding(REQUESTS_INDEPENDENT, error.to_string()),
                None => report.add_finding(REQUESTS_INDEPENDENT, format!("no reply in {:?}", self.timeout)),
            }
        }
    }
}

impl IntoFuture for ModelCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

fn greeting_request() -> ChatRequest {
    let settings = ChatSettings {
        temperature: Some(0.0),
        seed: Some(1),
        max_tokens: Some(MAX_TOKENS),
        ..ChatSettings::default()
    };
    ChatRequest { settings, ..ChatRequest::new([Message::user("Say hello in one word.")]) }
}

fn tool_request() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let schema = Schema::new(schema).unwrap_or_else(|_| Schema::object());
    let definition = ToolDefinition::new(ToolName::sanitize("get_weather"), schema)
        .with_description("Returns the weather in a city.");
    let tool = DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("sunny".into()) });
    let mut request = greeting_request().with_tools(ToolList::new("check", [tool]));
    request.messages = [Message::user("What is the weather in Paris? Call the tool.")].into_iter().collect();
    request
}

impl std::fmt::Debug for ModelCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelCheck").finish_non_exhaustive()
    }
}
