//! Tests of agents with fallback models, and of agents with cached replies.

use std::time::Duration;

use futures::TryStreamExt as _;
use haft_core::{
    RunEvent, ToolCall,
    agent::{AgentErrorKind, RunAnswer, StopReason},
    message::AssistantMessage,
    model::{ChatResponse, ModelError, ModelProfile},
    usage::{Cost, Price, Prices, Usage},
};
use haft_middleware::ModelMiddleware as _;
use haft_middleware::ReplyCache;
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;

use crate::tools::calculator;

fn server_error() -> ModelError {
    ModelError::Server { status: Some(503), body: "down".to_owned(), retry_after: None }
}

/// A model and its fallback share one dialect. Native calls are used only if both models support
/// them.
#[tokio::test]
async fn dialect_of_a_fallback_suits_both_models() {
    let plain = ModelProfile {
        supports_native_tools: false,
        supports_json_schema: false,
        ..ModelProfile::new("plain")
    };
    let call = "Thought: I add.\nAction: add\nAction Input: {\"x\": 17, \"y\": 25}";
    let plain = ScriptedModel::new().with_profile(plain).reply_text(call);
    let first =
        ScriptedModel::new().fail(server_error()).reply_text("Thought: That is it.\nFinal Answer: It is 42.");
    let agent = ReactAgent::new(first.clone().with_fallback(plain.clone()), calculator()).unwrap();
    let answer = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("It is 42.", 1));
    let requests = [&first.requests()[0], &plain.requests()[0]];
    assert!(requests.iter().all(|request| request.tools.is_empty() && request.instructions.is_some()));
}

/// A failed model request is repeated with the same view, or with a shorter view if the context was
/// too long. If a fallback model has also failed, the error of the last fallback determines the
/// view.
#[tokio::test]
async fn error_of_the_last_fallback_decides_the_retry() {
    let empty = || ModelError::EmptyResponse;
    let model = ScriptedModel::new().fail(server_error()).reply_text("Hello.");
    let agent =
        ReactAgent::new(model.with_fallback(ScriptedModel::new().fail(empty())), calculator()).unwrap();
    assert_eq!(agent.run("Hi").await.unwrap().text().unwrap(), "Hello.");

    let long = ModelError::ContextTooLong("too many tokens".to_owned());
    let calls = [("a", "add", r#"{"x":1,"y":1}"#)];
    let model =
        ScriptedModel::new().reply_calls(calls).reply_calls(calls).fail(server_error()).reply_text("Done.");
    let second = ScriptedModel::new().fail(long);
    let agent = ReactAgent::new(model.clone().with_fallback(second.clone()), calculator()).unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.stop_reason, StopReason::Finished);
    assert_eq!([&model.requests()[2], &model.requests()[3]].map(|request| request.messages.len()), [5, 3]);

    let both = || ScriptedModel::new().fail(server_error());
    let agent = ReactAgent::new(both().with_fallback(both()), calculator()).unwrap();
    let error = agent.run("Hi").await.unwrap_err();
    let AgentErrorKind::Model(ModelError::AllFailed { failures }) = *error.kind else { panic!("{error:?}") };
    assert_eq!((failures.len(), error.usage.requests), (2, 1));
}

/// A repeated run receives the same replies from the cache. Cached replies cost nothing.
#[tokio::test]
async fn cached_replies_repeat_a_run_at_no_cost() {
    let call = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "add", r#"{"x":17,"y":25}"#)],
        ..AssistantMessage::default()
    };
    let reply = |message| ChatResponse { usage: Usage::one_request(1_000, 10), ..ChatResponse::new(message) };
    let model = ScriptedModel::new().reply(reply(call)).reply(reply("It is 42.".into()));
    let cached = model.clone().cached(&ReplyCache::new(Duration::from_secs(60)));
    let prices = Prices::new().with_price("scripted", Price::new(1.0, 1.0));
    let agent = ReactAgent::builder(cached).tools(calculator()).prices(prices).build().unwrap();
    let ask = async || agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();

    let (first, again) = (ask().await, ask().await);
    assert_eq!(model.requests().len(), 2);
    let summary = |answer: &RunAnswer| (answer.text.clone(), answer.steps.len(), answer.usage.total_tokens());
    assert_eq!(summary(&first), ("It is 42.".to_owned(), 1, 2_020));
    assert_eq!(summary(&again), summary(&first));
    assert_eq!((first.usage.cost, again.usage.cost), (Cost::new(0.00202), Cost::ZERO));
    assert!(again.usage.is_priced() && again.usage.unreported_requests == 0);

    let events: Vec<_> = agent.stream("What is 17 plus 25?").try_collect().await.unwrap();
    assert!(events.contains(&RunEvent::TextDelta { text: "It is 42.".to_owned() }));
}
