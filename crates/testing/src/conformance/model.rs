use std::{
    future::IntoFuture,
    mem::discriminant,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
};
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
const REQUEST_ENDS: Rule = Rule {
    text: "every request ends",
    remedy: "put a deadline on each wait and return `ModelError::TimedOut`; allow the check more time with `timeout`",
};
const REQUEST_SUCCEEDS: Rule = Rule {
    text: "a request gets a reply",
    remedy: "start the server of the model and set its key; if it may be down, allow failures with `allow_failures`",
};
const CHAT_MATCHES_STREAM: Rule = Rule {
    text: "`chat` and `stream` give the same reply",
    remedy: "send the same request in both, and parse both replies with the same rules",
};
const REPLY_MATCHES_SCHEMA: Rule = Rule {
    text: "a reply matches the requested schema",
    remedy: "send the schema to the server, or set `supports_json_schema: false` in the profile",
};
const DROP_HARMLESS: Rule = Rule {
    text: "a dropped request does not affect the next one",
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
    allows_failures: bool,
    outcomes: Mutex<Outcomes>,
}

/// The number of requests that succeeded during the check, and the message of the first error.
#[derive(Default)]
struct Outcomes {
    replies: usize,
    failure: Option<String>,
}

/// Creates a check of `model` against these rules of the [`ChatModel`] contract:
///
/// - the profile has a name and does not change
/// - replies are not empty, count as at least one request in the usage, and contain complete calls
///   with unique ids
/// - streams end exactly once, and their deltas add up to the reply
/// - `chat` and `stream` give the same reply (see
///   [`assume_deterministic`](ModelCheck::assume_deterministic))
/// - replies match the requested schema, if the profile supports JSON schemas
/// - concurrent requests end, and a dropped request does not affect later requests
///
/// The check sends up to 13 requests: greetings, two requests with a tool if the profile has native
/// tools, and a request for JSON if the profile has JSON schemas. If all requests fail, the check
/// reports a finding, unless failures are [allowed](ModelCheck::allow_failures).
pub fn model(model: impl ChatModel + 'static) -> ModelCheck {
    let outcomes = Mutex::default();
    ModelCheck {
        model: Arc::new(model),
        timeout: DEFAULT_TIMEOUT,
        is_deterministic: false,
        allows_failures: false,
        outcomes,
    }
}

impl ModelCheck {
    /// Sets the timeout of each request. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Accepts a model whose requests all fail, for example because its server is not running. The
    /// check still compares the errors of `chat` and `stream`.
    pub fn allow_failures(mut self) -> Self {
        self.allows_failures = true;
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
        self.compare_chat_and_stream(&greeting_request(), &mut report).await;
        if profile.supports_native_tools {
            self.compare_chat_and_stream(&tool_request(), &mut report).await;
        }
        if profile.supports_json_schema {
            self.check_json_reply(&mut report).await;
        }
        self.check_dropped_requests(&mut report).await;
        let request = greeting_request();
        let many = join_all((0..4).map(|_| with_timeout(self.timeout, self.model.chat(&request)))).await;
        let finished = many.iter().flatten().count();
        report.require(REQUEST_ENDS, finished == many.len(), || {
            format!("{finished} of {} concurrent requests do", many.len())
        });
        for response in many.into_iter().flatten() {
            self.record_outcome(response.as_ref().err());
            response.iter().for_each(|response| reply::check_reply(response, &mut report));
        }
        self.require_reply(&mut report);
        report.require(PROFILE_CONSTANT, *self.model.profile() == profile, || {
            "it changed between requests".to_owned()
        });
        report
    }

    fn record_outcome(&self, failure: Option<&ModelError>) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => outcomes.replies += 1,
            Some(error) => drop(outcomes.failure.get_or_insert_with(|| error.to_string())),
        }
    }

    /// Adds a finding if all requests failed, because a model without replies cannot be checked.
    /// Does nothing if failures are allowed.
    fn require_reply(&self, report: &mut Report) {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) =
            outcomes.failure.as_ref().filter(|_| outcomes.replies == 0 && !self.allows_failures)
        {
            report.add_finding(REQUEST_SUCCEEDS, format!("every request fails: {failure}"));
        }
    }

    /// Sends `request` with `chat` and with `stream`, checks both replies, and compares them.
    async fn compare_chat_and_stream(&self, request: &ChatRequest, report: &mut Report) {
        let whole = self.check_chat(request, report).await;
        let events = self.model.stream(request).collect::<Vec<_>>();
        let Some(events) = with_timeout(self.timeout, events).await else {
            return report.add_finding(REQUEST_ENDS, format!("a stream does not end in {:?}", self.timeout));
        };
        let streamed = reply::check_stream(&events, report);
        if let Some(last) = events.last() {
            self.record_outcome(last.as_ref().err());
        }
        match (&whole, streamed, events.last()) {
            (Some(Ok(whole)), Some(streamed), _) if self.is_deterministic => {
                report.require(
                    CHAT_MATCHES_STREAM,
                    reply::is_same_reply(&whole.message, &streamed.message),
                    || {
                        format!(
                            "`chat` gives {}, `stream` gives {}",
                            json!(whole.message),
                            json!(streamed.message)
                        )
                    },
                );
            }
            (Some(Ok(_)), None, Some(Err(error))) => {
                report.add_finding(CHAT_MATCHES_STREAM, format!("`stream` fails: {error}"));
            }
            (Some(Err(error)), Some(_), _) => {
                report.add_finding(CHAT_MATCHES_STREAM, format!("`chat` fails: {error}"));
            }
            (Some(Err(one)), None, Some(Err(other))) => {
                report.require(CHAT_MATCHES_STREAM, discriminant(one) == discriminant(other), || {
                    format!("`chat` fails with {one}, `stream` with {other}")
                });
            }
            _ => {}
        }
    }

    async fn check_chat(
        &self,
        request: &ChatRequest,
        report: &mut Report,
    ) -> Option<Result<ChatResponse, ModelError>> {
        let whole = with_timeout(self.timeout, self.model.chat(request)).await;
        if let Some(reply) = &whole {
            self.record_outcome(reply.as_ref().err());
        }
        match &whole {
            None => report.add_finding(REQUEST_ENDS, format!("no reply in {:?}", self.timeout)),
            Some(Ok(response)) => reply::check_reply(response, report),
            Some(Err(_)) => {}
        }
        whole
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

    /// Drops a request and a stream before they are complete. Reports a violation if a request
    /// succeeds before both are dropped and fails afterwards.
    async fn check_dropped_requests(&self, report: &mut Report) {
        let request = greeting_request();
        let before = self.check_chat(&request, report).await;
        drop(self.model.chat(&request).now_or_never());
        let mut stream = self.model.stream(&request);
        drop(with_timeout(self.timeout, stream.next()).await);
        drop(stream);
        let after = self.check_chat(&request, report).await;
        if let (Some(Ok(_)), Some(Err(error))) = (before, after) {
            report.add_finding(DROP_HARMLESS, format!("the next one fails: {error}"));
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
