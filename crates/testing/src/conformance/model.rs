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

use super::{PATIENCE, Promise, Report, reply, within};
use haft_core::{
    ChatModel, Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput,
    model::{ChatRequest, ChatResponse, ChatSettings, ModelError, ResponseFormat},
    tool::DynamicTool,
    toolset::ToolList,
};

const PROFILE: Promise = Promise {
    what: "the profile stays and has a name",
    remedy: "make the profile once, with the name by which the provider knows the model",
};
const ANSWERS: Promise = Promise {
    what: "a request comes to an end",
    remedy: "put a deadline on each wait, and end with `ModelError::TimedOut`; give the check more time by `within`",
};
const REPLIES: Promise = Promise {
    what: "a request gets a reply",
    remedy: "start what the model needs, and give it its key; where it may be down, say so by `may_fail`",
};
const BOTH: Promise = Promise {
    what: "whole or streamed, the reply is the same",
    remedy: "send the same request either way, and read both replies by the same rules",
};
const SCHEMA: Promise = Promise {
    what: "a model that takes a schema answers by it",
    remedy: "send the schema on, or say `json_schema: false` in the profile",
};
const DROPPED: Promise = Promise {
    what: "a request that is dropped costs the next one nothing",
    remedy: "end the request when its future or stream is dropped, and leave nothing locked",
};

/// The most tokens of a reply: a model without sense must end too.
const TOKENS: u32 = 200;

/// Checks a model: see [`model`].
#[must_use = "a check does nothing until it is awaited"]
pub struct ModelCheck {
    model: Arc<dyn ChatModel>,
    patience: Duration,
    is_deterministic: bool,
    may_fail: bool,
    heard: Mutex<Heard>,
}

/// What came of the requests so far.
#[derive(Default)]
struct Heard {
    replies: usize,
    failure: Option<String>,
}

/// Checks what [`ChatModel`] promises: replies that say something, are counted, and have whole calls with ids; streams that end once, with the whole of
/// what came in pieces; the same reply whole or streamed; requests side by side, and after one that was dropped.
///
/// The model is asked a dozen times: for a greeting, for a call where its profile has tools, for JSON where it has schemas. One that fails each
/// time is told as such, unless it [may](ModelCheck::may_fail).
pub fn model(model: impl ChatModel + 'static) -> ModelCheck {
    let heard = Mutex::default();
    ModelCheck { model: Arc::new(model), patience: PATIENCE, is_deterministic: false, may_fail: false, heard }
}

impl ModelCheck {
    /// Sets how long each request may take. Default: five seconds.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Says that the model may fail each time, such as one that is not there: it is judged by how it does.
    pub fn may_fail(mut self) -> Self {
        self.may_fail = true;
        self
    }

    /// Says that the same request gets the same reply, so that a whole one and a streamed one are compared: by what they say and ask for,
    /// not by the ids of calls or what only the provider understands.
    pub fn deterministic(mut self) -> Self {
        self.is_deterministic = true;
        self
    }

    async fn run(self) -> Report {
        let profile = self.model.profile().clone();
        let mut report = Report::new(format!("model {:?}", profile.name));
        report.hold(PROFILE, !profile.name.is_empty(), || "the name is empty".to_owned());
        self.ask_both(&greeting(), &mut report).await;
        if profile.native_tools {
            self.ask_both(&with_tool(), &mut report).await;
        }
        if profile.json_schema {
            self.ask_for_json(&mut report).await;
        }
        self.drop_requests(&mut report).await;
        let request = greeting();
        let many = join_all((0..4).map(|_| within(self.patience, self.model.chat(&request)))).await;
        let ended = many.iter().flatten().count();
        report.hold(ANSWERS, ended == many.len(), || format!("side by side, {ended} of {} do", many.len()));
        for response in many.into_iter().flatten() {
            self.hear(response.as_ref().err());
            response.iter().for_each(|response| reply::check(response, &mut report));
        }
        self.hold_replies(&mut report);
        report.hold(PROFILE, *self.model.profile() == profile, || "it is another one later".to_owned());
        report
    }

    fn hear(&self, failure: Option<&ModelError>) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => heard.replies += 1,
            Some(error) => drop(heard.failure.get_or_insert_with(|| error.to_string())),
        }
    }

    /// What fails each time was not looked at.
    fn hold_replies(&self, report: &mut Report) {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = heard.failure.as_ref().filter(|_| heard.replies == 0 && !self.may_fail) {
            report.add(REPLIES, format!("every one fails: {failure}"));
        }
    }

    /// Asks the same, whole and streamed.
    async fn ask_both(&self, request: &ChatRequest, report: &mut Report) {
        let whole = self.chat(request, report).await;
        let events = self.model.stream(request).collect::<Vec<_>>();
        let Some(events) = within(self.patience, events).await else {
            return report.add(ANSWERS, format!("a stream does not end in {:?}", self.patience));
        };
        let streamed = reply::check_stream(&events, report);
        if let Some(last) = events.last() {
            self.hear(last.as_ref().err());
        }
        match (&whole, streamed, events.last()) {
            (Some(Ok(whole)), Some(streamed), _) if self.is_deterministic => {
                report.hold(BOTH, reply::says_same(&whole.message, &streamed.message), || {
                    format!("whole it is {}, streamed {}", json!(whole.message), json!(streamed.message))
                });
            }
            (Some(Ok(_)), None, Some(Err(error))) => report.add(BOTH, format!("streamed it fails: {error}")),
            (Some(Err(error)), Some(_), _) => report.add(BOTH, format!("whole it fails: {error}")),
            (Some(Err(one)), None, Some(Err(other))) => {
                report.hold(BOTH, discriminant(one) == discriminant(other), || {
                    format!("whole it fails with {one}, streamed with {other}")
                });
            }
            _ => {}
        }
    }

    async fn chat(
        &self,
        request: &ChatRequest,
        report: &mut Report,
    ) -> Option<Result<ChatResponse, ModelError>> {
        let whole = within(self.patience, self.model.chat(request)).await;
        if let Some(reply) = &whole {
            self.hear(reply.as_ref().err());
        }
        match &whole {
            None => report.add(ANSWERS, format!("it does not in {:?}", self.patience)),
            Some(Ok(response)) => reply::check(response, report),
            Some(Err(_)) => {}
        }
        whole
    }

    async fn ask_for_json(&self, report: &mut Report) {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
        let Ok(schema) = Schema::new(schema) else { return };
        let question = Message::user("What is the capital of France? Answer as JSON with the key \"city\".");
        let response_format =
            ResponseFormat::JsonSchema { name: ToolName::from_foreign("capital"), schema: schema.clone() };
        let request =
            ChatRequest { response_format, messages: [question].into_iter().collect(), ..greeting() };
        if let Some(Ok(response)) = self.chat(&request, report).await {
            let text = response.message.text();
            let fits = serde_json::from_str(&text).is_ok_and(|value| schema.is_valid(&value));
            report.hold(SCHEMA, fits, || format!("asked for {{\"city\": …}}, it answers {text:?}"));
        }
    }

    /// Gives up requests that have begun, and asks again.
    async fn drop_requests(&self, report: &mut Report) {
        let request = greeting();
        let before = self.chat(&request, report).await;
        drop(self.model.chat(&request).now_or_never());
        let mut stream = self.model.stream(&request);
        drop(within(self.patience, stream.next()).await);
        drop(stream);
        let after = self.chat(&request, report).await;
        if let (Some(Ok(_)), Some(Err(error))) = (before, after) {
            report.add(DROPPED, format!("then it fails: {error}"));
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

fn greeting() -> ChatRequest {
    let settings = ChatSettings {
        temperature: Some(0.0),
        seed: Some(1),
        max_tokens: Some(TOKENS),
        ..ChatSettings::default()
    };
    ChatRequest { settings, ..ChatRequest::new([Message::user("Say hello in one word.")]) }
}

fn with_tool() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let schema = Schema::new(schema).unwrap_or_else(|_| Schema::object());
    let definition = ToolDefinition::new(ToolName::from_foreign("get_weather"), schema)
        .with_description("Tells the weather in a city.");
    let tool = DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("sunny".into()) });
    let mut request = greeting().with_tools(ToolList::new("check", [tool]));
    request.messages = [Message::user("What is the weather in Paris? Call the tool.")].into_iter().collect();
    request
}

impl std::fmt::Debug for ModelCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelCheck").finish_non_exhaustive()
    }
}
