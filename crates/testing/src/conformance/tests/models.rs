use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;

use super::format_violations;
use crate::{CassetteModel, ScriptedModel, TestModel, conformance};
use haft_core::{
    ChatModel, ToolCall,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError, ModelProfile},
    usage::Usage,
};

#[tokio::test]
async fn own_models_have_no_findings() {
    conformance::model(TestModel::new()).assume_deterministic().await.assert_conforms();
    conformance::model(CassetteModel::record(TestModel::new()))
        .assume_deterministic()
        .await
        .assert_conforms();
    let answers = |request: &ChatRequest| {
        let call = ToolCall::new("call_1", "get_weather", r#"{"city": "Paris"}"#);
        let calls = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        let message = match (request.tools.is_empty(), &request.response_format) {
            (false, _) => calls,
            (true, haft_core::model::ResponseFormat::Text) => "Hello.".into(),
            _ => r#"{"city": "Paris"}"#.into(),
        };
        Ok(ChatResponse { usage: Usage::one_request(1, 1), ..ChatResponse::new(message) })
    };
    // The check sends nine requests to this model, and each request takes one step of the script.
    let model = (0..9).fold(ScriptedModel::new(), |model, _| model.reply_with(answers));
    conformance::model(model).assume_deterministic().await.assert_conforms();
}

/// A model with the fault named by `fault`, for example `empty` if its replies are empty.
struct FaultyModel {
    fault: &'static str,
    busy: AtomicBool,
    requests: AtomicUsize,
    profile: ModelProfile,
}

fn response() -> ChatResponse {
    ChatResponse { usage: Usage::one_request(1, 1), ..ChatResponse::new("Hello.") }
}

fn delta(text: &str) -> ChatEvent {
    ChatEvent::TextDelta { text: text.to_owned() }
}

impl FaultyModel {
    fn reply(&self) -> ChatResponse {
        let call = |id: &str, arguments: &str| ToolCall::new(id, "get_weather", arguments);
        let calls =
            |tool_calls: Vec<ToolCall>| AssistantMessage { tool_calls, ..AssistantMessage::default() };
        match self.fault {
            "empty" => ChatResponse { message: AssistantMessage::default(), ..response() },
            "uncounted" => ChatResponse { usage: Usage::default(), ..response() },
            "ids" => ChatResponse { message: calls(vec![call("a", "{}"), call("a", "{}")]), ..response() },
            "no pieces" => ChatResponse { message: calls(vec![call("call_7", "")]), ..response() },
            "truncated call" => ChatResponse {
                message: calls(vec![call("a", r#"{"city": "Pa"#)]),
                finish_reason: FinishReason::Length,
                ..response()
            },
            "new ids" => {
                let id = format!("call_{}", self.requests.fetch_add(1, Ordering::Relaxed));
                let mut message = calls(vec![call(&id, "{}")]);
                message.provider_data.insert("broken", json!({ "signature": id }));
                ChatResponse { message, ..response() }
            }
            _ => response(),
        }
    }
}

#[async_trait]
impl ChatModel for FaultyModel {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.fault {
            "hangs" => std::future::pending().await,
            "down" => Err(ModelError::failed("connection refused")),
            "locks" => {
                if self.busy.swap(true, Ordering::Relaxed) {
                    return Err(ModelError::failed("another request is in progress"));
                }
                tokio::task::yield_now().await;
                self.busy.store(false, Ordering::Relaxed);
                Ok(self.reply())
            }
            _ => Ok(self.reply()),
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let finished = || ChatEvent::Finished(response().into());
        let events = match self.fault {
            "no end" => vec![Ok(delta("Hello."))],
            "two ends" => vec![Ok(delta("Hello.")), Ok(finished()), Ok(finished())],
            "event after error" => vec![Err(ModelError::EmptyResponse), Ok(delta("Hello."))],
            "no pieces" => {
                let call = ToolCall::new("call_1", "get_weather", "{}");
                let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
                let (id, name) = ("call_1".to_owned(), "get_weather".to_owned());
                vec![
                    Ok(ChatEvent::ToolCallStarted { index: 0, id, name }),
                    Ok(ChatEvent::Finished(ChatResponse { message, ..response() }.into())),
                ]
            }
            "other pieces" => vec![Ok(delta("Hel")), Ok(finished())],
            "other reply" => {
                return stream::iter(
                    ChatResponse { usage: Usage::one_request(1, 1), ..ChatResponse::new("Bye.") }
                        .into_events()
                        .map(Ok)
                        .collect::<Vec<_>>(),
                )
                .boxed();
            }
            _ => {
                let whole = self.chat(request);
                return stream::once(whole)
                    .flat_map(|reply| match reply {
                        Ok(reply) => stream::iter(reply.into_events().map(Ok).collect::<Vec<_>>()),
                        Err(error) => stream::iter(vec![Err(error)]),
                    })
                    .boxed();
            }
        };
        stream::iter(events).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

fn faulty(fault: &'static str, profile: ModelProfile) -> FaultyModel {
    FaultyModel { fault, busy: AtomicBool::new(false), requests: AtomicUsize::new(0), profile }
}

/// Servers generate new call ids and provider data for each reply. Differences in these values must
/// not be reported.
#[tokio::test]
async fn call_ids_and_provider_data_may_differ() {
    check("new ids", expect![""]).await;
    check("no pieces", expect![""]).await;
}

#[tokio::test]
async fn model_that_always_fails_is_found() {
    check("down", expect!["a request gets a reply in time: the model failed: connection refused"]).await;
}

async fn check(fault: &'static str, expected: Expect) {
    let json_schema = fault == "no schema";
    let profile = ModelProfile {
        supports_native_tools: false,
        supports_json_schema: json_schema,
        ..ModelProfile::new(if fault == "no name" { "" } else { "broken" })
    };
    let model = faulty(fault, profile);
    let report = conformance::model(model).assume_deterministic().await;
    expected.assert_eq(&format_violations(&report));
}

#[tokio::test]
async fn malformed_replies_are_found() {
    check("none", expect![""]).await;
    check("empty", expect!["a reply has text or calls: it is empty"]).await;
    check("uncounted", expect!["a reply counts as a request: `usage.requests` is 0"]).await;
    check(
        "ids",
        expect![[r#"each call has a unique id and a name: a call of "get_weather" has the id "a""#]],
    )
    .await;
    check(
        "truncated call",
        expect![[r#"an incomplete call is never returned: the arguments of "get_weather" are truncated"#]],
    )
    .await;
    check(
        "no schema",
        expect![[r#"a reply matches the requested schema: for {"city": …} the reply is "Hello.""#]],
    )
    .await;
    check("no name", expect!["the profile is constant and has a name: the name is empty"]).await;
}

#[tokio::test]
async fn malformed_streams_are_found() {
    check(
        "no end",
        expect!["a stream ends exactly once, with the whole reply or an error: it ends after 1 events with neither"],
    )
    .await;
    check(
        "two ends",
        expect!["a stream ends exactly once, with the whole reply or an error: 1 events follow the end"],
    )
    .await;
    check(
        "event after error",
        expect!["a stream ends exactly once, with the whole reply or an error: 1 events follow the end"],
    )
    .await;
    check("other pieces", expect![[r#"the deltas of a stream add up to the whole reply: the text is "Hello.", but the deltas are "Hel""#]]).await;
    check("other reply", expect![[r#"`chat` and `stream` give the same reply: `chat` gives {"content":[{"type":"text","text":"Hello."}]}, `stream` gives {"content":[{"type":"text","text":"Bye."}]}"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn hanging_and_interfering_requests_are_found() {
    check(
        "hangs",
        expect![[r#"
        a request gets a reply in time: no reply in 5s
        concurrent and dropped requests do not affect others: no reply in 5s"#]],
    )
    .await;
    check("locks", expect!["concurrent and dropped requests do not affect others: the model failed: another request is in progress"]).await;
}
