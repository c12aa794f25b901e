//! Limits end a run with a typed reason.

use std::{
    future::{pending, ready},
    sync::atomic::Ordering,
    time::Duration,
};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, RunEvent, RunInput, RunOutput, Timestamp, Tool as _, ToolCall, ToolExt as _, Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits, StopReason},
    call::{BoxError, Decision, Decisions, FailureKind},
    export::async_trait,
    message::AssistantMessage,
    model::{ChatEvent, ChatModelExt as _, ChatRequest, ChatResponse, ModelError, ModelProfile, ToolChoice},
    tool::{RunContext, ToolPolicy},
    toolset::ToolList,
    usage::{Cost, Price, Prices, Usage},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    AtLimit, Dialect as _, Effect, NativeCalls, OutputStrategy, ReactAgent, Run, RunConfig, Step,
    run::ContextConfig,
};
use haft_testing::ScriptedModel;

use crate::{
    effects::advance,
    pairing::{assert_paired, lines},
    tools::{add, calculator, counted, plain},
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

/// Behaviour C33.
#[tokio::test]
async fn two_requests_allowed_is_an_error_before_the_third() {
    let model = adding(adding(ScriptedModel::new(), 1), 2);
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).limits(requests(2)).build().unwrap();

    let error = agent.run("Add.").await.unwrap_err();

    assert_limit(&error, Limit::Requests(2));
    assert_eq!((model.requests().len(), error.usage.requests), (2, 2));
    // Both calls ran: what they returned is there for whoever goes on.
    assert_eq!(error.transcript.len(), 5);
}

/// Behaviour C30: as configured, one last request that must answer.
#[tokio::test]
async fn at_the_limit_the_model_may_be_made_to_answer() {
    let model = adding(ScriptedModel::new(), 1).text("About 2.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .limits(requests(1))
        .at_limit(AtLimit::Answer)
        .build()
        .unwrap();

    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();

    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    let last = &model.requests()[1];
    assert_eq!(last.tool_choice, ToolChoice::None);
    assert!(lines(last).ends_with("No more calls can be made: answer now with what you have.\n"));
}

/// Behaviour C30: a model that calls all the same gets no answer made up for it.
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

/// Behaviour C26, the second half.
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

    let error = agent.run("Add.").await.unwrap_err();

    assert_limit(&error, Limit::ToolCalls(2));
    let last = error.transcript.messages().last().unwrap().text();
    assert_eq!(last, "not run: the limit of 2 tool calls is reached");
}

#[tokio::test]
async fn tokens_are_counted_before_the_next_request() {
    let costly = |response| ChatResponse { usage: Usage::of_request(90, 10), ..response };
    let call = ToolCall::new("a", "add", r#"{"x":1,"y":1}"#);
    let asks = AssistantMessage { tool_calls: vec![call], ..Default::default() };
    let model = ScriptedModel::new().reply(costly(ChatResponse::new(asks)));
    let limits = RunLimits { total_tokens: Some(100), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), Limit::TotalTokens(100));
}

/// A reply with a call of `add`, or an answer, that has read and written so many tokens.
fn costing(text: Option<&str>, usage: Usage) -> ChatResponse {
    let reply = match text {
        Some(text) => ChatResponse::new(text),
        None => {
            let call = ToolCall::new("", "add", r#"{"x":1,"y":1}"#);
            ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
        }
    };
    ChatResponse { usage, ..reply }
}

/// One unit for a thousand tokens that are read, ten for a thousand that are written.
fn prices() -> Prices {
    Prices::new().with("scripted", Price { cached_input: Some(100.0), ..Price::new(1_000.0, 10_000.0) })
}

#[tokio::test]
async fn each_kind_of_token_has_a_limit() {
    let usage = Usage::of_request(90, 10);
    for (limits, expected) in [
        (RunLimits { input_tokens: Some(90), ..RunLimits::NONE }, Limit::InputTokens(90)),
        (RunLimits { output_tokens: Some(10), ..RunLimits::NONE }, Limit::OutputTokens(10)),
        (RunLimits { total_tokens: Some(100), ..RunLimits::NONE }, Limit::TotalTokens(100)),
    ] {
        let model = ScriptedModel::new().reply(costing(None, usage));
        let agent = ReactAgent::builder(model).tools(calculator()).limits(limits).build().unwrap();
        let error = agent.run("Add.").await.unwrap_err();
        assert_limit(&error, expected);
        assert_eq!(error.usage.total_tokens(), 100);

        // One more may be used: the next request is made.
        let more = |limit: Option<u64>| limit.map(|limit| limit + 1);
        let limits = RunLimits {
            input_tokens: more(limits.input_tokens),
            output_tokens: more(limits.output_tokens),
            total_tokens: more(limits.total_tokens),
            ..limits
        };
        let model = ScriptedModel::new().reply(costing(None, usage)).text("2");
        let agent = ReactAgent::builder(model).tools(calculator()).build().unwrap();
        assert_eq!(agent.run(RunInput::new("Add.").with_limits(limits)).await.unwrap().text().unwrap(), "2");
    }
}

#[tokio::test]
async fn a_run_tells_its_cost_and_keeps_to_it() {
    let usage = Usage { cached_input_tokens: 50, ..Usage::of_request(100, 10) };
    // 50 at 1/1000, 50 from the cache at 0.1/1000, 10 at 10/1000.
    let each = Cost::new(0.05 + 0.005 + 0.1);
    let model = ScriptedModel::new().reply(costing(None, usage)).reply(costing(Some("2"), usage));
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices());
    let answer = agent.build().unwrap().run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.cost, answer.usage.is_priced()), (each + each, true));
    assert_eq!(answer.usage.cost.to_string(), "0.31");

    let model = ScriptedModel::new().reply(costing(None, usage)).reply(costing(Some("About 2."), usage));
    let limits = RunLimits { cost: Some(each), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
    let agent = agent.at_limit(AtLimit::Answer).build().unwrap();
    let mut run = agent.begin("Add.".into()).unwrap();
    let end = agent.drive(&mut run, RunContext::default()).try_collect::<Vec<_>>().await.unwrap();
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = end.last() else { panic!("{end:?}") };
    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    assert!(answer.transcript.messages()[3].text().starts_with("the limit of a cost of 0.155 is reached"));
}

/// What nobody tells is not guessed, and no limit of money is held by guessing.
#[tokio::test]
async fn a_cost_that_is_not_known_is_said() {
    let silent = ScriptedModel::new().reply(costing(None, Usage::default()));
    let nameless = ScriptedModel::new()
        .with_profile(ModelProfile::new("other"))
        .reply(costing(None, Usage::of_request(9, 9)));
    for (model, unreported) in [(silent, 1), (nameless, 0)] {
        let limits = RunLimits { cost: Some(Cost::new(100.0)), ..RunLimits::default() };
        let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
        let error = agent.build().unwrap().run("Add.").await.unwrap_err();
        assert_limit(&error, Limit::UnknownCost);
        assert_eq!((error.usage.unreported, error.usage.cost), (unreported, Cost::ZERO));
    }
    // Without such a limit it is only said.
    let model = ScriptedModel::new()
        .reply(costing(None, Usage::default()))
        .reply(costing(Some("2"), Usage::default()));
    let agent = ReactAgent::builder(model).tools(calculator()).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.unreported, answer.usage.is_priced()), (2, false));
    let again: Usage = serde_json::from_value(serde_json::to_value(answer.usage).unwrap()).unwrap();
    assert_eq!(again, answer.usage);
}

/// A request that failed is taken as free, and says nothing of its tokens.
#[tokio::test]
async fn a_failed_request_does_not_end_a_run_with_a_limited_cost() {
    let model = ScriptedModel::new()
        .fail(ModelError::EmptyResponse)
        .reply(costing(None, Usage::of_request(10, 0)))
        .fail(ModelError::EmptyResponse)
        .reply(costing(Some("2"), Usage::of_request(10, 0)));
    let limits = RunLimits { cost: Some(Cost::new(1.0)), ..RunLimits::default() };
    let agent = ReactAgent::builder(model).tools(calculator()).prices(prices()).limits(limits);
    let answer = agent.build().unwrap().run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.requests, answer.usage.unreported), (4, 2));
    assert_eq!(answer.usage.cost, Cost::new(0.02));
}

/// Whoever works for a run is paid by it: a child, a summary, an extraction.
#[tokio::test]
async fn usage_and_cost_are_those_of_all_who_work() {
    let usage = Usage::of_request(10, 1);
    let child = ScriptedModel::new().reply(costing(None, usage)).reply(costing(Some("2"), usage));
    let child = ReactAgent::builder(child).tools(calculator()).prices(prices()).build().unwrap();
    let fails = ReactAgent::builder(ScriptedModel::new().reply(costing(None, usage)));
    let fails = fails.prices(prices()).limits(requests(1)).build().unwrap();
    let call = |tool: &str| {
        let call = ToolCall::new("", tool, r#"{"task":"Add."}"#);
        let asks = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        ChatResponse { usage, ..ChatResponse::new(asks) }
    };
    let finish = {
        let call = ToolCall::new("", "finish", r#"{"sum":2}"#);
        let asks = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        ChatResponse { usage, ..ChatResponse::new(asks) }
    };
    let model = ScriptedModel::new()
        .reply(call("child"))
        .reply(call("fails"))
        .reply(costing(Some("It is 2."), usage))
        .reply(finish);
    let compactor = ScriptedModel::new().reply(costing(Some("Added."), usage));
    let schema = serde_json::json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let agent = ReactAgent::builder(model)
        .tools(
            Toolset::new().with(child.into_tool("child", "Adds.")).with(fails.into_tool("fails", "Fails.")),
        )
        .outputs(haft_core::Schema::new(schema).unwrap())
        .output_strategy(OutputStrategy::Extraction)
        .compactor(compactor)
        .context(ContextConfig { tokens: Some(10), ..ContextConfig::default() })
        .prices(prices())
        .build()
        .unwrap();

    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();

    // Four of its own, one summary, two of one child and one of the other.
    let all =
        (0..8).fold(Usage::default(), |all, _| all + Usage { cost: Cost::new(0.02), priced: 1, ..usage });
    assert_eq!(answer.usage, all);
}

/// Also what a child used that was given up, and one that waited in between, once.
#[tokio::test(start_paused = true)]
async fn a_child_is_paid_once_whatever_becomes_of_it() {
    let usage = Usage::of_request(10, 1);
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let careful = add().with_definition(|it| it.with_policy(policy));
    let waits = ScriptedModel::new().reply(costing(None, usage)).reply(costing(Some("2"), usage));
    let waits = ReactAgent::new(waits, Toolset::new().with(careful)).unwrap();
    let hangs = ScriptedModel::new().reply(costing(None, usage));
    let hangs = ReactAgent::new(hangs, Toolset::new().with(plain("add", pending::<()>))).unwrap();
    let policy = ToolPolicy { timeout: Duration::from_secs(1), ..ToolPolicy::default() };
    let hangs = hangs.into_tool("hangs", "Hangs.").with_definition(|it| it.with_policy(policy));
    let calls = [("a", "waits", r#"{"task":"Add."}"#), ("b", "hangs", r#"{"task":"Add."}"#)];
    let model = ScriptedModel::new().calls(calls).text("2");
    let tools = Toolset::new().with(waits.into_tool("waits", "Waits.")).with(hangs);
    let agent = ReactAgent::new(model, tools).unwrap();

    let RunOutput::Suspended(suspended) = agent.run("Add.").await.unwrap() else { panic!("it waits") };
    let answers = Decisions::from([("a/call_1".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, answers)).await.unwrap().into_answer().unwrap();

    assert_eq!(answer.usage.input_tokens, 3 * 10);
}

/// What a child has used is known also when it is cancelled.
#[tokio::test]
async fn a_child_that_is_cancelled_is_paid() {
    let child = ScriptedModel::new().reply(costing(None, Usage::of_request(10, 1))).hang();
    let agent = ReactAgent::new(child.clone(), calculator()).unwrap().into_tool("work", "Works.");
    let model = ScriptedModel::new().calls([("a", "work", r#"{"task":"Add."}"#)]);
    let agent = ReactAgent::new(model, Toolset::new().with(agent)).unwrap();
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

/// A reply that comes when the time is up: its calls are not begun.
#[test]
fn no_call_is_begun_when_the_time_is_up() {
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let mut run = Run::new(&RunConfig { limits, ..RunConfig::default() }, "Add.".into()).unwrap();
    let tools = ToolList::new("test", [add()]);
    let step = |millis| Step::new(&tools, &NativeCalls, Timestamp::from_unix_millis(millis));
    assert!(matches!(advance(&mut run, &step(0)).unwrap(), Effect::Chat(_)));
    let reply = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "add", r#"{"x":1,"y":1}"#)],
        ..AssistantMessage::default()
    };
    run.on_chat(Ok(NativeCalls.fold(ChatResponse::new(reply), None))).unwrap();
    let error = advance(&mut run, &step(6_000)).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Time(_))), "{error:?}");
    let result = run.transcript().messages().last().unwrap().text();
    assert!(result.starts_with("not run: "), "{result}");
}

#[tokio::test(start_paused = true)]
async fn time_is_limited_whatever_is_under_way() {
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let tools = || Toolset::new().with(plain("hang", pending::<()>)).with(add());
    let calls = [("a", "hang", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)];

    let agent = ReactAgent::builder(ScriptedModel::new().calls(calls)).tools(tools()).limits(limits);
    let error = agent.build().unwrap().run("Go.").await.unwrap_err();
    assert_limit(&error, Limit::Time(Duration::from_secs(5)));
    let results: Vec<_> = error.transcript.messages().iter().skip(2).map(|it| it.text()).collect();
    assert_eq!(results, ["timed out: the time of the run is up; it may or may not have happened", "2"]);

    let model = ScriptedModel::new().calls(calls).text("About 2.");
    let agent = ReactAgent::builder(model).tools(tools()).limits(limits).at_limit(AtLimit::Answer);
    let answer = agent.build().unwrap().run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    assert!(answer.steps[0].result.failure().is_some_and(|it| it.kind == FailureKind::TimedOut));

    let agent = ReactAgent::builder(Silent(ModelProfile::new("silent"))).limits(limits).build().unwrap();
    let error = agent.run("Go.").await.unwrap_err();
    assert_limit(&error, Limit::Time(Duration::from_secs(5)));
    assert_eq!((error.usage.requests, error.transcript.len()), (1, 1));
}

/// Says nothing, for ever.
struct Silent(ModelProfile);

#[async_trait]
impl ChatModel for Silent {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        pending().await
    }

    fn profile(&self) -> &ModelProfile {
        &self.0
    }
}

/// A run has no clock: it goes by the steps. While it waits, and while nobody drives it, its time stands still.
#[test]
fn the_time_of_a_run_is_that_of_its_steps() {
    let limits = RunLimits { time: Some(Duration::from_millis(100)), ..RunLimits::default() };
    let mut run = Run::new(&RunConfig { limits, ..RunConfig::default() }, "Go.".into()).unwrap();
    let tools = ToolList::default();
    let at = |millis| Step::new(&tools, &NativeCalls, Timestamp::from_unix_millis(millis));
    let left = |run: &Run| run.time_left().map(|left| left.as_millis());
    let asks = |run: &mut Run| {
        run.on_chat(Ok(NativeCalls.fold(costing(None, Usage::of_request(1, 1)), None))).unwrap();
    };

    assert!(matches!(advance(&mut run, &at(1_000_000)).unwrap(), Effect::Chat(_)));
    assert_eq!(left(&run), Some(100));
    asks(&mut run);
    let Effect::Call(batch) = advance(&mut run, &at(1_000_040)).unwrap() else { panic!("it calls") };
    assert_eq!(left(&run), Some(60));
    let call = batch.calls[0].clone();
    let pending = haft_core::call::Pending::new(haft_core::call::PendingKind::External);
    run.on_pending(haft_core::call::PendingCall { call, pending }).unwrap();
    assert!(matches!(advance(&mut run, &at(1_000_050)).unwrap(), Effect::Wait(_)));
    assert_eq!(left(&run), Some(50));

    // Two days later, in another process.
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    run.on_decision(&batch.calls[0].id, Decision::output("2")).unwrap();
    let Effect::Call(batch) = advance(&mut run, &at(900_000_000)).unwrap() else { panic!("it goes on") };
    assert_eq!(left(&run), Some(50));
    run.recover(&tools);
    assert_eq!(batch.calls.len(), 1);
    assert!(matches!(advance(&mut run, &at(990_000_000)).unwrap(), Effect::Chat(_)));
    assert_eq!(left(&run), Some(50));
    asks(&mut run);
    // A clock that goes back takes nothing back.
    assert!(matches!(advance(&mut run, &at(980_000_000)).unwrap(), Effect::Call(_)));
    run.on_time_up();
    let error = advance(&mut run, &at(980_000_001)).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Time(_))), "{error}");
    assert_paired(run.transcript());
}

/// A layered or priced model streams as it did, and its prices are data.
#[tokio::test]
async fn a_priced_model_streams_and_its_price_is_found_by_either_name() {
    let reply = ChatResponse {
        model: Some("scripted-2".to_owned()),
        ..costing(Some("2"), Usage::of_request(1_000, 0))
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

/// A tool that asks a model by itself says what that was.
#[tokio::test]
async fn a_tool_may_tell_what_it_used() {
    let (add, ran) = counted(&add());
    let asks = haft_core::tool::DynamicTool::new(add_named("ask"), |_, cx| async move {
        cx.report_usage(Usage::of_request(7, 3));
        Ok::<_, BoxError>("asked")
    });
    let model = ScriptedModel::new().calls([("a", "ask", r#"{"x":1,"y":1}"#)]).text("Done.");
    let limits = RunLimits { total_tokens: Some(11), ..RunLimits::default() };
    let agent =
        ReactAgent::builder(model).tools(Toolset::new().with(asks).with(add)).limits(limits).build().unwrap();
    let answer = agent.run("Ask.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.usage.total_tokens(), ran.load(Ordering::Relaxed)), (10, 0));
}

fn add_named(name: &str) -> haft_core::ToolDefinition {
    add().with_definition(|it| it.with_name(name)).definition().clone()
}
