//! Tests of the settings of a hand-off: the name of its tool, its typed argument, its hook and its
//! condition.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    RunEvent, RunInput, Tool, ToolExt as _, Toolset,
    agent::{AgentErrorKind, SuspendedRun},
    call::Decision,
    export::schemars::{self, JsonSchema},
    message::MessageBody,
    tool::{RunContext, ToolPolicy},
};
use haft_react::{
    Guardrail, HandoffGroup, JsonReact, NativeCalls, ReactAgent, ReactAgentBuilder, TextReact, Verdict,
    handoff::{Handoff, HandoffError, HandoffHistory},
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{calculator, tool_without_parameters},
};

#[derive(Debug, serde::Deserialize, JsonSchema)]
struct Order {
    /// The dish.
    dish: String,
    #[serde(deserialize_with = "positive")]
    table: u8,
}

/// Deserializes a number above 0. The schema of `Order` allows 0.
fn positive<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    match <u8 as serde::Deserialize>::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("there is no table 0")),
        table => Ok(table),
    }
}

/// The entries that hooks have recorded.
type Record = Arc<Mutex<Vec<String>>>;

fn entries(record: &Record) -> Vec<String> {
    record.lock().unwrap().clone()
}

/// Creates the settings of a hand-off with the tool `order`. Its hook records the order.
fn order(record: &Record) -> Handoff {
    let record = Arc::clone(record);
    let settings = Handoff::new().tool_name("order").description("Orders a dish.");
    settings.on_handoff_with(move |Order { dish, table }, cx| {
        record.lock().unwrap().push(format!("{} -> {}: {dish} for {table}", cx.from, cx.to));
        async { Ok(()) }
    })
}

/// Creates the agents `waiter` and `kitchen`. The waiter can hand off to the kitchen with
/// `handoff`.
fn restaurant(waiter: ReactAgentBuilder, kitchen: &ScriptedModel, handoff: &Handoff) -> HandoffGroup {
    let agents = [("waiter", waiter.build().unwrap()), ("kitchen", agent(kitchen))];
    HandoffGroup::configured(table(), agents, |from, _| (from == "waiter").then(|| handoff.clone())).unwrap()
}

fn table() -> RouteTable {
    RouteTable::new([Route::new("waiter", "Serves."), Route::new("kitchen", "Cooks.")])
}

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), Toolset::new()).unwrap()
}

fn builder(model: &ScriptedModel) -> ReactAgentBuilder {
    ReactAgent::builder(model.clone())
}

/// Creates a model that orders a soup for table 7.
fn ordering_model() -> ScriptedModel {
    ScriptedModel::new().reply_calls([("a", "order", r#"{"dish":"soup","table":7}"#)])
}

fn kitchen_model() -> ScriptedModel {
    ScriptedModel::new().reply_text("One soup.")
}

#[track_caller]
fn assert_hook_failed(kind: &AgentErrorKind, expected: &str, message: &str) {
    let AgentErrorKind::HookFailed { hook, source } = kind else { panic!("{kind:?}") };
    assert_eq!((*hook, source.to_string().as_str()), (expected, message));
}

/// A result guardrail rewrites the text of a typed hand-off. The hook still receives the arguments.
#[tokio::test]
async fn rewritten_result_of_a_handoff_keeps_its_arguments() {
    let (model, kitchen, record) = (ordering_model(), kitchen_model(), Record::default());
    let guardrail = Guardrail::result("short", |_, _| async { Ok(Verdict::Replace("ok".into())) });
    let group = restaurant(builder(&model).guardrail(guardrail), &kitchen, &order(&record));
    let answer = group.run("A soup.").await.unwrap().into_answer().unwrap();
    assert_eq!(
        (&*answer.text, entries(&record)),
        ("One soup.", vec!["waiter -> kitchen: soup for 7".to_owned()])
    );
}

/// The arguments of a typed hand-off are validated, and are in the result of its tool, in the hook
/// and in the message for the next agent.
#[tokio::test]
async fn typed_argument_reaches_the_hook_and_the_next_agent() {
    let (model, kitchen, record) = (ordering_model(), kitchen_model(), Record::default());
    let group = restaurant(builder(&model), &kitchen, &order(&record));
    let answer = group.run("A soup.").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("One soup.", Some("kitchen")));
    assert_eq!(entries(&record), ["waiter -> kitchen: soup for 7"]);
    let results = answer.transcript.messages().iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => result.output()?.structured.clone(),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [json!({"dish": "soup", "table": 7})]);
    expect![[r#"
        user: A soup.
        assistant: a order{"dish":"soup","table":7}
        tool: a Handed to kitchen, who goes on from here.
        user: You go on from here: waiter hands off: {"dish":"soup","table":7}.
    "#]]
    .assert_eq(&message_lines(&kitchen.requests()[0]));
    let offered = model.requests()[0].tools.get("order").unwrap().definition().to_string();
    expect![[r#"order: Orders a dish. Arguments: {"type":"object","properties":{"dish":{"type":"string","description":"The dish."},"table":{"type":"integer","maximum":255,"minimum":0}},"required":["dish","table"]}"#]].assert_eq(&offered);
}

/// The written dialects validate the arguments in the same way as native calls.
#[tokio::test]
async fn typed_argument_is_validated_in_every_dialect() {
    let native = ScriptedModel::new()
        .reply_calls([("a", "order", r#"{"dish":"soup"}"#)])
        .reply_calls([("b", "order", r#"{"dish":"soup","table":0}"#)])
        .reply_calls([("c", "order", r#"{"dish":"soup","table":7}"#)]);
    let step = |arguments: &str| format!("Thought: So.\nAction: order\nArguments: {arguments}");
    let text = ScriptedModel::new()
        .reply_text(step(r#"{"dish": "soup"}"#))
        .reply_text(step(r#"{"dish": "soup", "table": 0}"#))
        .reply_text(step(r#"{"dish": "soup", "table": 7}"#));
    let step = |arguments: &str| format!(r#"{{"tool_name":"order","tool_args":{arguments}}}"#);
    let json = ScriptedModel::new()
        .reply_text(step(r#"{"dish":"soup"}"#))
        .reply_text(step(r#"{"dish":"soup","table":0}"#))
        .reply_text(step(r#"{"dish":"soup","table":7}"#));
    for waiter in [
        builder(&native).dialect(NativeCalls),
        builder(&text).dialect(TextReact),
        builder(&json).dialect(JsonReact::new()),
    ] {
        let (kitchen, record) = (kitchen_model(), Record::default());
        let group = restaurant(waiter, &kitchen, &order(&record)).with_history(HandoffHistory::Question);
        let answer = group.run("A soup.").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.text, "One soup.");
        assert_eq!(entries(&record), ["waiter -> kitchen: soup for 7"], "invalid arguments do not hand off");
        let problems: Vec<_> = answer.steps.iter().map(|step| step.result.model_text()).collect();
        assert_eq!(problems.len(), 3);
        assert!(problems[0].contains("table"), "{problems:?}");
        assert!(problems[1].contains("there is no table 0"), "{problems:?}");
        expect![[r#"
            user: A soup.
            user: You go on from here: waiter hands off: {"dish":"soup","table":7}.
        "#]]
        .assert_eq(&message_lines(&kitchen.requests()[0]));
    }
}

/// A streamed run calls the same hooks, and leaves the same transcript and usage.
#[tokio::test]
async fn streamed_handoff_is_equal_to_a_whole_one() {
    let record = Record::default();
    let group = || restaurant(builder(&ordering_model()), &kitchen_model(), &order(&record));
    let whole = group().run("A soup.").await.unwrap().into_answer().unwrap();
    let events: Vec<_> = group().stream("A soup.").try_collect().await.unwrap();
    let routes: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Routed { route, reason } => Some(format!("{}: {reason}", route.as_deref()?)),
            _ => None,
        })
        .collect();
    assert_eq!(
        routes,
        ["waiter: it has the conversation", r#"kitchen: waiter hands off: {"dish":"soup","table":7}"#]
    );
    let Some(RunEvent::Done { output }) = events.into_iter().last() else { panic!("the run did not end") };
    let streamed = output.into_answer().unwrap();
    let lines = |it: &haft_core::Transcript| it.messages().iter().map(|it| it.text()).collect::<Vec<_>>();
    assert_eq!(lines(&streamed.transcript), lines(&whole.transcript));
    assert_eq!((streamed.usage, streamed.text), (whole.usage, whole.text));
    assert_eq!(entries(&record).len(), 2);
}

/// A hand-off without a typed argument has the argument `reason`, also with a hook. The hook reads
/// the state, the step and the transcript of the run.
#[tokio::test]
async fn hook_without_an_argument_keeps_the_reason() {
    let model = ScriptedModel::new().reply_calls([("a", "transfer_to_kitchen", r#"{"reason":"hunger"}"#)]);
    let (kitchen, record) = (kitchen_model(), Record::default());
    let (ignored, used) = (Arc::clone(&record), Arc::clone(&record));
    let handoff = Handoff::new()
        .on_handoff(move |_| {
            ignored.lock().unwrap().push("replaced hook".to_owned());
            async { Ok(()) }
        })
        .on_handoff(move |cx| {
            let guest = cx.context.run.state.get::<&str>().copied();
            let entry = format!("{guest:?} {} {}", cx.context.step, cx.context.transcript.len());
            used.lock().unwrap().push(entry);
            async { Ok(()) }
        });
    let group = restaurant(builder(&model), &kitchen, &handoff);
    group.run(RunInput::new("A soup.").with_state("Ada")).await.unwrap();
    assert_eq!(entries(&record), [r#"Some("Ada") 1 3"#]);
    assert!(message_lines(&kitchen.requests()[0]).contains("waiter hands off: hunger"));
}

/// If the hook fails, panics or exceeds the timeout, the run ends with a typed error before the
/// hand-off. The conversation can be continued with the same agent.
#[tokio::test(start_paused = true)]
async fn failed_hook_is_a_typed_error() {
    let settings = || Handoff::new().tool_name("order").input::<Order>();
    let error = settings().on_handoff(|_| async { Err("the kitchen is closed".into()) });
    let panic = settings().on_handoff(|_| async { panic!("boom") });
    let hang = settings().on_handoff(|_| pending());
    for (handoff, message) in
        [(error, "the kitchen is closed"), (panic, "it panicked"), (hang, "it took longer than 5s")]
    {
        let model = ordering_model().reply_text("Closed.");
        let waiter = builder(&model).hook_timeout(Duration::from_secs(5));
        let kitchen = ScriptedModel::new();
        let group = restaurant(waiter, &kitchen, &handoff);
        let error = group.run("A soup.").await.unwrap_err();
        assert_hook_failed(&error.kind, "hand-off hook", message);
        assert_paired(&error.transcript);
        assert_eq!((error.transcript.len(), error.usage.requests), (3, 1));

        let input = RunInput::new("And now?").with_history(error.transcript);
        let answer = group.run(input).await.unwrap().into_answer().unwrap();
        assert_eq!((answer.agent.as_deref(), kitchen.requests().len()), (Some("waiter"), 0));
    }
}

/// A hook that panics before it returns a future is also contained.
#[tokio::test]
async fn panic_before_the_future_is_a_typed_error() {
    let handoff = Handoff::new().tool_name("order").on_handoff_with(|order: Order, _| {
        assert_eq!(order.table, 1, "the hook accepts only table 1");
        async { Ok(()) }
    });
    let group = restaurant(builder(&ordering_model()), &ScriptedModel::new(), &handoff);
    let error = group.run("A soup.").await.unwrap_err();
    assert_hook_failed(&error.kind, "hand-off hook", "it panicked");
    assert_eq!(error.transcript.len(), 3);
}

/// A cancellation ends the hook and the run.
#[tokio::test]
async fn cancellation_ends_the_hook() {
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let handoff = Handoff::new().tool_name("order").input::<Order>().on_handoff(move |_| {
        token.cancel();
        pending()
    });
    let kitchen = ScriptedModel::new();
    let group = restaurant(builder(&ordering_model()), &kitchen, &handoff);
    let error = group.run(RunInput::new("A soup.").with_context(context)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    assert_paired(&error.transcript);
    assert_eq!(kitchen.requests().len(), 0);
}

/// A call beside the hand-off is suspended, and the run is saved and loaded. The hook runs once,
/// after the decision, with the arguments of the saved call.
#[tokio::test]
async fn hook_runs_after_a_saved_run_is_resumed() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay =
        tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy));
    let model = ScriptedModel::new()
        .reply_calls([("a", "order", r#"{"dish":"soup","table":"7"}"#), ("b", "pay", "{}")]);
    let (kitchen, record) = (kitchen_model(), Record::default());
    let waiter = builder(&model).tools(Toolset::new().with_tool(pay));
    let group = restaurant(waiter, &kitchen, &order(&record));
    let suspended = group.run("A soup.").await.unwrap().into_answer().unwrap_err();
    assert!(entries(&record).is_empty(), "the hand-off waits for the decision");
    let saved = serde_json::to_string(&suspended).unwrap();
    let suspended: SuspendedRun = serde_json::from_str(&saved).unwrap();
    let input = suspended.resume([("b", Decision::approved())]);
    let answer = group.run(input).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "One soup.");
    assert_eq!(entries(&record), ["waiter -> kitchen: soup for 7"], "the repaired arguments are passed");
    expect![[r#"
        user: A soup.
        assistant: a order{"dish":"soup","table":"7"}; b pay{}
        tool: a Handed to kitchen, who goes on from here.
        tool: b paid
        user: You go on from here: waiter hands off: {"dish":"soup","table":7}.
    "#]]
    .assert_eq(&message_lines(&kitchen.requests()[0]));
}

/// The condition is evaluated before each request, and decides whether the tool is offered. A call
/// to a tool that is not offered fails like a call to an unknown tool.
#[tokio::test]
async fn disabled_handoff_is_not_offered() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "order", r#"{"dish":"soup","table":7}"#)])
        .reply_calls([("b", "order", r#"{"dish":"soup","table":7}"#)]);
    let (kitchen, record) = (kitchen_model(), Record::default());
    let handoff = order(&record).enabled_if(|cx| async move { Ok(cx.step > 0) });
    let waiter = builder(&model).tools(calculator());
    let answer = restaurant(waiter, &kitchen, &handoff).run("A soup.").await.unwrap().into_answer().unwrap();
    let offered: Vec<_> =
        model.requests().iter().map(|request| request.tools.get("order").is_some()).collect();
    assert_eq!(offered, [false, true]);
    assert_eq!(entries(&record).len(), 1);
    expect![[r#"unknown tool "order"; available: add"#]].assert_eq(&answer.steps[0].result.model_text());
}

/// The condition reads the state of the run. A condition that fails ends the run with a typed error
/// before the request.
#[tokio::test]
async fn condition_reads_the_state() {
    let handoff = Handoff::new()
        .enabled_if(|cx| async move { cx.run.state.get::<bool>().copied().ok_or_else(|| "no state".into()) });
    for is_open in [false, true] {
        let model = ScriptedModel::new().reply_text("Hello.");
        let group = restaurant(builder(&model), &ScriptedModel::new(), &handoff);
        group.run(RunInput::new("Hi").with_state(is_open)).await.unwrap();
        assert_eq!(model.requests()[0].tools.get("transfer_to_kitchen").is_some(), is_open);
    }
    let model = ScriptedModel::new();
    let error = restaurant(builder(&model), &ScriptedModel::new(), &handoff).run("Hi").await.unwrap_err();
    assert_hook_failed(&error.kind, "hand-off condition", "no state");
    assert_eq!((error.transcript.len(), model.requests().len()), (1, 0));
}

/// Two hand-offs of one agent, or a hand-off and another tool, cannot have the same name. The
/// argument must be an object.
#[tokio::test]
async fn invalid_settings_are_an_error_at_construction() {
    let model = ScriptedModel::new();
    let agents =
        |waiter: ReactAgent| [("waiter", waiter), ("kitchen", agent(&model)), ("bar", agent(&model))];
    let routes = ["waiter", "kitchen", "bar"].map(|name| Route::new(name, "Helps."));
    let group = |waiter, name: &'static str| {
        HandoffGroup::configured(RouteTable::new(routes.clone()), agents(waiter), |from, _| {
            (from == "waiter").then(|| Handoff::new().tool_name(name))
        })
    };
    let error = group(agent(&model), "order a dish").unwrap_err();
    assert!(matches!(&error, HandoffError::ToolConflict { agent, .. } if agent == "waiter"), "{error:?}");
    let waiter = builder(&model).tools(calculator()).build().unwrap();
    let error =
        HandoffGroup::configured(table(), [("waiter", waiter), ("kitchen", agent(&model))], |_, to| {
            (to == "kitchen").then(|| Handoff::new().tool_name("add"))
        });
    assert!(matches!(error, Err(HandoffError::ToolConflict { .. })));

    let agents = [("waiter", agent(&model)), ("kitchen", agent(&model))];
    let error = HandoffGroup::configured(table(), agents, |_, _| Some(Handoff::new().input::<String>()));
    let error = error.unwrap_err();
    expect![[r#"the argument of the hand-off to "kitchen" has no usable schema"#]]
        .assert_eq(&error.to_string());
    assert!(matches!(error, HandoffError::InvalidInput { .. }));
}
