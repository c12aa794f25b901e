//! Tests of the time from which a [`RunHandle`] is closed, and of its undelivered messages.

use futures::StreamExt as _;
use haft_core::{
    Message, RunInput, Schema, ToolCall, Toolset,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions, Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    model::{ChatResponse, ModelError},
    tool::RunContext,
};
use haft_react::{
    Effect, HandoffGroup, Outcome, ReactAgent, Router, Run, RunConfig, RunHandle, RunScope,
    router::{Route, RouteTable},
    run::{Delivery, Prepared, RunError},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::effects::{apply, reply, suspend};

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), Toolset::new()).unwrap()
}

fn undelivered(handle: &RunHandle) -> Vec<String> {
    handle.undelivered_messages().iter().map(Message::text).collect()
}

#[track_caller]
fn assert_closed(handle: &RunHandle) {
    assert_eq!(handle.enqueue("Too late.", Delivery::Idle), Err(RunError::Ended));
}

/// Creates a run and its scope with `handle`.
pub(crate) fn attached_run(handle: &RunHandle) -> (RunScope, Run) {
    let input = handle.bind("Go.");
    let context = input.context.clone();
    let mut run = Run::new(&RunConfig::default(), input).unwrap();
    (RunScope::new(&mut run, context), run)
}

/// A driver may report a decision itself and continue the run. The handle then still delivers its
/// messages.
#[test]
fn handle_stays_open_while_a_driver_decides() {
    let handle = RunHandle::new();
    let (scope, mut run) = attached_run(&handle);
    assert!(matches!(scope.next(&mut run).unwrap(), Effect::Prepare));
    apply(&mut run, Outcome::Prepared(Prepared::default())).unwrap();
    assert!(matches!(scope.next(&mut run).unwrap(), Effect::Chat));
    let call = ToolCall::new("a", "look", json!({}).to_string());
    let message = AssistantMessage { tool_calls: vec![call.clone()], ..AssistantMessage::default() };
    reply(&mut run, ChatResponse::new(message)).unwrap();
    assert!(matches!(scope.next(&mut run).unwrap(), Effect::Call(_)));
    suspend(&mut run, PendingCall { call, pending: Pending::new(PendingKind::External) }).unwrap();
    assert!(matches!(scope.next(&mut run).unwrap(), Effect::Wait(_)));

    apply(&mut run, Outcome::Decided { id: "a".to_owned(), decision: Decision::output("given") }).unwrap();
    handle.enqueue("Hurry.", Delivery::NextRequest).unwrap();
    while !matches!(scope.next(&mut run).unwrap(), Effect::Call(_)) {}
    assert_eq!(run.undelivered_messages().count(), 1);
    scope.close(&mut run);
    assert_closed(&handle);
}

/// The caller of `drive` can continue a failed run, so the run keeps its messages and delivers them
/// later. The handle must not list them, or the caller would send them twice.
#[tokio::test]
async fn failed_run_of_the_caller_keeps_its_messages() {
    let model = ScriptedModel::new().fail(ModelError::failed("boom")).reply_text("A.").reply_text("B.");
    let handle = RunHandle::new();
    handle.enqueue("Later.", Delivery::Idle).unwrap();
    let input = handle.bind("Go.");
    let (agent, context) = (agent(&model), input.context.clone());
    let mut run = agent.create_run(input).unwrap();
    let events: Vec<_> = agent.drive(&mut run, context).collect().await;
    assert!(events.last().unwrap().is_err());
    assert_eq!(undelivered(&handle), [""; 0]);
    assert_eq!(run.undelivered_messages().count(), 1);

    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(events.last().unwrap().is_ok());
    let texts: Vec<_> = run.transcript().messages().iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Go.", "A.", "Later.", "B."]);
    assert_eq!(undelivered(&handle), [""; 0]);
}

/// A failed run that the agent owns is dropped, so its messages return to the handle.
#[tokio::test]
async fn failed_run_of_the_agent_returns_its_messages() {
    let failing = ScriptedModel::new().fail(ModelError::failed("boom")).fail(ModelError::failed("boom"));
    let handle = RunHandle::new();
    handle.enqueue("Later.", Delivery::Idle).unwrap();
    agent(&failing).run(handle.bind("Go.")).await.unwrap_err();
    assert_eq!(undelivered(&handle), ["Later."]);

    let handle = RunHandle::new();
    handle.enqueue("Later.", Delivery::Idle).unwrap();
    let table = RouteTable::new([Route::new("a", "A.")]);
    let group = HandoffGroup::new(table, [("a", agent(&failing))]).unwrap();
    group.run(handle.bind("Go.")).await.unwrap_err();
    assert_eq!(undelivered(&handle), ["Later."]);
}

#[tokio::test]
async fn handle_is_closed_if_no_run_starts() {
    let inputs = Schema::new(json!({"properties": {"x": {"type": "integer"}}})).unwrap();
    let handle = RunHandle::new();
    let agent_with_inputs = ReactAgent::builder(ScriptedModel::new()).inputs(inputs).build().unwrap();
    let error = agent_with_inputs.run(handle.bind("text")).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error:?}");
    assert_closed(&handle);

    let foreign = || {
        let suspended = SuspendedRun { pending: Vec::new(), checkpoint: json!("of another program") };
        RunInput::resume(suspended, Decisions::new())
    };
    let table = || RouteTable::new([Route::new("a", "A.").with_keywords(["aa"])]);
    let router = Router::new(table(), [("a", agent(&ScriptedModel::new()))]).unwrap();
    let handle = RunHandle::new();
    router.run(handle.bind("Draw something.")).await.unwrap();
    assert_closed(&handle);

    let handle = RunHandle::new();
    router.run(handle.bind(foreign())).await.unwrap_err();
    assert_closed(&handle);

    let group = HandoffGroup::new(table(), [("a", agent(&ScriptedModel::new()))]).unwrap();
    let handle = RunHandle::new();
    group.run(handle.bind(foreign())).await.unwrap_err();
    assert_closed(&handle);
}
