//! A tool can push calls. They run only if the call to this tool succeeds.

use std::{
    error::Error as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolExt as _,
    Toolset,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, Decisions, FailureKind, Pending, PendingKind, ToolResponse},
    tool::{DynamicTool, RunContext, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    Extension, Guardrail, HandoffGroup, QueueHandle, ReactAgent, Run, Verdict,
    queue::QueueError,
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::assert_paired,
    tools::{calculator, pushing_tool, tool_without_parameters, with_call_counter},
};

/// Creates the tool `charge()`. Returns the tool, and a counter of the calls to it.
fn charge() -> (DynamicTool, Arc<AtomicUsize>) {
    with_call_counter(&tool_without_parameters("charge", || async { "charged" }))
}

/// Returns the definition of a tool that pushes calls.
fn pushing(name: &str) -> ToolDefinition {
    pushing_tool(name, |_| Ok(())).definition().clone()
}

fn push(cx: &ToolContext) -> Result<String, ToolError> {
    cx.state::<QueueHandle>()?.push_call("charge", json!({}))
}

fn agent(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model.clone(), tools).unwrap()
}

/// Creates the tool `pay()`. It pushes a call to `charge()`, then returns the result of `end`.
fn pay(end: impl Fn(&ToolContext) -> Result<ToolResponse, ToolError> + Send + Sync + 'static) -> DynamicTool {
    DynamicTool::new(pushing("pay"), move |_, cx| {
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
    let pay = DynamicTool::new(pushing("pay"), move |_, cx| {
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
    let store = pushing_tool("store", {
        let stored = Arc::clone(&stored);
        move |calls| {
            *stored.lock().unwrap() = Some(calls);
            Ok(())
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
async fn handoff_cannot_be_pushed() {
    let push = pushing_tool("push", |calls| calls.push_call("transfer_to_kitchen", json!({})));
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

/// Creates the tool `shop`, which pushes a call to each tool in `names` and returns the
/// placeholders. Also returns the counter of its calls.
fn shop(names: &'static [&'static str]) -> (DynamicTool, Arc<AtomicUsize>) {
    with_call_counter(&pushing_tool("shop", move |calls| {
        let pushed = names.iter().map(|name| calls.push_call(name, json!({})));
        Ok(pushed.collect::<Result<Vec<_>, _>>()?.join(", "))
    }))
}

fn with_approval(tool: DynamicTool) -> impl Tool + 'static {
    tool.with_definition(|it| it.map_policy(ToolPolicy::with_approval))
}

fn reloaded(output: RunOutput) -> SuspendedRun {
    let RunOutput::Suspended(suspended) = output else { panic!("the run is not suspended") };
    serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap()
}

/// If pushed calls wait for decisions, the pushing call is suspended with them. After each decision
/// it continues: neither the tool nor the completed pushed calls run again.
#[tokio::test]
async fn suspended_push_continues_after_each_decision() {
    let (shop, shops) = shop(&["charge", "pay", "pay"]);
    let (charge, charges) = charge();
    let (pay, payments) = with_call_counter(&tool_without_parameters("pay", || async { "paid" }));
    let tools = || {
        let pay = with_approval(pay.clone());
        Toolset::new().with_tool(shop.clone()).with_tool(charge.clone()).with_tool(pay)
    };
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
    let mut suspended = reloaded(agent(&model, tools()).run("Go.").await.unwrap());
    for left in [2, 1] {
        let undecided = suspended.undecided_calls();
        assert_eq!((suspended.pending.len(), undecided.len()), (1, left));
        let id = undecided[0].call.id.clone();
        let decision = if left == 2 { Decision::approved() } else { Decision::denied("too much") };
        let input = suspended.clone().resume([(id, decision)]);
        let output = agent(&model, tools()).run(input).await.unwrap();
        if left == 1 {
            let text = output.results_of("shop").next().unwrap().model_text().into_owned();
            assert_eq!(text, "charged, paid, [pay failed: denied: too much]");
            break;
        }
        suspended = reloaded(output);
    }
    assert_eq!([shops, charges, payments].map(|count| count.load(Ordering::Relaxed)), [1, 1, 1]);
}

/// A pushed call pushes a call that needs an approval. All three calls continue.
#[tokio::test]
async fn nested_push_is_resumed() {
    let (shop, shops) = shop(&["cart"]);
    let (cart, carts) =
        with_call_counter(&pushing_tool("cart", |calls| calls.push_call("charge", json!({}))));
    let (charge, charges) = charge();
    let tools = Toolset::new().with_tool(shop).with_tool(cart).with_tool(with_approval(charge));
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
    let agent = agent(&model, tools);
    let suspended = reloaded(agent.run("Go.").await.unwrap());
    assert_eq!(suspended.undecided_calls()[0].call.name, "charge");
    let output = agent.run(suspended.approve_all()).await.unwrap();
    assert_eq!(output.results_of("shop").next().unwrap().model_text(), "charged");
    assert_eq!([shops, carts, charges].map(|count| count.load(Ordering::Relaxed)), [1, 1, 1]);
}

/// The text of a failed call has no placeholders. Its pushed calls are not executed.
#[tokio::test]
async fn failure_text_has_no_placeholders() {
    let fail = pushing_tool("fail", |calls| {
        let charge = calls.push_call("charge", json!({}))?;
        Err::<(), _>(ToolError::failed(format!("no luck with {charge}")))
    });
    let (charge, count) = charge();
    let model = ScriptedModel::new().reply_calls([("a", "fail", "{}")]).reply_text("Done.");
    let output = agent(&model, Toolset::new().with_tool(fail).with_tool(charge)).run("Go.").await.unwrap();
    let text = output.results_of("fail").next().unwrap().model_text().into_owned();
    assert_eq!((&*text, count.load(Ordering::Relaxed)), ("no luck with [charge is not executed]", 0));
}

/// If the process dies while pushed calls run, the pushing call is recovered like any other call.
#[tokio::test]
async fn crash_during_pushed_calls_makes_the_pushing_call_unconfirmed() {
    let (shop, shops) = shop(&["hang"]);
    let hang = tool_without_parameters("hang", std::future::pending::<()>);
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
    let agent = agent(&model, Toolset::new().with_tool(shop).with_tool(hang));
    let mut run = agent.create_run("Go.".into()).unwrap();
    let mut events = agent.drive(&mut run, RunContext::default());
    let is_pushed = |event: RunEvent| matches!(event, RunEvent::CallStarted { call } if call.name == "hang");
    while !is_pushed(events.next().await.unwrap().unwrap()) {}
    drop(events);
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))), "{events:?}");
    assert_paired(run.transcript());
    let failure = run.transcript().messages()[2].text();
    assert!(failure.starts_with("unconfirmed"), "{failure}");
    assert_eq!(shops.load(Ordering::Relaxed), 1);
}

/// A fatal failure of a pushed call ends the run.
#[tokio::test]
async fn fatal_pushed_call_ends_the_run() {
    let (shop, _) = shop(&["broken"]);
    let broken =
        tool_without_parameters("broken", || async { Err::<(), _>(ToolError::Fatal("broken".into())) });
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]);
    let agent = agent(&model, Toolset::new().with_tool(shop).with_tool(broken));
    let error = agent.run("Go.").await.unwrap_err();
    assert!(
        matches!(&*error.kind, AgentErrorKind::FatalTool { message, .. } if message == "broken"),
        "{error}"
    );
}

/// The timeout of the pushing call includes the pushed calls, which are cancelled before it ends.
#[tokio::test(start_paused = true)]
async fn timeout_includes_the_pushed_calls() {
    let (shop, _) = shop(&["hang"]);
    let shop = shop.with_definition(|it| it.map_policy(|it| it.with_timeout(Duration::from_secs(1))));
    let hang = tool_without_parameters("hang", std::future::pending::<()>);
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
    let output = agent(&model, Toolset::new().with_tool(shop).with_tool(hang)).run("Go.").await.unwrap();
    assert_eq!(output.results_of("shop").next().unwrap().model_text(), "timed out after 1000 ms");
}

/// The usage of an agent in a pushed call is part of the usage of the run.
#[tokio::test]
async fn usage_of_pushed_agents_is_counted() {
    let (shop, _) = shop(&["ask"]);
    let schema = Schema::object().as_value().clone();
    let child = ReactAgent::new(ScriptedModel::new().reply_text("Yes."), Toolset::new()).unwrap();
    let ask = child.into_tool("ask", "Asks.").with_definition(|it| it.with_input_schema(schema));
    let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
    let output = agent(&model, Toolset::new().with_tool(shop).with_tool(ask)).run("Go.").await.unwrap();
    assert_eq!(output.results_of("shop").next().unwrap().model_text(), "Yes.");
    assert_eq!(output.answer().unwrap().usage.requests, 3);
}

/// The maximum number of calls to a tool includes pushed calls.
#[tokio::test]
async fn maximum_number_of_calls_includes_pushed_calls() {
    let (shop, _) = shop(&["charge", "charge"]);
    let (charge, count) = charge();
    let charge = charge.with_definition(|it| it.map_policy(|policy| policy.with_max_calls(2)));
    let model = ScriptedModel::new()
        .reply_calls([("a", "charge", "{}")])
        .reply_calls([("b", "shop", "{}")])
        .reply_calls([("c", "charge", "{}")])
        .reply_text("Done.");
    let output = agent(&model, Toolset::new().with_tool(shop).with_tool(charge)).run("Go.").await.unwrap();
    let text = output.results_of("shop").next().unwrap().model_text().into_owned();
    assert!(text.starts_with("charged, [charge failed: denied: at most 2 calls"), "{text}");
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// Guardrails over calls and results also check pushed calls.
#[tokio::test]
async fn guardrails_check_pushed_calls() {
    let block = |tool: &'static str| {
        Guardrail::call("no money", move |call, _| async move {
            Ok(if call.tool == tool { Verdict::block("not today") } else { Verdict::Pass })
        })
    };
    let hide = Guardrail::result("no secrets", |result, _| async move {
        Ok(if result.model_text() == "charged" { Verdict::block("hidden") } else { Verdict::Pass })
    });
    for (guardrail, expected) in [
        (block("charge"), "[charge failed: denied: not today]"),
        (block("other"), "charged"),
        (hide, "[charge failed: hidden]"),
    ] {
        let ((shop, _), (charge, _)) = (shop(&["charge"]), charge());
        let model = ScriptedModel::new().reply_calls([("a", "shop", "{}")]).reply_text("Done.");
        let agent = ReactAgent::builder(model)
            .tools(Toolset::new().with_tool(shop).with_tool(charge))
            .extension(Extension::new("guard").guardrail(guardrail))
            .build()
            .unwrap();
        let output = agent.run("Go.").await.unwrap();
        assert_eq!(output.results_of("shop").next().unwrap().model_text(), expected);
    }
}
