//! Tests of the time from which a [`RunHandle`] is closed, and of its undelivered messages.

use futures::StreamExt as _;
use haft_core::{
    Message, RunInput, Schema, Timestamp, Toolset,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions},
    model::ModelError,
    tool::RunContext,
};
use haft_react::{
    Effect, HandoffGroup, Outcome, ReactAgent, Router, Run, RunConfig, RunHandle, RunScope,
    router::{Route, RouteTable},
    run::{Delivery, RunError},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{effects::apply, tools::tool_without_parameters};

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
#[tokio::test]
async fn handle_stays_open_while_a_driver_decides() {
    let model = ScriptedModel::new().reply_calls([("a", "look", "{}")]).reply_text("Done.");
    let tools =
        Toolset::new().with_tool(tool_without_parameters("look", || async { "seen" })).external(|_| true);
    let agent = ReactAgent::new(model.clone(), tools).unwrap();
    let handle = RunHandle::new();
    let (scope, mut run) = attached_run(&handle);
    loop {
        let effect = run.next(Timestamp::default()).unwrap();
        let is_done = matches!(effect, Effect::Done(_));
        if let Effect::Wait(_) = effect {
            handle.enqueue("Hurry.", Delivery::NextRequest).unwrap();
            let decision = Decision::output("given");
            apply(&mut run, Outcome::Decided { id: "a".to_owned(), decision }).unwrap();
            continue;
        }
        let mut outcomes = agent.perform(&run, effect, &scope);
        while let Some(outcome) = outcomes.next().await {
            apply(&mut run, outcome.unwrap()).unwrap();
        }
        if is_done {
            break;
        }
    }
    assert_eq!(model.requests()[1].messages.iter().last().unwrap().text(), "Hurry.");
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

/// An own driver has the same events as `stream`, except for the last one.
#[tokio::test]
async fn scope_has_the_events_of_a_driver() {
    let model = || ScriptedModel::new().reply_calls([("a", "look", "{}")]).reply_text("Done.");
    let tools = || Toolset::new().with_tool(tool_without_parameters("look", || async { "seen" }));
    let agent = ReactAgent::new(model(), tools()).unwrap();
    let mut run = agent.create_run("Look.".into()).unwrap();
    let (scope, events) = RunScope::with_events(&mut run, RunContext::default());
    let reader = tokio::spawn(events.map(|event| format!("{event:?}")).collect::<Vec<_>>());
    loop {
        let effect = run.next(Timestamp::default()).unwrap();
        if let Effect::Done(_) = effect {
            break;
        }
        let mut outcomes = agent.perform(&run, effect, &scope);
        while let Some(outcome) = outcomes.next().await {
            apply(&mut run, outcome.unwrap()).unwrap();
            scope.emit_events(&mut run).await;
        }
    }
    drop(scope);
    let own = reader.await.unwrap();
    let streamed = ReactAgent::new(model(), tools()).unwrap().stream("Look.").collect::<Vec<_>>().await;
    let names = |text: &str| text.split([' ', '(']).next().unwrap().to_owned();
    let streamed: Vec<_> =
        streamed.into_iter().map(|event| names(&format!("{:?}", event.unwrap()))).collect();
    let own: Vec<_> = own.iter().map(|event| names(event)).collect();
    assert_eq!(own, streamed[..streamed.len() - 1]);
    assert!(own.contains(&"CallFinished".to_owned()), "{own:?}");
}
