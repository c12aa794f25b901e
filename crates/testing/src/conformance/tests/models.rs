use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;

use super::broken;
use crate::{CassetteModel, ScriptedModel, TestModel, conformance};
use haft_core::{
    ChatModel, ToolCall,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError, ModelProfile},
    usage::Usage,
};

#[tokio::test]
async fn our_own_models_have_no_findings() {
    conformance::model(TestModel::new()).deterministic().await.assert();
    conformance::model(CassetteModel::record(TestModel::new())).deterministic().await.assert();
    let answers = |request: &ChatRequest| {
        let call = ToolCall::new("call_1", "get_weather", r#"{"city": "Paris"}"#);
        let calls = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        let message = match (request.tools.is_empty(), &request.response_format) {
            (false, _) => calls,
            (true, haft_core::model::ResponseFormat::Text) => "Hello.".into(),
            _ => r#"{"city": "Paris"}"#.into(),
        };
        Ok(ChatResponse { usage: Usage::of_request(1, 1), ..ChatResponse::new(message) })
    };
    // As many steps as a check asks for.
    let model = (0..13).fold(ScriptedModel::new(), |model, _| model.step(answers));
    conformance::model(model).deterministic().await.assert();
}

/// A model that does one thing wrong.
struct Broken {
    fault: &'static str,
    busy: AtomicBool,
    asked: AtomicUsize,
    profile: ModelProfile,
}

fn response() -> ChatResponse {
    ChatResponse { usage: Usage::of_request(1, 1), ..ChatResponse::new("Hello.") }
}

fn delta(text: &str) -> ChatEvent {
    ChatEvent::TextDelta { text: text.to_owned() }
}

impl Broken {
    fn reply(&self) -> ChatResponse {
        let call = |id: &str, arguments: &str| ToolCall::new(id, "get_weather", arguments);
        let calls =
            |tool_calls: Vec<ToolCall>| AssistantMessage { tool_calls, ..AssistantMessage::default() };
        match self.fault {
            "empty" => ChatResponse { message: AssistantMessage::default(), ..response() },
            "uncounted" => ChatResponse { usage: Usage::default(), ..response() },
            "ids" => ChatResponse { message: calls(vec![call("a", "{}"), call("a", "{}")]), ..response() },
            "no pieces" => ChatResponse { message: calls(vec![call("call_7", "")]), ..response() },
            "half" => ChatResponse {
                message: calls(vec![call("a", r#"{"city": "Pa"#)]),
                finish_reason: FinishReason::Length,
                ..response()
            },
            "made up" => {
                let id = format!("call_{}", self.asked.fetch_add(1, Ordering::Relaxed));
                let mut message = calls(vec![call(&id, "{}")]);
                message.provider_data.insert("broken", json!({ "signature": id }));
                ChatResponse { message, ..response() }
            }
            _ => response(),
        }
    }
}

#[async_trait]
impl ChatModel for Broken {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.fault {
            "hangs" => std::future::pending().await,
            "down" => Err(ModelError::failed("nobody is there")),
            "locks" => {
                if self.busy.swap(true, Ordering::Relaxed) {
                    return Err(ModelError::failed("somebody else is asking"));
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
            "goes on" => vec![Err(ModelError::EmptyResponse), Ok(delta("Hello."))],
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
                    ChatResponse { usage: Usage::of_request(1, 1), ..ChatResponse::new("Bye.") }
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

fn broken_by(fault: &'static str, profile: ModelProfile) -> Broken {
    Broken { fault, busy: AtomicBool::new(false), asked: AtomicUsize::new(0), profile }
}

/// What a server makes up for each reply is no other reply.
#[tokio::test]
async fn ids_and_what_only_the_provider_understands_may_differ() {
    check("made up", expect![""]).await;
    check("no pieces", expect![""]).await;
}

#[tokio::test]
async fn a_model_that_only_fails_is_found() {
    check("down", expect!["a request gets a reply: every one fails: the model failed: nobody is there"])
        .await;
    conformance::model(broken_by("down", ModelProfile::new("down"))).may_fail().await.assert();
}

async fn check(fault: &'static str, expected: Expect) {
    let json_schema = fault == "no schema";
    let profile = ModelProfile {
        native_tools: false,
        json_schema,
        ..ModelProfile::new(if fault == "no name" { "" } else { "broken" })
    };
    let model = broken_by(fault, profile);
    let report = conformance::model(model).deterministic().await;
    expected.assert_eq(&broken(&report));
}

#[tokio::test]
async fn replies_that_cannot_be_used_are_found() {
    check("none", expect![""]).await;
    check("empty", expect!["a reply says something: it is empty"]).await;
    check("uncounted", expect!["a reply counts as a request: its usage has no request"]).await;
    check(
        "ids",
        expect![[
            r#"each call has an id of its own and a name: there is a call of "get_weather" with the id "a""#
        ]],
    )
    .await;
    check(
        "half",
        expect![[
            r#"a call of which only a part arrived is never returned: the arguments of "get_weather" are cut"#
        ]],
    )
    .await;
    check(
        "no schema",
        expect![[r#"a model that takes a schema answers by it: asked for {"city": …}, it answers "Hello.""#]],
    )
    .await;
    check("no name", expect!["the profile stays and has a name: the name is empty"]).await;
}

#[tokio::test]
async fn streams_that_do_not_end_or_do_not_fold_are_found() {
    check(
        "no end",
        expect!["a stream ends with the whole reply or an error, once: it ends after 1 events with neither"],
    )
    .await;
    check(
        "two ends",
        expect!["a stream ends with the whole reply or an error, once: 1 events come after the end"],
    )
    .await;
    check(
        "goes on",
        expect![[r#"
            a stream ends with the whole reply or an error, once: 1 events come after the end"#]],
    )
    .await;
    check("other pieces", expect![[r#"the pieces of a stream put together are the whole reply: the text is "Hello.", and came as "Hel""#]]).await;
    check("other reply", expect![[r#"whole or streamed, the reply is the same: whole it is {"content":[{"type":"text","text":"Hello."}]}, streamed {"content":[{"type":"text","text":"Bye."}]}"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_do_not_end_or_break_the_next_one_are_found() {
    check("hangs", expect!["a request comes to an end: it does not in 5s"]).await;
    check("locks", expect!["a request that is dropped costs the next one nothing: then it fails: the model failed: somebody else is asking"]).await;
}
