//! Tests of runs that stop after their current step.

use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use haft_core::{
    Message, RunEvent, RunInput, RunOutput, Timestamp, Tool as _, ToolContext, ToolError, Toolset,
    agent::{AgentError, AgentErrorKind},
    call::{Decision, Pending, PendingKind, ToolResponse},
    tool::{DynamicTool, RunContext},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    HandoffGroup, Outcome, ReactAgent, RunHandle, Verdict,
    router::{Route, RouteTable},
    run::{Delivery, RunError},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::{SCRIPTS, Script, reloaded, run_or_stream},
    pairing::assert_paired,
    run_handles::attached_run,
    tools::{add_tool, calculator, pushing_tool, tool_without_parameters, with_call_counter},
};

/// Creates the tool `stop()`, which stops its run after the current step.
fn stop_tool() -> DynamicTool {
    let definition = tool_without_parameters("stop", || async {}).definition().clone();
    DynamicTool::new(definition, |_, cx: ToolContext| async move {
        cx.state::<RunHandle>()?.stop_after_step().map_err(ToolError::failed)?;
        Ok::<_, ToolError>("stopping")
    })
}

fn tools() -> Toolset {
    calculator().with_tool(stop_tool())
}

#[track_caller]
fn stopped(result: Result<RunOutput, AgentError>) -> AgentError {
    let error = result.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Stopped), "{error:?}");
    assert_paired(&error.transcript);
    error
}

/// All calls of the step are executed and recorded, then the run fails with a typed reason. The
/// next run continues from the transcript. This holds in all dialects.
#[tokio::test]
async fn run_stops_after_the_step_and_can_be_continued() {
    for (script, streamed) in SCRIPTS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let model = script.replies(&[("a", "stop", "{}")], "Done.");
        let agent = ReactAgent::new(model.clone(), tools()).unwrap();
        let handle = RunHandle::new();
        let error = stopped(run_or_stream(&agent, handle.bind("Stop."), streamed).await);
        assert_eq!((model.requests().len(), error.usage.requests), (1, 1), "{script:?}");
        assert_eq!(error.transcript.messages().last().unwrap().text(), "stopping");
        assert_eq!(handle.stop_after_step(), Err(RunError::Ended));
        let input = RunInput::new("Go on.").with_history(error.transcript);
        assert_eq!(run_or_stream(&agent, input, streamed).await.unwrap().text().unwrap(), "Done.");
    }
}

/// The other calls of the same reply, and the calls that they push, also run.
#[tokio::test]
async fn all_calls_of_the_step_run() {
    let push = pushing_tool("push", |calls| calls.push_call("add", json!({"x": 2, "y": 2})));
    let (add, count) = with_call_counter(&add_tool());
    let model = ScriptedModel::new().reply_calls([
        ("a", "stop", "{}"),
        ("b", "add", r#"{"x":1,"y":1}"#),
        ("c", "push", "{}"),
    ]);
    let tools = Toolset::new().with_tool(add).with_tool(stop_tool()).with_tool(push);
    let agent = ReactAgent::new(model, tools).unwrap();
    let error = stopped(agent.run(RunHandle::new().bind("Stop.")).await);
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(error.transcript.messages().last().unwrap().text(), "4");
}

/// A run that has its answer after the step returns it. A follow-up message is not delivered.
#[tokio::test]
async fn answer_of_the_step_is_returned() {
    let handle = RunHandle::new();
    let stopping = handle.clone();
    let agent = ReactAgent::builder(ScriptedModel::new().reply_text("Hello."))
        .output_validator(move |_, _| {
            stopping.stop_after_step().unwrap();
            async { Ok(Verdict::Pass) }
        })
        .build()
        .unwrap();
    handle.enqueue("And then?", Delivery::Idle).unwrap();
    assert_eq!(agent.run(handle.bind("Hi.")).await.unwrap().text().unwrap(), "Hello.");
    assert_eq!(handle.undelivered_messages().len(), 1);
}

/// Enqueued messages are not delivered, and the handle returns them.
#[tokio::test]
async fn enqueued_messages_are_returned() {
    for when in [Delivery::NextRequest, Delivery::Idle] {
        let model = Script::Native.call(ScriptedModel::new(), ("a", "stop", "{}"));
        let agent = ReactAgent::new(model, tools()).unwrap();
        let handle = RunHandle::new();
        let mut events = agent.stream(handle.bind("Stop."));
        while let Some(event) = events.next().await {
            if let Ok(RunEvent::CallStarted { .. }) = event {
                handle.enqueue("And then?", when).unwrap();
            }
        }
        let texts: Vec<_> = handle.undelivered_messages().iter().map(Message::text).collect();
        assert_eq!(texts, ["And then?"], "{when:?}");
    }
}

/// A run that has not started yet stops before its first request.
#[tokio::test]
async fn run_stops_before_its_first_request() {
    let agent = ReactAgent::new(ScriptedModel::new(), tools()).unwrap();
    let handle = RunHandle::new();
    handle.stop_after_step().unwrap();
    let error = stopped(agent.run(handle.bind("Hi.")).await);
    assert_eq!(error.transcript.len(), 1);
}

/// A rejected answer needs another request, so the run stops.
#[tokio::test]
async fn rejected_answer_is_not_repeated() {
    let handle = RunHandle::new();
    let stopping = handle.clone();
    let agent = ReactAgent::builder(ScriptedModel::new().reply_text("No."))
        .output_validator(move |_, _| {
            stopping.stop_after_step().unwrap();
            async { Ok(Verdict::retry("say yes")) }
        })
        .build()
        .unwrap();
    stopped(agent.run(handle.bind("Hi.")).await);
}

/// A run whose calls wait for decisions is suspended. Its resumption is a new request to run.
#[tokio::test]
async fn suspended_run_continues_after_its_resumption() {
    let ask = tool_without_parameters("ask", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let model =
        ScriptedModel::new().reply_calls([("a", "stop", "{}"), ("b", "ask", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, tools().with_tool(ask)).unwrap();
    let suspended = reloaded(agent.run(RunHandle::new().bind("Stop.")).await.unwrap());
    let output = agent.run(suspended.resume([("b", Decision::output("yes"))])).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

/// The owner of a run can drive it again after the stop.
#[tokio::test]
async fn stopped_run_can_be_driven_again() {
    let model = Script::Native.replies(&[("a", "stop", "{}")], "Done.");
    let agent = ReactAgent::new(model, tools()).unwrap();
    let input = RunHandle::new().bind("Stop.");
    let context = input.context.clone();
    let mut run = agent.create_run(input).unwrap();
    let last = agent.drive(&mut run, context).collect::<Vec<_>>().await.pop().unwrap();
    assert!(matches!(*last.unwrap_err().kind, AgentErrorKind::Stopped));
    let mut run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let last = agent.drive(&mut run, RunContext::default()).collect::<Vec<_>>().await.pop().unwrap();
    let Ok(RunEvent::Done { output }) = last else { panic!("{last:?}") };
    assert_eq!(output.text().unwrap(), "Done.");
}

/// A hook of a request can stop the run before this request: the handle is not locked there.
#[tokio::test]
async fn history_processor_can_stop_the_run() {
    let handle = RunHandle::new();
    let stopping = handle.clone();
    let agent = ReactAgent::builder(ScriptedModel::new())
        .history_processor(move |view, _| {
            stopping.stop_after_step()?;
            Ok(view)
        })
        .build()
        .unwrap();
    let error = stopped(agent.run(handle.bind("Add.")).await);
    assert_eq!(error.transcript.messages().last().unwrap().text(), "Add.");
}

/// With a driver of its own, the run continues after the error.
#[tokio::test]
async fn error_withdraws_the_request_to_stop() {
    let handle = RunHandle::new();
    let agent = ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let (scope, mut run) = attached_run(&handle);
    handle.stop_after_step().unwrap();
    let effect = run.next(Timestamp::default()).unwrap();
    let outcomes: Vec<_> = agent.perform(&run, effect, &scope).collect().await;
    assert!(matches!(outcomes[..], [Err(AgentErrorKind::Stopped)]), "{outcomes:?}");
    let effect = run.next(Timestamp::default()).unwrap();
    let outcomes: Vec<_> = agent.perform(&run, effect, &scope).collect().await;
    assert!(matches!(outcomes[..], [Ok(Outcome::Prepared(_))]), "{outcomes:?}");
}

/// A child agent in the step runs to its end. The handle belongs to the parent.
#[tokio::test]
async fn child_agent_of_the_step_runs_to_its_end() {
    let child = Script::Native.replies(&[("1", "add", r#"{"x":1,"y":1}"#)], "It is 2.");
    let child = ReactAgent::new(child, calculator()).unwrap().into_tool("helper", "Adds.");
    let model =
        ScriptedModel::new().reply_calls([("a", "stop", "{}"), ("b", "helper", r#"{"task":"1 + 1?"}"#)]);
    let agent = ReactAgent::new(model, tools().with_tool(child)).unwrap();
    let error = stopped(agent.run(RunHandle::new().bind("Stop.")).await);
    assert_eq!(error.transcript.messages().last().unwrap().text(), "It is 2.");
}

/// A hand-off of the step is completed, so the next run starts with the next agent.
#[tokio::test]
async fn handoff_of_the_step_is_completed() {
    let model = ScriptedModel::new().reply_calls([("a", "stop", "{}"), ("b", "transfer_to_kitchen", "{}")]);
    let reception = ReactAgent::new(model, tools()).unwrap();
    let kitchen = ReactAgent::new(ScriptedModel::new().reply_text("Soup."), Toolset::new()).unwrap();
    let table = RouteTable::new([Route::new("reception", "Greets."), Route::new("kitchen", "Cooks.")]);
    let group = HandoffGroup::new(table, [("reception", reception), ("kitchen", kitchen)]).unwrap();
    let error = stopped(group.run(RunHandle::new().bind("Soup!")).await);
    let input = RunInput::new("Go on.").with_history(error.transcript);
    let answer = group.run(input).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.agent.as_deref(), Some("kitchen"));
}
