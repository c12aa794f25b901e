//! Tests of the hook that decides after the calls of a reply whether the run continues.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, Schema, ToolCall, ToolResult, Toolset,
    agent::{AgentErrorKind, AgentStep, RunLimits, StopReason},
    call::{BoxError, Decision, Pending, PendingKind, ToolResponse},
    export::schemars::{self, JsonSchema},
    message::AssistantMessage,
    model::ChatResponse,
    tool::RunContext,
};
use haft_react::{
    Effect, Extension, HandoffGroup, Output, ReactAgent, Run, RunConfig, Verdict,
    router::{Route, RouteTable},
    run::{Check, CheckVerdict, Checks, RunState},
};
use haft_testing::ScriptedModel;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    dialect_scripts::{SCRIPTS, reloaded, run_or_stream},
    effects::{advance, finish, judge, reply},
    pairing::assert_paired,
    tools::{add_tool, calculator, failing_tool, pushing_tool, tool_without_parameters},
};

const ADD: (&str, &str, &str) = ("a", "add", r#"{"x":1,"y":1}"#);

/// Ends the run with the results of `calls`, if one of them succeeded.
fn stop(calls: &[AgentStep]) -> Verdict<Output> {
    Output::of_results(calls).map_or(Verdict::Pass, Verdict::Replace)
}

fn answer(text: impl Into<String>) -> Verdict<Output> {
    Verdict::Replace(Output::new(text))
}

fn answer_with(value: impl Into<Value>) -> Verdict<Output> {
    Verdict::Replace(Output::structured(value))
}

/// Creates an agent with a review that returns `review(calls)`.
fn agent(
    model: ScriptedModel,
    tools: Toolset,
    review: impl Fn(&[AgentStep]) -> Verdict<Output> + Send + Sync + 'static,
) -> ReactAgent {
    let hook = move |calls: Arc<[AgentStep]>, _| {
        let review = review(&calls);
        async move { Ok(review) }
    };
    ReactAgent::builder(model).tools(tools).after_calls(hook).build().unwrap()
}

fn steps_of(calls: &[AgentStep]) -> Vec<String> {
    let line = |it: &AgentStep| {
        format!("{} {}{} {}", it.step_number, it.tool_name, it.tool_args, it.result.model_text())
    };
    calls.iter().map(line).collect()
}

#[tokio::test]
async fn review_ends_the_run_with_the_results() {
    for (script, streamed) in SCRIPTS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let agent = agent(script.call(script.model(), ADD), calculator(), stop);
        let answer = run_or_stream(&agent, "1 + 1?", streamed).await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), ("2", StopReason::Tool), "{script:?}");
        assert_paired(&answer.transcript);
    }
}

/// A review ends the run with another answer, as text or as a value.
#[tokio::test]
async fn review_ends_the_run_with_another_answer() {
    for script in SCRIPTS {
        let text = agent(script.call(script.model(), ADD), calculator(), |calls| {
            answer(format!("It is {}.", calls[0].result.model_text()))
        });
        assert_eq!(text.run("1 + 1?").await.unwrap().text().unwrap(), "It is 2.", "{script:?}");
        let value = agent(script.call(script.model(), ADD), calculator(), |_| answer_with(json!({"sum": 2})));
        let answer = value.run("1 + 1?").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, &answer.outputs["sum"]), (r#"{"sum":2}"#, &json!(2)), "{script:?}");
    }
}

/// The hook receives each reply with its calls and results in call order, also the failed ones. A
/// run continues after `Continue`.
#[tokio::test]
async fn hook_receives_all_calls_of_a_reply() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let model = ScriptedModel::new()
        .reply_calls([("a", "fail", "{}"), ("b", "add", r#"{"x":1,"y":2}"#), ("c", "none", "{}")])
        .reply_calls([("d", "add", r#"{"x":3,"y":4}"#)])
        .reply_text("Done.");
    let agent = agent(model, calculator().with_tool(failing_tool()), move |calls| {
        record.lock().unwrap().push(steps_of(calls));
        Verdict::Pass
    });
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "Done.");
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].len(), 3);
    assert!(seen[0][0] == "1 fail{} no luck" && seen[0][2].starts_with("1 none{} unknown"), "{seen:?}");
    assert_eq!(
        (&*seen[0][1], &*seen[1]),
        ("1 add{\"x\":1,\"y\":2} 3", &["2 add{\"x\":3,\"y\":4} 7".to_owned()][..])
    );
}

/// Several successful results are joined. The run continues if no call succeeded.
#[tokio::test]
async fn stop_uses_the_successful_results() {
    let model = ScriptedModel::new().reply_calls([("a", "fail", "{}")]).reply_calls([
        ("b", "add", r#"{"x":1,"y":2}"#),
        ("c", "fail", "{}"),
        ("d", "add", r#"{"x":3,"y":4}"#),
    ]);
    let agent = agent(model, calculator().with_tool(failing_tool()), stop);
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("3\n\n7", 4));
}

/// A successful stop tool ends the run, and its calls are not reviewed.
#[tokio::test]
async fn stop_tool_has_priority() {
    let model = ScriptedModel::new().reply_calls([ADD]);
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .stop_on(["add"])
        .after_calls(|_, _| async { Ok(answer("no")) })
        .build()
        .unwrap();
    assert_eq!(agent.run("1 + 1?").await.unwrap().text().unwrap(), "2");
}

/// An answer of the hook is validated. After a rejection, the model answers again.
#[tokio::test]
async fn answer_of_a_review_is_validated() {
    let model = ScriptedModel::new().reply_calls([ADD]).reply_text("It is two.");
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .after_calls(|calls, _| async move { Ok(stop(&calls)) })
        .output_validator(|output, _| async move {
            Ok(if output.text == "2" { Verdict::retry("write words") } else { Verdict::Pass })
        })
        .build()
        .unwrap();
    let answer = agent.run("1 + 1?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("It is two.", StopReason::Finished));
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Sum {
    sum: i64,
}

/// A value of the hook must fit the declared outputs. The run is not lost.
#[tokio::test]
async fn value_of_a_review_fits_the_declared_outputs() {
    for (value, fits) in [(json!(2), true), (json!("two"), false)] {
        let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([ADD]))
            .tools(calculator())
            .output::<Sum>()
            .after_calls(move |_, _| {
                let outputs = json!({"sum": value});
                async move { Ok(answer_with(outputs)) }
            })
            .build()
            .unwrap();
        let result = agent.run("1 + 1?").await;
        if fits {
            assert_eq!(result.unwrap().into_answer().unwrap().outputs["sum"], 2);
        } else {
            let error = result.unwrap_err();
            assert!(matches!(*error.kind, AgentErrorKind::HookFailed { hook: "results hook", .. }));
            assert_paired(&error.transcript);
        }
    }
}

type Review = fn(&[AgentStep]) -> Verdict<Output>;

/// The same holds for outputs that are not objects. The result of a single call is the value.
#[tokio::test]
async fn value_of_a_review_can_have_any_type() {
    let reviews: [(Review, _); 3] =
        [(stop, Some(json!(2))), (|_| answer_with(3), Some(json!(3))), (|_| answer_with("three"), None)];
    for (review, expected) in reviews {
        let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([ADD]))
            .tools(calculator())
            .output::<i64>()
            .after_calls(move |calls, _| async move { Ok(review(&calls)) })
            .build()
            .unwrap();
        let value = agent.run("1 + 1?").await.ok().and_then(|it| it.into_answer().unwrap().value);
        assert_eq!(value, expected);
    }
}

/// An error, a panic or a timeout of the hook is a typed error. The owner of the run can drive it
/// again, and the hook receives the same calls.
#[tokio::test(start_paused = true)]
async fn failed_review_is_a_typed_error() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([ADD]))
        .tools(calculator())
        .hook_timeout(Duration::from_secs(1))
        .after_calls(move |calls, _| {
            let attempt = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match attempt {
                    0 => Err(BoxError::from("broken")),
                    1 => panic!("with a secret"),
                    2 => {
                        sleep(Duration::from_secs(5)).await;
                        Ok(Verdict::Pass)
                    }
                    _ => Ok(stop(&calls)),
                }
            }
        })
        .build()
        .unwrap();
    let mut run = agent.create_run("1 + 1?".into()).unwrap();
    for _ in 0..3 {
        let last = agent.drive(&mut run, RunContext::default()).collect::<Vec<_>>().await.pop().unwrap();
        let error = last.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::HookFailed { hook: "results hook", .. }), "{error:?}");
        run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(run.state(), RunState::Checking);
    }
    let last = agent.drive(&mut run, RunContext::default()).collect::<Vec<_>>().await.pop().unwrap();
    let Ok(RunEvent::Done { output }) = last else { panic!("{last:?}") };
    assert_eq!((output.text().unwrap(), count.load(Ordering::Relaxed)), ("2", 4));
}

#[tokio::test]
async fn suspended_call_is_reviewed_after_its_resumption() {
    let ask = tool_without_parameters("ask", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let model = ScriptedModel::new().reply_calls([ADD, ("b", "ask", "{}")]);
    let agent = agent(model, calculator().with_tool(ask), move |calls| {
        counted.fetch_add(calls.len(), Ordering::Relaxed);
        stop(calls)
    });
    let suspended = reloaded(agent.run("Ask.").await.unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let output = agent.run(suspended.resume([("b", Decision::output("yes"))])).await.unwrap();
    assert_eq!((output.text().unwrap(), count.load(Ordering::Relaxed)), ("2\n\nyes", 2));
}

/// Calls that were closed by a limit are not reviewed. A review can answer when no further request
/// is allowed.
#[tokio::test]
async fn review_and_limits() {
    let limited = |limits| RunInput::new("1 + 1?").with_limits(limits);
    let no_calls = RunLimits { tool_calls: Some(0), ..RunLimits::default() };
    let model = || ScriptedModel::new().reply_calls([ADD]);
    let error = agent(model(), calculator(), stop).run(limited(no_calls)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(_)), "{error:?}");
    let one_request = RunLimits { requests: Some(1), ..RunLimits::default() };
    let output = agent(model(), calculator(), stop).run(limited(one_request)).await.unwrap();
    assert_eq!(output.text().unwrap(), "2");
}

/// Pushed calls run before the review, which receives their results in place of the placeholders.
#[tokio::test]
async fn pushed_calls_run_before_the_review() {
    let push = pushing_tool("push", |calls| calls.push_call("add", json!({"x": 2, "y": 3})));
    let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([("a", "push", "{}")]))
        .tools(Toolset::new().with_tool(add_tool()).with_tool(push))
        .after_calls(|calls, _| async move {
            assert_eq!(calls[0].result.model_text(), "5");
            Ok(stop(&calls))
        })
        .build()
        .unwrap();
    assert_eq!(agent.run("Push.").await.unwrap().text().unwrap(), "5");
}

/// A hand-off is not reviewed.
#[tokio::test]
async fn handoff_is_not_reviewed() {
    let model = ScriptedModel::new().reply_calls([("b", "transfer_to_kitchen", "{}")]);
    let reception = agent(model, Toolset::new(), stop);
    let kitchen = ReactAgent::new(ScriptedModel::new().reply_text("Soup."), Toolset::new()).unwrap();
    let table = RouteTable::new([Route::new("reception", "Greets."), Route::new("kitchen", "Cooks.")]);
    let group = HandoffGroup::new(table, [("reception", reception), ("kitchen", kitchen)]).unwrap();
    assert_eq!(group.run("Soup!").await.unwrap().text().unwrap(), "Soup.");
}

/// The first review that ends the run decides. The hook of the builder comes first.
#[tokio::test]
async fn first_review_that_ends_the_run_decides() {
    let review = |name: &'static str, review: Verdict<Output>| {
        Extension::new(name).after_calls(move |_, _| {
            let review = review.clone();
            async move { Ok(review) }
        })
    };
    let agent = ReactAgent::builder(ScriptedModel::new().reply_calls([ADD]))
        .tools(calculator())
        .extension(review("first", Verdict::Pass))
        .extension(review("second", answer("second")))
        .extension(review("third", answer("third")))
        .build()
        .unwrap();
    assert_eq!(agent.run("1 + 1?").await.unwrap().text().unwrap(), "second");
}

/// A failed call to `finish` is not a call of a tool, so the hook does not receive it.
#[tokio::test]
async fn failed_answer_is_not_reviewed() {
    let model = ScriptedModel::new().reply_calls([("f", "finish", "{}"), ADD]).reply_calls([(
        "g",
        "finish",
        r#"{"sum":2}"#,
    )]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reviewed = Arc::clone(&seen);
    let schema = Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]}));
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .outputs(schema.unwrap())
        .after_calls(move |calls, _| {
            reviewed.lock().unwrap().extend(steps_of(&calls));
            async { Ok(Verdict::Pass) }
        })
        .build()
        .unwrap();
    let answer = agent.run("1 + 1?").await.unwrap().into_answer().unwrap();
    assert_eq!(steps_of(&answer.steps), [r#"1 add{"x":1,"y":1} 2"#]);
    assert_eq!(*seen.lock().unwrap(), steps_of(&answer.steps));
}

/// A driver of its own reports the verdict. The effect is returned again until then, also after a
/// save.
#[test]
fn effect_is_returned_until_the_review_is_reported() {
    let checks = Checks { results: true, ..Checks::default() };
    let config = RunConfig { checks, ..RunConfig::default() };
    let mut run = Run::new(&config, "1 + 1?".into()).unwrap();
    assert!(judge(&mut run, CheckVerdict::Results(Verdict::Pass.into())).is_err());
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let call = ToolCall::new("a", "add", "{}");
    let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    reply(&mut run, ChatResponse::new(message)).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Call(_)));
    finish(&mut run, "a", ToolResult::done("a", "add", "2".into())).unwrap();
    let mut reviewed = None;
    for _ in 0..2 {
        let Effect::Check(Check::Results(calls)) = advance(&mut run).unwrap() else { panic!("{run:?}") };
        assert_eq!(steps_of(&calls), ["1 add{} 2"]);
        run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        reviewed = Some(calls);
    }
    judge(&mut run, CheckVerdict::Results(stop(&reviewed.unwrap()).into())).unwrap();
    let Effect::Done(answer) = advance(&mut run).unwrap() else { panic!("{run:?}") };
    assert_eq!(answer.text, "2");
}
