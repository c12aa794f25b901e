//! A tool can push calls. They run only if the call to this tool succeeds.

use std::{
    error::Error as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Timestamp, Tool as _, ToolCall, ToolContext, ToolError, ToolExt as _,
    Toolset,
    agent::SuspendedRun,
    call::{Decision, Decisions, FailureKind, Pending, PendingKind, ToolResponse},
    message::AssistantMessage,
    model::ChatResponse,
    pipeline::Batch,
    tool::{DynamicTool, RunContext, ToolPolicy},
};
use haft_react::{
    Dialect as _, Effect, HandoffGroup, NativeCalls, QueueHandle, ReactAgent, Run, RunConfig, Step,
    queue::{CallQueues, QueueError, QueuedResults},
    router::{Route, RouteTable},
    run::{CallBatch, RunError},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    effects::advance,
    pairing::assert_paired,
    tools::{calculator, tool_without_parameters, with_call_counter},
};

/// Creates the tool `charge()`. Returns the tool, and a counter of the calls to it.
fn charge() -> (DynamicTool, Arc<AtomicUsize>) {
    with_call_counter(&tool_without_parameters("charge", || async { "charged" }))
}

fn push(cx: &ToolContext) -> Result<String, ToolError> {
    cx.state::<QueueHandle>()?.push_call("charge", json!({}))
}

fn agent(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::builder(model.clone()).tools(tools).pending_queue().build().unwrap()
}

/// Creates the tool `pay()`. It pushes a call to `charge()`, then returns the result of `end`.
fn pay(end: impl Fn(&ToolContext) -> Result<ToolResponse, ToolError> + Send + Sync + 'static) -> DynamicTool {
    DynamicTool::new(tool_without_parameters("pay", || async {}).definition().clone(), move |_, cx| {
        let ended = push(&cx).and_then(|_| end(&cx));
        async move { ended }
    })
}

#[tokio::test]
async fn pushed_calls_of_a_failed_call_do_not_run() {
    let tries = AtomicUsize::new(0);
    let pay = pay(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ToolError::Retry("once more".to_owned())),
        1 => Err(ToolError::failed("no luck")),
        _ => Ok("paid".into()),
    });
    let pay = pay.with_definition(|it| it.with_policy(ToolPolicy { retries: 2, ..ToolPolicy::default() }));
    let (charge, count) = charge();
    let call = |id: &'static str| [(id, "pay", "{}")];
    let model = ScriptedModel::new()
        .reply_calls(call("a"))
        .reply_calls(call("b"))
        .reply_calls(call("c"))
        .reply_text("Paid.");
    let agent = agent(&model, Toolset::new().with_tool(pay).with_tool(charge));
    let answer = agent.run("Pay.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, count.load(Ordering::Relaxed)), ("Paid.", 1));
    assert_eq!(QueuedResults::from_transcript(&answer.transcript).iter().count(), 1);
}

#[tokio::test]
async fn suspended_call_pushes_when_it_resumes() {
    let pay = || {
        pay(|cx| match cx.decision() {
            None => Ok(ToolResponse::Pending(Pending::new(PendingKind::Input {
                message: "Which card?".to_owned(),
                schema: Default::default(),
            }))),
            Some(_) => Ok("paid".into()),
        })
    };
    let (charge, count) = charge();
    let model = ScriptedModel::new().reply_calls([("a", "pay", "{}")]).reply_text("Paid.");
    let agent = agent(&model, Toolset::new().with_tool(pay()).with_tool(charge));
    let RunOutput::Suspended(suspended) = agent.run("Pay.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let decisions = Decisions::from([("a".to_owned(), Decision::Input { value: json!("mine") })]);
    assert_eq!(agent.run(RunInput::resume(suspended, decisions)).await.unwrap().text().unwrap(), "Paid.");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// A call is interrupted by a crash and repeated. The calls that it pushed before the crash must be
/// discarded, because the repeated call pushes them again.
#[tokio::test]
async fn repeated_call_pushes_once() {
    let tries = Arc::new(AtomicUsize::new(0));
    let pay =
        DynamicTool::new(tool_without_parameters("pay", || async {}).definition().clone(), move |_, cx| {
            let tries = Arc::clone(&tries);
            async move {
                push(&cx)?;
                if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, ToolError>("paid")
            }
        });
    let pay =
        pay.with_definition(|it| it.with_policy(ToolPolicy { idempotent: true, ..ToolPolicy::default() }));
    let (charge, count) = charge();
    let replies = [("a", "pay", "{}"), ("b", "add", r#"{"x":1,"y":2}"#)];
    let model = ScriptedModel::new().reply_calls(replies).reply_text("Paid.");
    let agent = agent(&model, calculator().with_tool(pay).with_tool(charge));
    let mut run = agent.create_run("Pay.".into()).unwrap();
    let mut events = agent.drive(&mut run, RunContext::default());
    while !matches!(events.next().await.unwrap().unwrap(), RunEvent::CallFinished { .. }) {}
    drop(events);

    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))), "{events:?}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_paired(run.transcript());
}

/// A tool keeps its queue handle and uses the handle after the call has ended. The push must fail,
/// because no driver would execute the pushed call.
#[tokio::test]
async fn queue_handle_is_closed_after_its_call() {
    let stored = Arc::new(Mutex::new(None::<QueueHandle>));
    let store = DynamicTool::new(tool_without_parameters("store", || async {}).definition().clone(), {
        let stored = Arc::clone(&stored);
        move |_, cx| {
            *stored.lock().unwrap() = cx.state().ok();
            async {}
        }
    });
    let late = tool_without_parameters("late", move || {
        let pushed = stored.lock().unwrap().take().unwrap().push_call("charge", json!({}));
        let error = pushed.unwrap_err();
        let source = error.source().and_then(|source| source.downcast_ref::<QueueError>());
        assert_eq!(source, Some(&QueueError::Closed));
        async { Err::<(), _>(error) }
    });
    let (charge, count) = charge();
    let model = ScriptedModel::new()
        .reply_calls([("a", "store", "{}")])
        .reply_calls([("b", "late", "{}")])
        .reply_text("Too late.");
    let agent = agent(&model, Toolset::new().with_tool(store).with_tool(late).with_tool(charge));
    let output = agent.run("Go.").await.unwrap();
    let late = output.results_of("late").next().unwrap();
    assert_eq!(
        (late.failure().unwrap().kind, &*late.model_text()),
        (FailureKind::Failed, "the queue is closed: the call would not be executed")
    );
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// A hand-off is part of a reply, so it cannot be pushed. The rejected push must not prevent a
/// later hand-off.
#[tokio::test]
async fn hand_off_cannot_be_pushed() {
    let push = DynamicTool::new(
        tool_without_parameters("push", || async {}).definition().clone(),
        |_, cx| async move { cx.state::<QueueHandle>()?.push_call("transfer_to_kitchen", json!({})) },
    );
    let reception = ScriptedModel::new().reply_calls([("a", "push", "{}")]).reply_calls([(
        "b",
        "transfer_to_kitchen",
        "{}",
    )]);
    let kitchen = ScriptedModel::new().reply_text("Soup.");
    let table = RouteTable::new([Route::new("reception", "Greets."), Route::new("kitchen", "Cooks.")]);
    let agents = [
        ("reception", agent(&reception, Toolset::new().with_tool(push))),
        ("kitchen", agent(&kitchen, Toolset::new())),
    ];
    let output = HandoffGroup::new(table, agents).unwrap().run("Hungry.").await.unwrap();
    assert_eq!(output.text().unwrap(), "Soup.");
    let error = output.results_of("push").next().unwrap().model_text().into_owned();
    assert!(error.starts_with(r#"unknown tool "transfer_to_kitchen""#), "{error}");
}

/// A driver that uses [`Run`] without an agent can also execute pushed calls.
#[tokio::test]
async fn run_without_an_agent_executes_pushed_calls() {
    let (charge, count) = charge();
    let tools = Toolset::new().with_tool(pay(|_| Ok("paid".into()))).with_tool(charge);
    let list = tools.list(&Default::default()).await;
    let step = Step::new(&list, &NativeCalls, Timestamp::default());
    let mut run = Run::new(&RunConfig::default(), "Pay.".into()).unwrap();
    let Effect::Chat(_) = advance(&mut run, &step).unwrap() else { panic!("no request") };
    let message =
        AssistantMessage { tool_calls: vec![ToolCall::new("a", "pay", "{}")], ..AssistantMessage::default() };
    run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new(message), None))).unwrap();
    while let Effect::Call(CallBatch { calls, .. }) = advance(&mut run, &step).unwrap() {
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        let (id, queues) = (call.id.clone(), CallQueues::new(&run, &calls));
        let mut batch = Batch::new(list.clone(), calls);
        queues.add_handles(&mut batch, &list, tools.pipeline());
        let outcome = tools.pipeline().call_all(batch).await.remove(0);
        queues.close(&outcome, &mut run).unwrap();
        run.on_result(&id, outcome.into_result()).unwrap();
    }
    run.recover(&list);
    let error = run.add_calls([ToolCall::new("a", "charge", "{}")]).unwrap_err();
    assert_eq!(error, RunError::InvalidCallId("a".to_owned()));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(QueuedResults::from_transcript(run.transcript()).iter().count(), 1);
}
