//! Limits end a run with a typed reason.

use std::future::ready;

use futures::TryStreamExt as _;
use haft_core::{
    Agent as _, AgentError, AgentErrorKind, ChatResponse, Limit, RunContext, RunEvent, RunInput, RunLimits,
    RunOutput, StopReason, ToolChoice, Usage, testing::ScriptedModel,
};
use haft_react::{AtLimit, ReactAgent};

use crate::{
    pairing::{assert_paired, lines},
    tools::calculator,
};

fn adding(model: ScriptedModel, number: u32) -> ScriptedModel {
    model.calls([("", "add", &format!(r#"{{"x":{number},"y":1}}"#))])
}

fn requests(requests: u32) -> RunLimits {
    RunLimits { requests: Some(requests), ..RunLimits::default() }
}

#[track_caller]
fn assert_limit(error: &AgentError, expected: Limit) {
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(limit) if limit == expected), "{error:?}");
    assert_paired(&error.transcript);
}

/// BEHAVIOUR C33.
#[tokio::test]
async fn two_requests_allowed_is_an_error_before_the_third() {
    let model = adding(adding(ScriptedModel::new(), 1), 2);
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).limits(requests(2)).build().unwrap();

    let error = agent.run("Add.".into()).await.unwrap_err();

    assert_limit(&error, Limit::Requests(2));
    assert_eq!((model.requests().len(), error.usage.requests), (2, 2));
    // Both calls ran: what they returned is there for whoever goes on.
    assert_eq!(error.transcript.len(), 5);
}

/// BEHAVIOUR C30: as configured, one last request that must answer.
#[tokio::test]
async fn at_the_limit_the_model_may_be_made_to_answer() {
    let model = adding(ScriptedModel::new(), 1).text("About 2.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .limits(requests(1))
        .at_limit(AtLimit::Answer)
        .build()
        .unwrap();

    let answer = agent.run("Add.".into()).await.unwrap().into_answer().unwrap();

    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    let last = &model.requests()[1];
    assert_eq!(last.tool_choice, ToolChoice::None);
    assert!(lines(last).ends_with("No more calls can be made: answer now with what you have.\n"));
}

/// BEHAVIOUR C30: a model that calls all the same gets no answer made up for it.
#[tokio::test]
async fn a_call_in_the_last_request_is_the_limit_again() {
    let model = adding(adding(ScriptedModel::new(), 1), 2).text("Three.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .limits(requests(1))
        .at_limit(AtLimit::Answer)
        .build()
        .unwrap();
    let mut run = agent.begin("Add.".into()).unwrap();
    for _ in 0..2 {
        // Asked again, it is the limit still: the last request was made.
        let end = agent.drive(&mut run, RunContext::default()).try_for_each(|_| ready(Ok(()))).await;
        assert_limit(&end.unwrap_err(), Limit::Requests(1));
    }
    assert_eq!(model.requests().len(), 2);

    // Whoever raises the limit goes on as before, with calls.
    run.set_limits(requests(3));
    let end = agent.drive(&mut run, RunContext::default()).try_collect::<Vec<_>>().await.unwrap();
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = end.last() else { panic!("{end:?}") };
    assert_eq!((&*answer.text, answer.stop_reason), ("Three.", StopReason::Finished));
    assert_eq!(model.requests()[2].tool_choice, ToolChoice::Auto);
}

/// BEHAVIOUR C26, the second half.
#[tokio::test]
async fn the_limits_of_a_run_are_before_those_of_the_agent() {
    let agent = ReactAgent::builder(ScriptedModel::new()).limits(requests(5)).build().unwrap();
    let input = RunInput::new("Hi").with_limits(requests(0));
    assert_limit(&agent.run(input).await.unwrap_err(), Limit::Requests(0));
}

#[tokio::test]
async fn calls_beyond_their_limit_do_not_run() {
    let model = adding(ScriptedModel::new(), 1).calls([("", "add", "{}"), ("", "add", "{}")]);
    let limits = RunLimits { tool_calls: Some(2), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();

    let error = agent.run("Add.".into()).await.unwrap_err();

    assert_limit(&error, Limit::ToolCalls(2));
    let last = error.transcript.messages().last().unwrap().text();
    assert_eq!(last, "not run: the limit of 2 tool calls is reached");
}

#[tokio::test]
async fn tokens_are_counted_before_the_next_request() {
    let costly = |response| ChatResponse { usage: Usage::of_request(90, 10), ..response };
    let call = haft_core::ToolCall::new("a", "add", r#"{"x":1,"y":1}"#);
    let asks = haft_core::AssistantMessage { tool_calls: vec![call], ..Default::default() };
    let model = ScriptedModel::new().reply(costly(ChatResponse::new(asks)));
    let limits = RunLimits { total_tokens: Some(100), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();
    assert_limit(&agent.run("Add.".into()).await.unwrap_err(), Limit::TotalTokens(100));
}
