//! A reply that gives the outputs beside other calls ends the run.

use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use haft_core::{
    RunInput, Schema, Tool, ToolCall, ToolError, ToolExt as _, Toolset,
    agent::{AgentErrorKind, Limit, RunAnswer, RunLimits, StopReason},
    call::Decision,
    message::AssistantMessage,
    model::{ChatResponse, ToolChoice},
    tool::ToolPolicy,
};
use haft_react::{
    HandoffGroup, JsonReact, LimitAction, OutputStrategy, ReactAgent, ReactAgentBuilder, Run, RunConfig,
    TextReact, Verdict,
    router::{Route, RouteTable},
    run::{EndStrategy, RunState},
    transcript::is_extracted,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::reloaded,
    pairing::{assert_paired, assert_request_paired, message_lines},
    tools::{DynamicSource, tool_without_parameters},
};

const EARLY: EndStrategy = EndStrategy::Early;
const EXHAUSTIVE: EndStrategy = EndStrategy::Exhaustive;

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}))
        .unwrap()
}

/// The number of executed calls of each tool, as a list of names.
type Log = Arc<Mutex<Vec<&'static str>>>;

fn logged(name: &'static str, policy: ToolPolicy, log: &Log) -> impl Tool + 'static {
    let log = Arc::clone(log);
    let tool = tool_without_parameters(name, move || {
        log.lock().unwrap().push(name);
        async move { if name == "fail" { Err(ToolError::failed("broken")) } else { Ok(name) } }
    });
    tool.with_definition(|it| it.with_policy(policy))
}

/// Creates the tools `count`, `fail`, and `pay`, which requires an approval.
fn tools(log: &Log) -> Toolset {
    let approval = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    Toolset::new()
        .with_tool(logged("count", ToolPolicy::default(), log))
        .with_tool(logged("fail", ToolPolicy::default(), log))
        .with_tool(logged("pay", approval, log))
}

/// Returns the arguments of each call: those of `finish(1)` are `{"sum":1}`, those of `finish` are
/// invalid.
fn call(text: &str) -> (&str, String) {
    match text.split_once('(') {
        Some((name, value)) => (name, format!(r#"{{"sum":{}}}"#, value.trim_end_matches(')'))),
        None => (text, "{}".to_owned()),
    }
}

/// A reply with `calls`, such as `finish(1)` and `count`. The ids of the calls are `a`, `b` and so
/// on.
fn reply(calls: &str) -> ChatResponse {
    let calls = calls.split(' ').zip(["a", "b", "c", "d"]).map(|(text, id)| {
        let (name, arguments) = call(text);
        ToolCall::new(id, name, arguments)
    });
    ChatResponse::new(AssistantMessage { tool_calls: calls.collect(), ..AssistantMessage::default() })
}

fn builder(model: &ScriptedModel, strategy: EndStrategy, log: &Log) -> ReactAgentBuilder {
    ReactAgent::builder(model.clone()).tools(tools(log)).outputs(sum()).end_strategy(strategy)
}

/// Returns the transcript of `answer` as text.
fn lines(answer: &RunAnswer) -> String {
    let mut request = haft_core::model::ChatRequest::new([]);
    request.messages = answer.transcript.view();
    message_lines(&request)
}

/// Runs an agent whose model makes `calls`, and compares the names of the executed tools and the
/// transcript with `expected`. The answer must be 1. The run is streamed and not streamed.
async fn check(calls: &str, strategy: EndStrategy, expected: Expect) -> RunAnswer {
    let mut answers = Vec::new();
    for is_streamed in [false, true] {
        let (log, model) = (Log::default(), ScriptedModel::new().reply(reply(calls)));
        let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
        let agent = builder(&model, strategy, &log).limits(limits).build().unwrap();
        let output = if is_streamed {
            let events: Vec<_> = futures::StreamExt::collect(agent.stream("Count.")).await;
            match events.into_iter().last().unwrap().unwrap() {
                haft_core::RunEvent::Done { output } => output,
                other => panic!("{other:?}"),
            }
        } else {
            agent.run("Count.").await.unwrap()
        };
        let answer = output.into_answer().unwrap();
        assert_eq!(
            (&*answer.text, &answer.outputs["sum"], answer.stop_reason),
            (r#"{"sum":1}"#, &json!(1), StopReason::Finished)
        );
        assert_paired(&answer.transcript);
        let executed = log.lock().unwrap().join(" ");
        answers.push((format!("executed: {executed}\n{}", lines(&answer)), answer));
    }
    assert_eq!(answers[0].0, answers[1].0);
    let (text, answer) = answers.swap_remove(0);
    expected.assert_eq(&text);
    answer
}

/// A valid answer beside a call ends the run, also in the last permitted request. The call is not
/// executed, and its result contains the reason.
#[tokio::test]
async fn answer_beside_a_call_ends_the_run() {
    let expected = expect![[r#"
        executed: 
        user: Count.
        assistant: a finish{"sum":1}; b count{}
        tool: a the answer was received
        tool: b not executed, because the answer was given in the same reply
    "#]];
    let answer = check("finish(1) count", EARLY, expected).await;
    // The steps are the calls of tools, without the answer.
    assert_eq!(answer.steps.iter().map(|step| &*step.tool_name).collect::<Vec<_>>(), ["count"]);
    check(
        "count finish(1)",
        EARLY,
        expect![[r#"
        executed: 
        user: Count.
        assistant: a count{}; b finish{"sum":1}
        tool: a not executed, because the answer was given in the same reply
        tool: b the answer was received
    "#]],
    )
    .await;
}

/// With `EndStrategy::Exhaustive`, the other calls are executed before the answer ends the run,
/// also if they fail.
#[tokio::test]
async fn exhaustive_strategy_executes_the_other_calls() {
    check(
        "finish(1) count",
        EXHAUSTIVE,
        expect![[r#"
        executed: count
        user: Count.
        assistant: a finish{"sum":1}; b count{}
        tool: a the answer was received
        tool: b count
    "#]],
    )
    .await;
    check(
        "fail finish(1) count",
        EXHAUSTIVE,
        expect![[r#"
        executed: fail count
        user: Count.
        assistant: a fail{}; b finish{"sum":1}; c count{}
        tool: a broken
        tool: b the answer was received
        tool: c count
    "#]],
    )
    .await;
}

/// With separate output requests, a tool of a source can have the name `finish`. It is executed
/// like other tools, and only the reply to the output request contains the answer.
#[tokio::test]
async fn tool_named_finish_is_a_tool_before_the_outputs_are_requested() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .reply(reply("finish(7)"))
        .reply(reply("count finish(8)"))
        .reply_text("Counted.")
        .reply(reply("finish(1) count"));
    let finish = DynamicSource::new(logged("finish", ToolPolicy::default(), &log));
    let agent = ReactAgent::builder(model)
        .tools(tools(&log).with_source(finish))
        .outputs(sum())
        .output_strategy(OutputStrategy::Extraction)
        .build()
        .unwrap();
    let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), (r#"{"sum":1}"#, StopReason::Finished));
    assert_eq!(*log.lock().unwrap(), ["finish", "count", "finish"]);
    let steps: Vec<_> = answer.steps.iter().map(|it| (it.step_number, &*it.tool_name)).collect();
    assert_eq!(steps, [(1, "finish"), (2, "count"), (2, "finish"), (4, "count")]);
    let extracted = answer.transcript.messages().iter().filter(|message| is_extracted(message));
    assert_eq!(extracted.count(), 1);
}

/// The first valid answer is used. Further answers are recorded as unused.
#[tokio::test]
async fn first_valid_answer_is_used() {
    check(
        "finish(1) finish(2)",
        EARLY,
        expect![[r#"
        executed: 
        user: Count.
        assistant: a finish{"sum":1}; b finish{"sum":2}
        tool: a the answer was received
        tool: b not used, because another answer was given in the same reply
    "#]],
    )
    .await;
    check(
        "finish finish(1) count finish(2)",
        EXHAUSTIVE,
        expect![[r#"
        executed: count
        user: Count.
        assistant: a finish{}; b finish{"sum":1}; c count{}; d finish{"sum":2}
        tool: a The answer does not have the form that it must have:
        /: missing required property "sum" (integer)
        Give it again.
        tool: b the answer was received
        tool: c count
        tool: d not used, because another answer was given in the same reply
    "#]],
    )
    .await;
}

/// An answer that does not fit the schema does not end the run: the other calls are executed, and
/// the model reads the error.
#[tokio::test]
async fn invalid_answer_beside_a_call_is_returned_to_the_model() {
    for strategy in [EARLY, EXHAUSTIVE] {
        let (log, model) = (Log::default(), ScriptedModel::new().reply(reply("finish count")));
        let model = model.reply(reply("finish(1)"));
        let agent = builder(&model, strategy, &log).build().unwrap();
        let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, &**log.lock().unwrap()), (r#"{"sum":1}"#, &["count"][..]));
        expect![[r#"
            user: Count.
            assistant: a finish{}; b count{}
            tool: a The answer does not have the form that it must have:
            /: missing required property "sum" (integer)
            Give it again.
            tool: b count
        "#]]
        .assert_eq(&message_lines(&model.requests()[1]));
    }
}

/// A reply with several invalid answers and no other call is rejected, like one invalid answer.
#[tokio::test]
async fn several_invalid_answers_are_rejected() {
    let model = (0..3).fold(ScriptedModel::new(), |model, _| model.reply(reply("finish finish(true)")));
    let agent = builder(&model, EARLY, &Log::default()).build().unwrap();
    let error = agent.run("Count.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
    assert_paired(&error.transcript);
}

/// An output validator checks the answer after the calls have their results. If it rejects the
/// answer, the model answers again, and can repeat the calls.
#[tokio::test]
async fn rejected_answer_beside_a_call_is_repeated() {
    for (strategy, executed) in [(EARLY, &[][..]), (EXHAUSTIVE, &["count"][..])] {
        let log = Log::default();
        let model = ScriptedModel::new().reply(reply("finish(3) count")).reply(reply("finish(1) count"));
        let agent = builder(&model, strategy, &log).output_validator(|output, _| async move {
            if output.outputs["sum"] == 1 { Ok(Verdict::Pass) } else { Ok(Verdict::retry("it must be 1")) }
        });
        let answer = agent.build().unwrap().run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.text, r#"{"sum":1}"#);
        assert_eq!(log.lock().unwrap().len(), executed.len() * 2);
        assert_paired(&answer.transcript);
        let text = message_lines(&model.requests()[1]);
        assert!(text.ends_with("user: Your answer was rejected: it must be 1\nAnswer again.\n"), "{text}");
    }
}

/// An approval is not requested if the answer ends the run. With `EndStrategy::Exhaustive`, the run
/// is suspended until the decision, and then ends with the answer.
#[tokio::test]
async fn call_that_requires_an_approval_beside_an_answer() {
    check(
        "pay finish(1)",
        EARLY,
        expect![[r#"
        executed: 
        user: Count.
        assistant: a pay{}; b finish{"sum":1}
        tool: a not executed, because the answer was given in the same reply
        tool: b the answer was received
    "#]],
    )
    .await;

    let log = Log::default();
    let model = ScriptedModel::new().reply(reply("finish(1) pay"));
    let agent = builder(&model, EXHAUSTIVE, &log).build().unwrap();
    let suspended = reloaded(agent.run("Count.").await.unwrap());
    let mut cancelled = Run::from_suspended(suspended.clone()).unwrap();
    cancelled.cancel();
    assert_eq!(cancelled.state(), RunState::Ended);
    assert_paired(cancelled.transcript());
    let denied = suspended.clone().resume([("b", Decision::denied("no"))]);
    for (input, executed) in [(denied, 0), (suspended.approve_all(), 1)] {
        let answer = agent.run(input).await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, log.lock().unwrap().len()), (r#"{"sum":1}"#, executed));
        assert_paired(&answer.transcript);
    }
}

/// The answer is used although a stop tool was called beside it, or a hand-off.
#[tokio::test]
async fn answer_precedes_a_stop_tool_and_a_handoff() {
    for (strategy, executed) in [(EARLY, 0), (EXHAUSTIVE, 1)] {
        let log = Log::default();
        let model = ScriptedModel::new().reply(reply("count finish(1)"));
        let agent = builder(&model, strategy, &log).stop_on(["count"]).build().unwrap();
        let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), (r#"{"sum":1}"#, StopReason::Finished));
        assert_eq!(log.lock().unwrap().len(), executed);

        let model = ScriptedModel::new().reply(reply("transfer_to_other finish(1)"));
        let agents = [
            ("first", builder(&model, strategy, &log).build().unwrap()),
            ("other", builder(&ScriptedModel::new(), strategy, &log).build().unwrap()),
        ];
        let table = RouteTable::new([Route::new("first", "Counts."), Route::new("other", "Counts, too.")]);
        let group = HandoffGroup::new(table, agents).unwrap();
        let answer = group.run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, answer.agent.as_deref()), (r#"{"sum":1}"#, Some("first")));
        assert_paired(&answer.transcript);
    }
}

/// A required call must be made before the answer. The answer beside it is not used.
#[tokio::test]
async fn required_call_is_made_before_the_answer() {
    let log = Log::default();
    let model = ScriptedModel::new().reply(reply("finish(3) count")).reply(reply("finish(1) fail"));
    let agent = builder(&model, EARLY, &log).tool_choice(ToolChoice::Required).build().unwrap();
    let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, &**log.lock().unwrap()), (r#"{"sum":1}"#, &["count"][..]));
    expect![[r#"
        user: Count.
        assistant: a finish{"sum":3}; b count{}
        tool: a Call a tool first: answer when you know what it returns.
        tool: b count
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));

    let model = ScriptedModel::new().reply(reply("finish(3) finish(4)")).reply(reply("count"));
    let model = model.reply(reply("finish(1)"));
    let agent = builder(&model, EARLY, &log).tool_choice(ToolChoice::Required).build().unwrap();
    agent.run("Count.").await.unwrap().into_answer().unwrap();
}

/// If calls are forbidden, the answer is used, and the calls beside it are not executed with either
/// strategy.
#[tokio::test]
async fn forbidden_calls_beside_an_answer_are_not_executed() {
    for strategy in [EARLY, EXHAUSTIVE] {
        let log = Log::default();
        let model = ScriptedModel::new().reply(reply("count finish(1)"));
        let agent = builder(&model, strategy, &log).tool_choice(ToolChoice::None).build().unwrap();
        let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, log.lock().unwrap().len()), (r#"{"sum":1}"#, 0));

        let model = ScriptedModel::new().reply_text("It is one.").reply(reply("count finish(1)"));
        let agent = builder(&model, strategy, &log).output_strategy(OutputStrategy::Extraction);
        let answer = agent.build().unwrap().run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, log.lock().unwrap().len()), (r#"{"sum":1}"#, 0));
        assert_paired(&answer.transcript);
    }
}

/// A limit of calls does not lose the answer. The answer to the final request after a limit has the
/// stop reason of the limit.
#[tokio::test]
async fn limits_do_not_lose_an_answer_beside_a_call() {
    let log = Log::default();
    let limits = RunLimits { tool_calls: Some(0), ..RunLimits::default() };
    let model = ScriptedModel::new().reply(reply("count finish(1)"));
    let agent = builder(&model, EXHAUSTIVE, &log).limits(limits).build().unwrap();
    let answer = agent.run("Count.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), (r#"{"sum":1}"#, StopReason::Finished));
    assert_eq!(answer.steps[0].result.model_text(), "not executed: the limit of 0 tool calls is reached");

    for strategy in [EARLY, EXHAUSTIVE] {
        let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
        let model = ScriptedModel::new().reply(reply("count")).reply(reply("finish(1) count"));
        let agent = builder(&model, strategy, &log).limits(limits).limit_action(LimitAction::Answer);
        let answer = agent.build().unwrap().run("Count.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), (r#"{"sum":1}"#, StopReason::LimitReached));
        assert_paired(&answer.transcript);
    }
    assert_eq!(log.lock().unwrap().len(), 2);
}

/// The conversation continues in the next turn, in each dialect. Step dialects also read native
/// calls, which some servers create from the text.
#[tokio::test]
async fn next_turn_continues_after_an_answer_beside_a_call() {
    let builders: [fn(ReactAgentBuilder) -> ReactAgentBuilder; 3] =
        [|it| it, |it| it.dialect(JsonReact::new()), |it| it.dialect(TextReact)];
    for with_dialect in builders {
        let log = Log::default();
        let model = ScriptedModel::new().reply(reply("finish(1) count")).reply(reply("finish(2)"));
        let agent = with_dialect(builder(&model, EARLY, &log)).build().unwrap();
        let first = agent.run("Count.").await.unwrap();
        let next = RunInput::new("Again.").with_history(first.transcript().unwrap());
        let answer = agent.run(next).await.unwrap().into_answer().unwrap();
        assert_eq!((&answer.outputs["sum"], log.lock().unwrap().len()), (&json!(2), 0));
        assert_paired(&answer.transcript);
        if model.requests()[1].messages.iter().any(|message| !message.tool_calls().is_empty()) {
            assert_request_paired(&model.requests()[1]);
        }
    }
}

/// The strategy is saved with the run.
#[test]
fn end_strategy_is_saved() {
    let config = RunConfig { end_strategy: EXHAUSTIVE, ..RunConfig::default() };
    let saved = serde_json::to_value(&config).unwrap();
    assert_eq!(saved["end_strategy"], "exhaustive");
    assert_eq!(serde_json::from_value::<RunConfig>(saved).unwrap(), config);
}
