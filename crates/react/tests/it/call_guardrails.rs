//! Tests of the order of guardrails over calls and results, and of other parts of a run: limits,
//! approvals, repair hooks, failures and hand-offs.

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    Pipeline, RunEvent, RunInput, RunOutput, Schema, ToolContext, ToolDefinition, ToolExt as _, ToolName,
    ToolOutput, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, SuspendedRun},
    call::{Decision, FailureKind},
    export::async_trait,
    pipeline::{InvalidCall, RepairHook},
    schema::RepairKind,
    tool::{DynamicTool, OnCancel, RunContext, ToolPolicy, Touch, TouchFn},
};
use haft_react::{Guardrail, LimitAction, OutputStrategy, ReactAgent, Verdict};
use haft_testing::ScriptedModel;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters, with_call_counter},
};

const ADD: (&str, &str, &str) = ("a", "add", r#"{"x":1,"y":1}"#);

/// The arguments that a guardrail has checked.
type Seen = Arc<Mutex<Vec<String>>>;

/// Creates a guardrail that passes all calls and records their arguments.
fn recording(seen: &Seen) -> Guardrail {
    let seen = Arc::clone(seen);
    Guardrail::call("record", move |call, _| {
        seen.lock().unwrap().push(call.arguments.to_string());
        ready(Ok(Verdict::Pass))
    })
}

fn slow_guardrail(duration: Duration) -> Guardrail {
    Guardrail::call("slow", move |_, _| async move {
        sleep(duration).await;
        Ok(Verdict::Pass)
    })
}

fn with_time_limit(time: Duration) -> RunLimits {
    RunLimits { time: Some(time), ..RunLimits::default() }
}

/// The time limit applies to a slow call guardrail. The calls have not started, and the model can
/// still answer.
#[tokio::test(start_paused = true)]
async fn time_limit_ends_a_slow_call_guardrail() {
    for (action, fails_open) in [(LimitAction::Fail, false), (LimitAction::Answer, true)] {
        let (add, ran) = with_call_counter(&add_tool());
        let mut model = ScriptedModel::new().reply_calls([ADD]);
        if action == LimitAction::Answer {
            model = model.reply_text("Too slow.");
        }
        let guardrail = slow_guardrail(Duration::from_secs(3));
        let agent = ReactAgent::builder(model)
            .tools(Toolset::new().with_tool(add))
            .guardrail(if fails_open { guardrail.fail_open() } else { guardrail })
            .limits(with_time_limit(Duration::from_secs(1)))
            .limit_action(action);
        let transcript = match agent.build().unwrap().run("Add.").await {
            Ok(output) => output.into_answer().unwrap().transcript,
            Err(error) => {
                assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Time(_))), "{error:?}");
                error.transcript
            }
        };
        assert_paired(&transcript);
        let text = transcript.messages()[2].text();
        assert!(text.contains("not run"), "{text}");
        assert_eq!(ran.load(Ordering::Relaxed), 0);
    }
}

/// A call ends in its grace period after the time limit. The result guardrail still checks its
/// result.
#[tokio::test(start_paused = true)]
async fn result_within_the_grace_period_is_checked() {
    for fails_open in [false, true] {
        let definition = ToolDefinition::new(ToolName::new("tidy").unwrap(), Schema::object())
            .map_policy(|policy| policy.with_on_cancel(OnCancel::Grace));
        let tidy = DynamicTool::new(definition, |_, cx: ToolContext| async move {
            cx.cancellation().cancelled().await;
            "half a secret"
        });
        let guardrail = Guardrail::result("secrets", |_, _| async {
            sleep(Duration::from_millis(1)).await;
            Ok(Verdict::Replace(ToolOutput::from("redacted")))
        });
        let model = ScriptedModel::new().reply_calls([("a", "tidy", "{}")]).reply_text("Done.");
        let agent = ReactAgent::builder(model.clone())
            .tools(Toolset::new().with_tool(tidy))
            .guardrail(if fails_open { guardrail.fail_open() } else { guardrail })
            .limits(with_time_limit(Duration::from_secs(1)))
            .limit_action(LimitAction::Answer);
        agent.build().unwrap().run("Go.").await.unwrap();
        let lines = message_lines(&model.requests()[1]);
        assert!(lines.contains("tool: a redacted\n"), "{lines}");
    }
}

#[tokio::test]
async fn cancelled_guardrail_does_not_fail_open() {
    let token = CancellationToken::new();
    let cancel = token.clone();
    let guardrail = Guardrail::call("cancels", move |_, _| {
        cancel.cancel();
        std::future::pending()
    });
    let (add, ran) = with_call_counter(&add_tool());
    let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([ADD]))
        .tools(Toolset::new().with_tool(add))
        .guardrail(guardrail.fail_open())
        .build()
        .unwrap();
    let context = RunContext { cancellation: token, ..RunContext::default() };
    let mut run = agent.create_run("Add.".into()).unwrap();
    let error = agent.drive(&mut run, context).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    let reports = serde_json::to_value(&run).unwrap()["head"]["guardrails"].clone();
    assert_eq!((reports, ran.load(Ordering::Relaxed)), (Value::Null, 0));
}

/// After a failed guardrail, no call has started. If the run is continued, the calls are checked
/// again and executed.
#[tokio::test]
async fn calls_run_after_a_failed_guardrail_if_the_run_is_continued() {
    let checks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&checks);
    let guardrail = Guardrail::call("flaky", move |_, _| {
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        ready(if is_first { Err("the server is down".into()) } else { Ok(Verdict::Pass) })
    });
    let (add, ran) = with_call_counter(&add_tool());
    let model = ScriptedModel::new().reply_calls([ADD]).reply_text("Done.");
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(add))
        .guardrail(guardrail)
        .build()
        .unwrap();
    let mut run = agent.create_run("Add.".into()).unwrap();
    let error = agent.drive(&mut run, Default::default()).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::HookFailed { hook: "call hook", .. }), "{error:?}");
    assert!(run.interrupted_calls().is_empty());
    let mut run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    agent.drive(&mut run, Default::default()).try_collect::<Vec<_>>().await.unwrap();
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}
        tool: a 2
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
    assert_eq!((checks.load(Ordering::Relaxed), ran.load(Ordering::Relaxed)), (2, 1));
}

/// A postponed call is checked once. Its rewritten arguments are not rewritten again.
#[tokio::test]
async fn postponed_call_is_checked_once() {
    let path_schema = json!({"properties": {"path": {"type": "string"}}, "required": ["path"]});
    let touches = || Some(TouchFn::new(|_| vec![Touch::write("account")]));
    let definition =
        ToolDefinition::new(ToolName::new("write").unwrap(), Schema::for_arguments(path_schema).unwrap());
    let write = DynamicTool::new(definition, |arguments, _| async move { arguments["path"].to_string() });
    let pay = tool_without_parameters("pay", || async { "paid" });
    let policy =
        |requires_approval| ToolPolicy { requires_approval, touches: touches(), ..ToolPolicy::default() };
    let tools = Toolset::new()
        .with_tool(pay.with_definition(|it| it.with_policy(policy(true))))
        .with_tool(write.with_definition(|it| it.with_policy(policy(false))));
    let guardrail = Guardrail::call("safe", |call, _| {
        let path = format!("/safe/{}", call.arguments["path"].as_str().unwrap());
        ready(Ok(Verdict::Replace(json!({"path": path}))))
    });
    let model = ScriptedModel::new()
        .reply_calls([("a", "pay", "{}"), ("b", "write", r#"{"path":"a"}"#)])
        .reply_text("Done.");
    let agent =
        ReactAgent::builder(model).tools(tools).guardrail(guardrail.for_tools(["write"])).build().unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Go.").await.unwrap() else { panic!() };
    let saved: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let answer = agent.run(saved.resume([("a", Decision::approved())])).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.steps[1].result.model_text(), r#""/safe/a""#);
    assert_eq!(answer.guardrails.len(), 1);
}

/// A repair hook that returns these arguments, one per call.
struct Repairs(Mutex<Vec<Option<Value>>>);

#[async_trait]
impl RepairHook for Repairs {
    async fn repair(&self, _: &InvalidCall<'_>) -> Option<Value> {
        self.0.lock().unwrap().pop().flatten()
    }
}

/// A repair hook runs before the call guardrails, so they check its arguments. A call that it
/// cannot repair does not run.
#[tokio::test]
async fn repaired_arguments_are_checked() {
    let run = |repairs: Vec<Option<Value>>, blocks: bool| async move {
        let (add, ran) = with_call_counter(&add_tool());
        let seen = Seen::default();
        let block = Guardrail::call("block", |_, _| ready(Ok(Verdict::block("No."))));
        let model = ScriptedModel::new().reply_calls([("a", "add", "one and one")]).reply_text("Done.");
        let pipeline = Pipeline::new().with_repair_hook(Repairs(Mutex::new(repairs)));
        let agent = ReactAgent::builder(model)
            .tools(Toolset::new().with_tool(add).with_pipeline(pipeline))
            .guardrail(if blocks { block } else { recording(&seen) });
        let answer = agent.build().unwrap().run("Add.").await.unwrap().into_answer().unwrap();
        let result = Arc::clone(&answer.steps[0].result);
        (result, seen.lock().unwrap().clone(), ran.load(Ordering::Relaxed))
    };
    let ones = || Some(json!({"x": 1, "y": 1}));
    let (result, _, ran) = run(vec![ones(), ones()], true).await;
    assert_eq!((result.failure().unwrap().kind, ran), (FailureKind::Denied, 0));

    let (result, seen, ran) = run(vec![ones()], false).await;
    assert_eq!((&*result.model_text(), seen, ran), ("2", vec![r#"{"x":1,"y":1}"#.to_owned()], 1));
    assert_eq!(result.repairs[0].kind, RepairKind::Replaced);

    // The second value would be valid.
    let (result, seen, ran) = run(vec![ones(), None], false).await;
    assert_eq!((result.failure().unwrap().kind, seen.len(), ran), (FailureKind::InvalidArguments, 0, 0));
}

/// A blocked call does not count towards the maximum number of calls, and a call beyond the maximum
/// is not checked.
#[tokio::test]
async fn calls_beyond_the_maximum_are_not_checked() {
    let calls = [ADD, ("b", "add", r#"{"x":2,"y":2}"#), ("c", "add", r#"{"x":3,"y":3}"#)];
    let guardrail = Guardrail::call("small", |call, _| {
        ready(Ok(match call.arguments["x"].as_i64() {
            Some(1) => Verdict::block("Too small."),
            Some(2) => Verdict::Pass,
            _ => Verdict::end("ended"),
        }))
    });
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Done.");
    let add = add_tool().map_policy(|policy| policy.with_max_calls(1));
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(add))
        .guardrail(guardrail)
        .build()
        .unwrap();
    let events: Vec<_> = agent.stream("Add.").try_collect().await.unwrap();
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}; b add{"x":2,"y":2}; c add{"x":3,"y":3}
        tool: a denied: Too small.
        tool: b 4
        tool: c denied: at most 1 call of this tool per run, and none is left: go on with what you have
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
    let started = events.iter().filter(|event| matches!(event, RunEvent::CallStarted { .. })).count();
    assert_eq!(started, 3);
}

/// With the strategy `Extraction`, a step has no answer. A result guardrail that rewrites the
/// failure of a call to `finish` does not make its arguments the answer.
#[tokio::test]
async fn rewritten_failure_of_finish_is_no_answer() {
    let guardrail = Guardrail::result("calm", |_, _| ready(Ok(Verdict::Replace(ToolOutput::from("fine")))));
    let model = ScriptedModel::new()
        .reply_calls([("a", "finish", r#"{"sum":1}"#)])
        .reply_text("It is 2.")
        .reply_text(r#"{"sum":2}"#);
    let schema =
        Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap();
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .outputs(schema)
        .output_strategy(OutputStrategy::Extraction)
        .guardrail(guardrail)
        .build()
        .unwrap();
    let answer = agent.run(RunInput::new("Add.")).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["sum"], json!(2));
}
