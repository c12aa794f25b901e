//! Tests of run limits. Each limit ends a run with its own [`Limit`] variant.

use std::{
    collections::BTreeSet,
    future::{pending, ready},
    sync::atomic::Ordering,
    time::Duration,
};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, RunEvent, RunInput, RunOutput, Tool as _, ToolCall, ToolExt as _, ToolOutput, ToolResult,
    Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits, StopReason},
    call::{BoxError, Decision, Decisions, FailureKind, Pending, PendingCall, PendingKind},
    export::async_trait,
    message::AssistantMessage,
    model::{ChatEvent, ChatModelExt as _, ChatRequest, ChatResponse, ModelError, ModelProfile, ToolChoice},
    tool::{RunContext, ToolPolicy},
    usage::{Cost, Price, Prices, Usage},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    Effect, LimitAction, Outcome, OutputStrategy, ReactAgent, Run, RunConfig,
    run::{ContextConfig, RunState},
};
use haft_testing::ScriptedModel;

use crate::{
    effects::{advance_at, apply_at},
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters, with_call_counter},
};

/// Adds a reply with one call to `add` to the script of `model`.
fn calls_of_add(model: ScriptedModel, number: u32) -> ScriptedModel {
    model.reply_calls([("", "add", &format!(r#"{{"x":{number},"y":1}}"#))])
}

/// Returns limits with `requests` as the maximum number of model requests.
fn max_requests(requests: u32) -> RunLimits {
    RunLimits { requests: Some(requests), ..RunLimits::default() }
}

#[track_caller]
fn assert_limit(error: &AgentError, expected: Limit) {
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(limit) if limit == expected), "{error:?}");
    assert_paired(&error.transcript);
}

/// With a limit of two requests, the calls in both replies run, and the run fails before a third
/// request.
#[tokio::test]
async fn request_limit_is_an_error_before_the_next_request() {
    let model = calls_of_add(calls_of_add(ScriptedModel::new(), 1), 2);
    let agent =
        ReactAgent::builder(model.clone()).tools(calculator()).limits(max_requests(2)).build().unwrap();

    let error = agent.run("Add.").await.unwrap_err();

    assert_limit(&error, Limit::Requests(2));
    assert_eq!((model.requests().len(), error.usage.requests), (2, 2));
    // The transcript contains both results, so another run can continue the conversation.
    assert_eq!(error.transcript.len(), 5);
}

/// With `LimitAction::Answer`, the run sends a final request at the limit. The model must answer it
/// without calls.
#[tokio::test]
async fn last_request_at_the_limit_forces_an_answer() {
    let model = calls_of_add(ScriptedModel::new(), 1).reply_text("About 2.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .limits(max_requests(1))
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();

    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();

    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    let last = &model.requests()[1];
    assert_eq!(last.tool_choice, ToolChoice::None);
    assert!(message_lines(last).ends_with("No more calls can be made: answer now with what you have.\n"));
}

/// If the model makes a call in its reply to the final request, the call is not executed and the
/// run fails.
#[tokio::test]
async fn call_in_the_last_request_ends_the_run() {
    let model = calls_of_add(calls_of_add(ScriptedModel::new(), 1), 2).reply_text("Three.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .limits(max_requests(1))
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();
    let mut run = agent.create_run("Add.".into()).unwrap();
    for _ in 0..2 {
        // If the run is driven again, it fails again, without a further request.
        let end = agent.drive(&mut run, RunContext::default()).try_for_each(|_| ready(Ok(()))).await;
        assert_limit(&end.unwrap_err(), Limit::Requests(1));
    }
    assert_eq!(model.requests().len(), 2);

    // After the limit is raised, the run continues, and the model may make calls again.
    run.set_limits(max_requests(3));
    let end = agent.drive(&mut run, RunContext::default()).try_collect::<Vec<_>>().await.unwrap();
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = end.last() else { panic!("{end:?}") };
    assert_eq!((&*answer.text, answer.stop_reason), ("Three.", StopReason::Finished));
    assert_eq!(model.requests()[2].tool_choice, ToolChoice::Auto);
}

/// The limits of a run's input override the limits of the agent.
#[tokio::test]
async fn limits_of_the_run_override_the_agent() {
    let agent = ReactAgent::builder(ScriptedModel::new()).limits(max_requests(5)).build().unwrap();
    let input = RunInput::new("Hi").with_limits(max_requests(0));
    assert_limit(&agent.run(input).await.unwrap_err(), Limit::Requests(0));
}

#[tokio::test]
async fn calls_beyond_the_limit_do_not_run() {
    let model = calls_of_add(ScriptedModel::new(), 1).reply_calls([("", "add", "{}"), ("", "add", "{}")]);
    let limits = RunLimits { tool_calls: Some(2), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();

    let error = agent.run("Add.").await.unwrap_err();

    assert_limit(&error, Limit::ToolCalls(2));
    let last = error.transcript.messages().last().unwrap().text();
    assert_eq!(last, "not run: the limit of 2 tool calls is reached");
}

#[tokio::test]
async fn token_limit_is_checked_before_the_next_request() {
    let costly = |response| ChatResponse { usage: Usage::one_request(90, 10), ..response };
    let call = ToolCall::new("a", "add", r#"{"x":1,"y":1}"#);
    let message = AssistantMessage { tool_calls: vec![call], ..Default::default() };
    let model = ScriptedModel::new().reply(costly(ChatResponse::new(message)));
    let limits = RunLimits { total_tokens: Some(100), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), Limit::TotalTokens(100));
}

/// Creates a reply with the given usage. The reply is an answer with `text`, or a call to `add` if
/// `text` is `None`.
fn reply_with_usage(text: Option<&str>, usage: Usage) -> ChatResponse {
    let reply = match text {
        Some(text) => ChatResponse::new(text),
        None => {
            let call = ToolCall::new("", "add", r#"{"x":1,"y":1}"#);
            ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
        }
    };
    ChatResponse { usage, ..reply }
}

/// Returns the prices of the scripted model. 1,000 tokens cost 1 as input, 0.1 as cached input, and
/// 10 as output.
fn prices() -> Prices {
    Prices::new().with_price("scripted", Price { cached_input: Some(100.0), ..Price::new(1_000.0, 10_000.0) })
}

#[tokio::test]
async fn each_kind_of_token_has_a_limit() {
    let usage = Usage::one_request(90, 10);
    for (limits, expected) in [
        (RunLimits { input_tokens: Some(90), ..RunLimits::NONE }, Limit::InputTokens(90)),
        (RunLimits { output_tokens: Some(10), ..RunLimits::NONE }, Limit::OutputTokens(10)),
        (RunLimits { total_tokens: Some(100), ..RunLimits::NONE }, Limit::TotalTokens(100)),
    ] {
        let model = ScriptedModel::new().reply(reply_with_usage(None, usage));
        let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();
        let error = agent.run("Add.").await.unwrap_err();
        assert_limit(&error, expected);
        assert_eq!(error.usage.total_tokens(), 100);

        // With a limit that is one token higher, the next request is sent.
        let more = |limit: Option<u64>| limit.map(|limit| limit + 1);
        let limits = RunLimits {
            input_tokens: more(limits.input_tokens),
            output_tokens: more(limits.output_tokens),
            total_tokens: more(limits.total_tokens),
            ..limits
        };
        let model = ScriptedModel::new().reply(reply_with_usage(None, usage)).reply_text("2");
        let agent = ReactAgent::builder(model).tools(calculator()).build().unwrap();
        assert_eq!(agent.run(RunInput::new("Add.").with_limits(limits)).await.unwrap().text().unwrap(), "2");
    }
}

#[tokio::test]
async fn cost_is_reported_and_limited() {
    let usage = Usage { cached_input_tokens: 50, ..Usage::one_request(100, 10) };
    // 50 uncached input tokens cost 0.05, 50 cached input tokens 0.005, and 10 output tokens 0.1.
    let each = Cost::new(0.05 + 0.005 + 0.1);
    let model =
        ScriptedModel::new().reply(reply_with_usage(None, usage)).reply(reply_with_usage(Some("2"), usage));
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices());
    let answer = agent.build().unwrap().run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.cost, answer.usage.is_priced()), (each + each, true));
    assert_eq!(answer.usage.cost.to_string(), "0.31");

    let model = ScriptedModel::new()
        .reply(reply_with_usage(None, usage))
        .reply(reply_with_usage(Some("About 2."), usage));
    let limits = RunLimits { cost: Some(each), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
    let agent = agent.limit_action(LimitAction::Answer).build().unwrap();
    let mut run = agent.create_run("Add.".into()).unwrap();
    let end = agent.drive(&mut run, RunContext::default()).try_collect::<Vec<_>>().await.unwrap();
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = end.last() else { panic!("{end:?}") };
    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    assert!(answer.transcript.messages()[3].text().starts_with("the limit of a cost of 0.155 is reached"));
}

/// A run with a cost limit ends if the cost of a request is unknown, because the usage or the price
/// is missing. The cost is never estimated.
#[tokio::test]
async fn unknown_cost_is_reported() {
    let without_usage = ScriptedModel::new().reply(reply_with_usage(None, Usage::default()));
    let unpriced = ScriptedModel::new()
        .with_profile(ModelProfile::new("other"))
        .reply(reply_with_usage(None, Usage::one_request(9, 9)));
    for (model, unreported) in [(without_usage, 1), (unpriced, 0)] {
        let limits = RunLimits { cost: Some(Cost::new(100.0)), ..RunLimits::default() };
        let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
        let error = agent.build().unwrap().run("Add.").await.unwrap_err();
        assert_limit(&error, Limit::UnknownCost);
        assert_eq!((error.usage.unreported_requests, error.usage.cost), (unreported, Cost::ZERO));
    }
    // Without a cost limit, the run continues and counts the requests without usage.
    let model = ScriptedModel::new()
        .reply(reply_with_usage(None, Usage::default()))
        .reply(reply_with_usage(Some("2"), Usage::default()));
    let agent = ReactAgent::builder(model).tools(calculator()).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.unreported_requests, answer.usage.is_priced()), (2, false));
    let reloaded: Usage = serde_json::from_value(serde_json::to_value(answer.usage).unwrap()).unwrap();
    assert_eq!(reloaded, answer.usage);
}

/// A failed request has no reported usage and costs nothing, so it does not end a run with a cost
/// limit.
#[tokio::test]
async fn failed_request_does_not_exceed_a_cost_limit() {
    let model = ScriptedModel::new()
        .fail(ModelError::EmptyResponse)
        .reply(reply_with_usage(None, Usage::one_request(10, 0)))
        .fail(ModelError::EmptyResponse)
        .reply(reply_with_usage(Some("2"), Usage::one_request(10, 0)));
    let limits = RunLimits { cost: Some(Cost::new(1.0)), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
    let answer = agent.build().unwrap().run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.requests, answer.usage.unreported_requests), (4, 2));
    assert_eq!(answer.usage.cost, Cost::new(0.02));
}

/// The usage of a run includes the requests of child agents, the requests for summaries, and the
/// requests for structured outputs.
#[tokio::test]
async fn usage_includes_children_summaries_and_extractions() {
    let usage = Usage::one_request(10, 1);
    let child =
        ScriptedModel::new().reply(reply_with_usage(None, usage)).reply(reply_with_usage(Some("2"), usage));
    let child = ReactAgent::builder(child).tools(calculator()).prices(prices()).build().unwrap();
    let fails = ReactAgent::builder(ScriptedModel::new().reply(reply_with_usage(None, usage)));
    let fails = fails.prices(prices()).limits(max_requests(1)).build().unwrap();
    let call = |tool: &str| {
        let call = ToolCall::new("", tool, r#"{"task":"Add."}"#);
        let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        ChatResponse { usage, ..ChatResponse::new(message) }
    };
    let finish = {
        let call = ToolCall::new("", "finish", r#"{"sum":2}"#);
        let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        ChatResponse { usage, ..ChatResponse::new(message) }
    };
    let model = ScriptedModel::new()
        .reply(call("child"))
        .reply(call("fails"))
        .reply(reply_with_usage(Some("It is 2."), usage))
        .reply(finish);
    let compactor = ScriptedModel::new().reply(reply_with_usage(Some("Added."), usage));
    let schema = serde_json::json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let agent = ReactAgent::builder(model)
        .tools(
            Toolset::new()
                .with_tool(child.into_tool("child", "Adds."))
                .with_tool(fails.into_tool("fails", "Fails.")),
        )
        .outputs(haft_core::Schema::new(schema).unwrap())
        .output_strategy(OutputStrategy::Extraction)
        .compactor(compactor)
        .context(ContextConfig { tokens: Some(10), ..ContextConfig::default() })
        .prices(prices())
        .build()
        .unwrap();

    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();

    // Four requests of the agent, one summary, two requests of `child` and one of `fails`.
    let all = (0..8)
        .fold(Usage::default(), |all, _| all + Usage { cost: Cost::new(0.02), priced_requests: 1, ..usage });
    assert_eq!(answer.usage, all);
}

/// The usage of a child agent is counted exactly once, even if the child is suspended or times out.
#[tokio::test(start_paused = true)]
async fn usage_of_a_child_is_counted_once() {
    let usage = Usage::one_request(10, 1);
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let add_with_approval = add_tool().with_definition(|it| it.with_policy(policy));
    let waits =
        ScriptedModel::new().reply(reply_with_usage(None, usage)).reply(reply_with_usage(Some("2"), usage));
    let waits = ReactAgent::new(waits, Toolset::new().with_tool(add_with_approval)).unwrap();
    let hangs = ScriptedModel::new().reply(reply_with_usage(None, usage));
    let hangs =
        ReactAgent::new(hangs, Toolset::new().with_tool(tool_without_parameters("add", pending::<()>)))
            .unwrap();
    let policy = ToolPolicy { timeout: Some(Duration::from_secs(1)), ..ToolPolicy::default() };
    let hangs = hangs.into_tool("hangs", "Hangs.").with_definition(|it| it.with_policy(policy));
    let calls = [("a", "waits", r#"{"task":"Add."}"#), ("b", "hangs", r#"{"task":"Add."}"#)];
    let model = ScriptedModel::new().reply_calls(calls).reply_text("2");
    let tools = Toolset::new().with_tool(waits.into_tool("waits", "Waits.")).with_tool(hangs);
    let agent = ReactAgent::new(model, tools).unwrap();

    let RunOutput::Suspended(suspended) = agent.run("Add.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let decisions = Decisions::from([("a/call_1".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();

    assert_eq!(answer.usage.input_tokens, 3 * 10);
}

/// If a run is cancelled while a child agent runs, the error of the run includes the usage of the
/// child.
#[tokio::test]
async fn usage_of_a_cancelled_child_is_counted() {
    let child = ScriptedModel::new().reply(reply_with_usage(None, Usage::one_request(10, 1))).hang();
    let agent = ReactAgent::new(child.clone(), calculator()).unwrap().into_tool("work", "Works.");
    let model = ScriptedModel::new().reply_calls([("a", "work", r#"{"task":"Add."}"#)]);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(agent)).unwrap();
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let run = agent.run(RunInput::new("Add.").with_context(context));
    let cancel = async {
        while child.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    };
    let (ended, ()) = tokio::join!(run, cancel);
    let error = ended.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_eq!(error.usage.input_tokens, 10);
}

/// If a reply arrives after the time limit, its calls are not executed.
#[test]
fn no_call_starts_after_the_time_limit() {
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let mut run = Run::new(&RunConfig { limits, ..RunConfig::default() }, "Add.".into()).unwrap();
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Chat));
    let message = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "add", r#"{"x":1,"y":1}"#)],
        ..AssistantMessage::default()
    };
    apply_at(&mut run, 0, Outcome::replied(ChatResponse::new(message))).unwrap();
    let error = advance_at(&mut run, 6_000).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Time(_))), "{error:?}");
    let result = run.transcript().messages().last().unwrap().text();
    assert!(result.starts_with("not run: "), "{result}");
}

/// The result of a stop tool is the answer, even if the time limit prevents another call of the
/// same reply.
#[test]
fn time_limit_does_not_discard_the_result_of_a_stop_tool() {
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let stop_on = BTreeSet::from(["stop".to_owned()]);
    let mut run = Run::new(&RunConfig { limits, stop_on, ..RunConfig::default() }, "Go.".into()).unwrap();
    let look = ToolCall::new("b", "look", "{}");
    let tool_calls = vec![ToolCall::new("a", "stop", "{}"), look.clone()];
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Chat));
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    apply_at(&mut run, 0, Outcome::replied(ChatResponse::new(message))).unwrap();
    assert!(matches!(advance_at(&mut run, 1_000).unwrap(), Effect::Call(_)));
    let result = ToolResult::done("", "", ToolOutput::from("the answer"));
    apply_at(&mut run, 1_000, Outcome::called("a", result)).unwrap();
    let pending = PendingCall { call: look, pending: Pending::new(PendingKind::External) };
    apply_at(&mut run, 1_000, Outcome::Pending(Box::new(pending))).unwrap();
    assert!(matches!(advance_at(&mut run, 6_000).unwrap(), Effect::Wait(_)));
    let decided = Outcome::Decided { id: "b".to_owned(), decision: Decision::output("given") };
    apply_at(&mut run, 6_000, decided).unwrap();
    let Effect::Done(answer) = advance_at(&mut run, 7_000).unwrap() else { panic!("the run is not done") };
    assert_eq!((&*answer.text, answer.stop_reason), ("the answer", StopReason::Tool));
    assert_paired(&answer.transcript);
    assert!(answer.steps[1].result.model_text().starts_with("not run: "));
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_calls_and_requests() {
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let tools =
        || Toolset::new().with_tool(tool_without_parameters("hang", pending::<()>)).with_tool(add_tool());
    let calls = [("a", "hang", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)];

    let agent = ReactAgent::builder(ScriptedModel::new().reply_calls(calls)).tools(tools()).limits(limits);
    let error = agent.build().unwrap().run("Go.").await.unwrap_err();
    assert_limit(&error, Limit::Time(Duration::from_secs(5)));
    let results: Vec<_> = error.transcript.messages().iter().skip(2).map(|it| it.text()).collect();
    assert_eq!(results, ["timed out: the time of the run is up; it may or may not have happened", "2"]);

    let model = ScriptedModel::new().reply_calls(calls).reply_text("About 2.");
    let agent = ReactAgent::builder(model).tools(tools()).limits(limits).limit_action(LimitAction::Answer);
    let answer = agent.build().unwrap().run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    assert!(answer.steps[0].result.failure().is_some_and(|it| it.kind == FailureKind::TimedOut));

    let agent =
        ReactAgent::builder(NeverReplies(ModelProfile::new("silent"))).limits(limits).build().unwrap();
    let error = agent.run("Go.").await.unwrap_err();
    assert_limit(&error, Limit::Time(Duration::from_secs(5)));
    assert_eq!((error.usage.requests, error.transcript.len()), (1, 1));
}

/// A model that never replies.
struct NeverReplies(ModelProfile);

#[async_trait]
impl ChatModel for NeverReplies {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        pending().await
    }

    fn profile(&self) -> &ModelProfile {
        &self.0
    }
}

/// The elapsed time of a run is the sum of the times between its effects and outcomes. Time does
/// not count while the run is suspended or has no driver.
#[test]
fn time_of_a_run_is_measured_by_its_steps() {
    let limits = RunLimits { time: Some(Duration::from_millis(100)), ..RunLimits::default() };
    let mut run = Run::new(&RunConfig { limits, ..RunConfig::default() }, "Go.".into()).unwrap();
    let left = |run: &Run| run.time_left().map(|left| left.as_millis());
    let reply_with_call = || Outcome::replied(reply_with_usage(None, Usage::one_request(1, 1)));

    assert!(matches!(advance_at(&mut run, 1_000_000).unwrap(), Effect::Chat));
    assert_eq!(left(&run), Some(100));
    apply_at(&mut run, 1_000_030, reply_with_call()).unwrap();
    let Effect::Call(batch) = advance_at(&mut run, 1_000_040).unwrap() else { panic!("no calls") };
    assert_eq!(left(&run), Some(60));
    let call = batch.calls[0].call.clone();
    let pending = PendingCall { call: call.clone(), pending: Pending::new(PendingKind::External) };
    apply_at(&mut run, 1_000_050, Outcome::Pending(Box::new(pending))).unwrap();
    assert!(matches!(advance_at(&mut run, 1_000_050).unwrap(), Effect::Wait(_)));
    assert_eq!(left(&run), Some(50));

    // Another process loads the run much later. The time in between does not count.
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let decided = Outcome::Decided { id: call.id, decision: Decision::output("2") };
    apply_at(&mut run, 900_000_000, decided).unwrap();
    let Effect::Call(batch) = advance_at(&mut run, 900_000_000).unwrap() else {
        panic!("the call does not resume")
    };
    assert_eq!(left(&run), Some(50));
    run.recover();
    assert_eq!(batch.calls.len(), 1);
    assert!(matches!(advance_at(&mut run, 990_000_000).unwrap(), Effect::Chat));
    assert_eq!(left(&run), Some(50));
    apply_at(&mut run, 990_000_000, reply_with_call()).unwrap();
    // If the clock is set back, the elapsed time does not decrease.
    assert!(matches!(advance_at(&mut run, 980_000_000).unwrap(), Effect::Call(_)));
    let limit = Limit::Time(Duration::from_millis(100));
    apply_at(&mut run, 980_000_000, Outcome::LimitReached(limit)).unwrap();
    let error = advance_at(&mut run, 980_000_001).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Time(_))), "{error}");
    assert_paired(run.transcript());
}

/// The price of a reply is looked up by the model name in the reply. If that model has no price,
/// the name of the requested model is used.
#[tokio::test]
async fn price_is_found_by_the_requested_or_the_reported_model_name() {
    let reply = ChatResponse {
        model: Some("scripted-2".to_owned()),
        ..reply_with_usage(Some("2"), Usage::one_request(1_000, 0))
    };
    let prices: Prices = serde_json::from_str(r#"{"scripted-2": {"input": 3, "output": 4}}"#).unwrap();
    for prices in [prices, self::prices()] {
        let expected = prices.get("scripted-2").map_or(Cost::new(1.0), |_| Cost::new(0.003));
        let model = ScriptedModel::new().reply(reply.clone()).priced(prices);
        let request = ChatRequest::new([haft_core::Message::user("1 + 1?")]);
        let events: Vec<_> = model.stream(&request).try_collect().await.unwrap();
        let [ChatEvent::TextDelta { .. }, ChatEvent::Finished(reply)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(reply.usage.cost, expected);
    }
}

/// Usage that a tool reports, for example of its own model requests, counts for the run.
#[tokio::test]
async fn usage_reported_by_a_tool_is_counted() {
    let (add, ran) = with_call_counter(&add_tool());
    let ask = haft_core::tool::DynamicTool::new(add_named("ask"), |_, cx| async move {
        cx.report_usage(Usage::one_request(7, 3));
        Ok::<_, BoxError>("asked")
    });
    let model = ScriptedModel::new().reply_calls([("a", "ask", r#"{"x":1,"y":1}"#)]).reply_text("Done.");
    let limits = RunLimits { total_tokens: Some(11), ..RunLimits::default() };
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(ask).with_tool(add))
        .limits(limits)
        .build()
        .unwrap();
    let answer = agent.run("Ask.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.total_tokens(), ran.load(Ordering::Relaxed)), (10, 0));
}

fn add_named(name: &str) -> haft_core::ToolDefinition {
    add_tool().with_definition(|it| it.with_name(name)).definition().clone()
}

/// If the reply to the final request is empty, the run ends with the limit, and not with the error
/// of the model.
#[test]
fn broken_reply_to_the_final_request_ends_at_the_limit() {
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let config = RunConfig { limits, limit_action: LimitAction::Answer, ..RunConfig::default() };
    let mut run = Run::new(&config, "Go.".into()).unwrap();
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Chat));
    let tool_calls = vec![ToolCall::new("a", "look", "{}")];
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    apply_at(&mut run, 0, Outcome::replied(ChatResponse::new(message))).unwrap();
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Call(_)));
    let result = ToolResult::done("", "", ToolOutput::from("seen"));
    apply_at(&mut run, 0, Outcome::called("a", result)).unwrap();
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Chat));
    let error = apply_at(&mut run, 0, Outcome::Replied(Err(ModelError::EmptyResponse)));
    let error = error.unwrap_err().to_string();
    assert_eq!(error, Limit::Requests(1).to_string());
    assert_eq!(run.state(), RunState::Ended);

    // After the limit is raised, the run can continue.
    run.set_limits(RunLimits::default());
    assert!(matches!(advance_at(&mut run, 0).unwrap(), Effect::Chat));
}
