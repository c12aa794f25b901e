//! Agents that hand a conversation to one another.

use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Schema, Tool as _, ToolExt as _, ToolName, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, StopReason, SuspendedRun},
    call::{Decision, Decisions, FailureKind},
    model::ToolChoice,
    tool::{DynamicTool, RunContext, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    Handoffs, QueueHandle, ReactAgent, Router, TextReact,
    handoff::{Carried, HandoffError},
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, lines},
    tools::{add, calculator, fails, plain},
};

fn table() -> RouteTable {
    RouteTable::new([
        Route::new("reception", "Finds out what is wanted."),
        Route::new("kitchen", "Takes orders for food."),
        Route::new("bar", "Takes orders for drinks."),
    ])
}

fn agent(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model.clone(), tools).unwrap()
}

/// Reception, kitchen and bar, each with these words.
fn house(models: [&ScriptedModel; 3]) -> Handoffs {
    let [reception, kitchen, bar] = models.map(|model| agent(model, calculator().with(fails())));
    Handoffs::new(table(), [("reception", reception), ("kitchen", kitchen), ("bar", bar)]).unwrap()
}

fn quiet() -> ScriptedModel {
    ScriptedModel::new()
}

/// `pay()`, which a person must approve.
fn pay() -> impl haft_core::Tool + 'static {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    plain("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy))
}

/// `push()`, which puts 1 + 2 into the queue.
fn push() -> DynamicTool {
    DynamicTool::new(plain("push", || async {}).definition().clone(), |_, cx| async move {
        cx.state::<QueueHandle>()?.push("add", json!({"x": 1, "y": 2}))
    })
}

fn saved(suspended: &SuspendedRun) -> SuspendedRun {
    serde_json::from_str(&serde_json::to_string(suspended).unwrap()).unwrap()
}

fn approved(id: &str) -> Decisions {
    Decisions::from([(id.to_owned(), Decision::approved())])
}

#[tokio::test]
async fn who_takes_over_knows_the_conversation() {
    let reception = quiet().calls([("a", "add", r#"{"x":1,"y":1}"#)]).calls([(
        "b",
        "transfer_to_kitchen",
        r#"{"reason":"soup"}"#,
    )]);
    let kitchen = quiet().text("One soup.");
    let agents = house([&reception, &kitchen, &quiet()]);
    let mut said = Vec::new();
    let mut events = agents.stream("A soup for 1 + 1.");
    let output = loop {
        match events.next().await.unwrap().unwrap() {
            RunEvent::Routed { route, reason } => said.push(format!("{}: {reason}", route.unwrap())),
            RunEvent::Done { output } => break output,
            _ => {}
        }
    };
    assert_eq!(said, ["reception: it has the conversation", "kitchen: reception hands off: soup"]);

    let answer = output.into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("One soup.", Some("kitchen")));
    assert_eq!(answer.usage.requests, 3, "the cost is summed");
    let steps: Vec<_> = answer.steps.iter().map(|step| &*step.tool_name).collect();
    assert_eq!(steps, ["add", "transfer_to_kitchen"]);
    assert_paired(&answer.transcript);
    expect![[r#"
        user: A soup for 1 + 1.
        assistant: a add{"x":1,"y":1}
        tool: a 2
        assistant: b transfer_to_kitchen{"reason":"soup"}
        tool: b Handed to kitchen, who goes on from here.
        user: You go on from here: reception hands off: soup.
    "#]]
    .assert_eq(&lines(&kitchen.requests()[0]));
    let offered: Vec<_> = kitchen.requests()[0].tools.names().map(ToString::to_string).collect();
    assert_eq!(offered, ["add", "fail", "transfer_to_reception", "transfer_to_bar"]);
    let transfer = reception.requests()[0].tools.get("transfer_to_kitchen").unwrap().definition().to_string();
    expect![[r#"transfer_to_kitchen: Hands the conversation to kitchen, who answers in your place. Takes orders for food. Arguments: {"type":"object","properties":{"reason":{"type":"string","description":"Why, and what is left to do."}},"additionalProperties":false}"#]].assert_eq(&transfer);
}

/// The other calls of the reply are answered first, and of several hand-offs the first counts.
#[tokio::test]
async fn beside_a_hand_off_every_call_is_answered() {
    let reception = quiet().calls([
        ("a", "add", r#"{"x":1,"y":1}"#),
        ("b", "transfer_to_bar", "{}"),
        ("c", "transfer_to_kitchen", "{}"),
        ("d", "fail", "{}"),
    ]);
    let bar = quiet().text("A tea.");
    let answer = house([&reception, &quiet(), &bar]).run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.agent.as_deref(), Some("bar"));
    expect![[r#"
        user: Hi
        assistant: a add{"x":1,"y":1}; b transfer_to_bar{}; c transfer_to_kitchen{}; d fail{}
        tool: a 2
        tool: b Handed to bar, who goes on from here.
        tool: c denied: this reply hands the conversation to bar already
        tool: d no luck
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&lines(&bar.requests()[0]));
}

/// A hand-off that cannot be made is told like any call.
#[tokio::test]
async fn a_hand_off_to_nobody_is_an_unknown_tool() {
    let reception = quiet().calls([("a", "transfer_to_cellar", "{}")]).text("There is no cellar.");
    let answer = house([&reception, &quiet(), &quiet()]).run("Wine?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.agent.as_deref(), Some("reception"));
    assert_eq!(answer.steps[0].result.failure().unwrap().kind, FailureKind::NotFound);
}

/// To and fro, and then no more.
#[tokio::test]
async fn hand_offs_are_bounded() {
    let reception = quiet()
        .calls([("a", "transfer_to_kitchen", r#"{"reason":"1"}"#)])
        .calls([("c", "transfer_to_kitchen", r#"{"reason":"2"}"#)])
        .text("Then I do it.");
    let kitchen = quiet().calls([("b", "transfer_to_reception", r#"{"reason":"3"}"#)]);
    let agents = house([&reception, &kitchen, &quiet()]).with_limit(2);
    let answer = agents.run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("Then I do it.", Some("reception")));
    expect!["denied: the conversation was handed off 2 times for this question, which is the most: answer yourself"]
        .assert_eq(&answer.steps[2].result.model_text());
}

/// Agents that give each other the same again and again are stopped by the guard of the run, which is one run.
#[tokio::test]
async fn a_circle_is_noticed() {
    let calls = |model: ScriptedModel, to: &str| model.calls([("", to, "{}")]);
    let (mut reception, mut kitchen) = (quiet(), quiet());
    for _ in 0..4 {
        reception = calls(reception, "transfer_to_kitchen");
        kitchen = calls(kitchen, "transfer_to_reception");
    }
    let error = house([&reception, &kitchen, &quiet()]).run("Hi").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(_))), "{error:?}");
    assert_paired(&error.transcript);
    assert_eq!(error.usage.requests, 8);
}

/// The limits are those of the run, whoever has it.
#[tokio::test]
async fn limits_are_shared() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("b", "add", r#"{"x":1,"y":1}"#)]);
    let limits = RunLimits { requests: Some(2), ..RunLimits::default() };
    let input = RunInput::new("Hi").with_limits(limits);
    let error = house([&reception, &kitchen, &quiet()]).run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(2))));
    assert_paired(&error.transcript);
}

/// What the one who took over waits for finds its way to him, in another process.
#[tokio::test]
async fn an_answer_finds_who_has_the_run() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("b", "pay", "{}")]).text("Paid.");
    let house = || {
        let agents = [
            ("reception", agent(&reception, Toolset::new())),
            ("kitchen", agent(&kitchen, Toolset::new().with(pay()))),
            ("bar", agent(&quiet(), Toolset::new())),
        ];
        Handoffs::new(table(), agents).unwrap()
    };
    let suspended = house().run("Hi").await.unwrap().into_answer().unwrap_err();
    let wrong = RunInput::resume(saved(&suspended), approved("a"));
    let error = house().run(wrong).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)));
    let output = house().run(RunInput::resume(saved(&suspended), approved("b"))).await.unwrap();
    let answer = output.into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("Paid.", Some("kitchen")));
    assert_eq!(answer.usage.requests, 3);
    assert_paired(&answer.transcript);
}

/// A call beside the hand-off waits: the hand-off waits with it.
#[tokio::test]
async fn a_hand_off_waits_for_the_calls_beside_it() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}"), ("b", "pay", "{}")]);
    let kitchen = quiet().text("Thanks.");
    let house = || {
        let agents = [
            ("reception", agent(&reception, Toolset::new().with(pay()))),
            ("kitchen", agent(&kitchen, Toolset::new())),
            ("bar", agent(&quiet(), Toolset::new())),
        ];
        Handoffs::new(table(), agents).unwrap()
    };
    let suspended = house().run("Hi").await.unwrap().into_answer().unwrap_err();
    assert_eq!(kitchen.requests().len(), 0);
    let output = house().run(RunInput::resume(saved(&suspended), approved("b"))).await.unwrap();
    assert_eq!(output.answer().unwrap().agent.as_deref(), Some("kitchen"));
    expect![[r#"
        user: Hi
        assistant: a transfer_to_kitchen{}; b pay{}
        tool: a Handed to kitchen, who goes on from here.
        tool: b paid
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&lines(&kitchen.requests()[0]));
}

/// The next question is for whom the conversation was handed.
#[tokio::test]
async fn the_next_question_goes_to_who_answered() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().text("One soup.").text("With bread.");
    let agents = house([&reception, &kitchen, &quiet()]);
    let first = agents.run("Soup.").await.unwrap().into_answer().unwrap();
    let second = agents.run(RunInput::new("And bread.").with_history(first.transcript)).await.unwrap();
    let second = second.into_answer().unwrap();
    assert_eq!((&*second.text, second.agent.as_deref()), ("With bread.", Some("kitchen")));
    assert_eq!(*second.steps, []);
}

/// Only the question and the reason go along where that is asked for; nothing of the transcript is lost.
#[tokio::test]
async fn what_goes_along_can_be_chosen() {
    let reception = quiet().calls([("a", "add", r#"{"x":1,"y":1}"#)]).calls([(
        "b",
        "transfer_to_kitchen",
        r#"{"reason":"soup"}"#,
    )]);
    let kitchen = quiet().calls([("c", "add", r#"{"x":2,"y":2}"#)]).text("Done.");
    let agents = house([&reception, &kitchen, &quiet()]).carrying(Carried::Question);
    let answer = agents.run("Soup.").await.unwrap().into_answer().unwrap();
    expect![[r#"
        user: Soup.
        user: You go on from here: reception hands off: soup.
        assistant: c add{"x":2,"y":2}
        tool: c 4
    "#]]
    .assert_eq(&lines(&kitchen.requests()[1]));
    assert_eq!((answer.transcript.len(), answer.steps.len()), (9, 3));
    assert_paired(&answer.transcript);
}

/// Each agent speaks its own dialect, with its own instructions and outputs.
#[tokio::test]
async fn agents_differ() {
    let reception = quiet().text("Thought: Hm.\nAction: transfer_to_kitchen\nArguments: {}");
    let kitchen = quiet().calls([("b", "finish", r#"{"dish":"soup"}"#)]);
    let outputs = Schema::new(json!({"properties": {"dish": {"type": "string"}}})).unwrap();
    let agents = [
        ("reception", ReactAgent::builder(reception.clone()).dialect(TextReact).build().unwrap()),
        (
            "kitchen",
            ReactAgent::builder(kitchen.clone()).instructions("You cook.").outputs(outputs).build().unwrap(),
        ),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let answer = Handoffs::new(table(), agents).unwrap().run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["dish"], "soup");
    assert_eq!(kitchen.requests()[0].instructions.as_ref().unwrap().text(), "You cook.");
}

#[tokio::test]
async fn cancelled_after_a_hand_off_every_call_is_closed() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("b", "hang", "{}")]);
    let hang = plain("hang", std::future::pending::<()>);
    let agents = [
        ("reception", agent(&reception, Toolset::new())),
        ("kitchen", agent(&kitchen, Toolset::new().with(hang))),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let mut events =
        Handoffs::new(table(), agents).unwrap().stream(RunInput::new("Hi").with_context(context));
    let error = loop {
        match events.next().await.unwrap() {
            Ok(RunEvent::CallStarted { call }) if call.name == "hang" => token.cancel(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_paired(&error.transcript);
    assert_eq!((error.transcript.len(), error.usage.requests), (6, 2));
}

/// Not everybody may hand off to everybody.
#[tokio::test]
async fn who_may_hand_off_can_be_said() {
    let model = quiet().text("Hello.");
    let agents = || ["reception", "kitchen", "bar"].map(|name| (name, agent(&model, Toolset::new())));
    let house = Handoffs::along(table(), agents(), |from, to| from == "reception" && to == "bar").unwrap();
    house.run("Hi").await.unwrap();
    let offered: Vec<_> = model.requests()[0].tools.names().map(ToString::to_string).collect();
    assert_eq!(offered, ["transfer_to_bar"]);
}

#[tokio::test]
async fn what_cannot_be_is_no_house() {
    let model = quiet();
    let three = |reception: ReactAgent| {
        let kitchen = agent(&model, Toolset::new());
        [("reception", reception), ("kitchen", kitchen.clone()), ("bar", kitchen)]
    };
    let error = |agents: [(&str, ReactAgent); 3]| Handoffs::new(table(), agents).unwrap_err();
    let taken: DynamicTool = plain("transfer_to_bar", || async {});
    let taken = error(three(agent(&model, Toolset::new().with(taken))));
    assert!(matches!(&taken, HandoffError::Agent { agent, .. } if agent == "reception"), "{taken}");
    let inputs = Schema::new(json!({"properties": {"x": {"type": "integer"}}})).unwrap();
    let inputs = error(three(ReactAgent::builder(model.clone()).inputs(inputs).build().unwrap()));
    expect![[r#"nobody can hand off to "reception": it takes named inputs, and a conversation has none"#]]
        .assert_eq(&inputs.to_string());
    let two = [("reception", agent(&model, Toolset::new())), ("cellar", agent(&model, Toolset::new()))];
    assert!(matches!(Handoffs::new(table(), two).unwrap_err(), HandoffError::Table(_)));
}

/// Agents that hand off are an agent: a route of a router, and a tool.
#[tokio::test]
async fn a_house_is_an_agent() {
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("b", "pay", "{}")]).text("Paid.");
    let agents = [
        ("reception", agent(&reception, Toolset::new().with(add()))),
        ("kitchen", agent(&kitchen, Toolset::new().with(pay()))),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let house = Handoffs::new(table(), agents).unwrap();
    let route = Route::new("house", "a meal").with_keywords(["soup"]);
    let router = Router::new(RouteTable::new([route]), [("house", house)]).unwrap();
    let suspended = router.run("A soup.").await.unwrap().into_answer().unwrap_err();
    let output = router.run(RunInput::resume(saved(&suspended), approved("b"))).await.unwrap();
    assert_eq!(output.answer().unwrap().agent.as_deref(), Some("house/kitchen"));

    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let house = house_of(&reception, &quiet().calls([("b", "pay", "{}")]).text("Paid."));
    let model = quiet().calls([("1", "order", r#"{"task":"A soup."}"#)]).text("Ordered.");
    let parent = agent(&model, Toolset::new().with(house.into_tool("order", "Orders.")));
    let RunOutput::Suspended(suspended) = parent.run("Soup.").await.unwrap() else { panic!("it waits") };
    let output = parent.run(RunInput::resume(saved(&suspended), approved("1/b"))).await.unwrap();
    assert_eq!(output.results_of("order").next().unwrap().model_text(), "Paid.");
}

fn house_of(reception: &ScriptedModel, kitchen: &ScriptedModel) -> Handoffs {
    let agents = [
        ("reception", agent(reception, Toolset::new())),
        ("kitchen", agent(kitchen, Toolset::new().with(pay()))),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    Handoffs::new(table(), agents).unwrap()
}

/// A tool that ends the run ends it for whoever has it, also beside a hand-off.
#[tokio::test]
async fn a_tool_may_end_the_run_of_any_agent() {
    let sum = r#"{"x":1,"y":1}"#;
    let reception = quiet().calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("b", "add", sum), ("c", "transfer_to_bar", "{}")]);
    let input = RunInput::new("Hi").with_stop_on(["add"]);
    let answer = house([&reception, &kitchen, &quiet()]).run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("2", Some("kitchen")));
    assert_eq!(answer.stop_reason, StopReason::Tool);
    assert_paired(&answer.transcript);

    // Nobody took over then: who has answered has the conversation.
    let kitchen = quiet().text("And bread.");
    let next = RunInput::new("What else?").with_history(answer.transcript);
    let answer = house([&quiet(), &kitchen, &quiet()]).run(next).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.agent.as_deref(), Some("kitchen"));
}

/// What the question says of its run holds after it waited, too.
#[tokio::test]
async fn what_ends_a_run_is_not_forgotten_while_it_waits() {
    let reception = quiet().calls([("a", "pay", "{}")]).calls([("b", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().calls([("c", "add", r#"{"x":1,"y":1}"#)]);
    let agents = [
        ("reception", agent(&reception, Toolset::new().with(pay()))),
        ("kitchen", agent(&kitchen, calculator())),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let house = Handoffs::new(table(), agents).unwrap();
    let suspended =
        house.run(RunInput::new("Hi").with_stop_on(["add"])).await.unwrap().into_answer().unwrap_err();
    let output = house.run(RunInput::resume(saved(&suspended), approved("a"))).await.unwrap();
    assert_eq!(output.answer().unwrap().stop_reason, StopReason::Tool);
}

/// A call that a run must make is made once, by whoever has it then: who takes over need not even have the tool.
#[tokio::test]
async fn who_takes_over_is_not_forced_again() {
    let reception =
        quiet().calls([("a", "add", r#"{"x":1,"y":1}"#)]).calls([("b", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().text("Done.");
    let agents = [
        ("reception", agent(&reception, calculator())),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let add = ToolChoice::Tool(ToolName::new("add").unwrap());
    let house = Handoffs::new(table(), agents).unwrap();
    let answer = house.run(RunInput::new("Hi").with_tool_choice(add)).await.unwrap();
    assert_eq!(answer.text().unwrap(), "Done.");
    assert_eq!(kitchen.requests()[0].tool_choice, ToolChoice::Auto);
}

/// A tool that would end the run, made from a queue, ends nothing: the hand-off beside it takes place.
#[tokio::test]
async fn a_queued_tool_does_not_keep_a_hand_off_back() {
    let reception = quiet().calls([("a", "push", "{}"), ("b", "transfer_to_kitchen", "{}")]);
    let tools = calculator().with(push());
    let kitchen = quiet().text("Done.");
    let agents = [
        (
            "reception",
            ReactAgent::builder(reception).tools(tools).pending_queue().stop_on(["add"]).build().unwrap(),
        ),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    let answer = Handoffs::new(table(), agents).unwrap().run("Hi").await.unwrap();
    assert_eq!(answer.answer().unwrap().agent.as_deref(), Some("kitchen"));
}

/// Who takes over is shown what its own model has room for, not what was left out for another's.
#[tokio::test]
async fn what_was_left_out_for_one_is_shown_to_the_other() {
    let sum = r#"{"x":1,"y":1}"#;
    let reception = quiet()
        .calls([("a", "add", sum)])
        .calls([("b", "fail", "{}")])
        .fail(haft_core::model::ModelError::ContextTooLong("too much".to_owned()))
        .calls([("c", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().text("Done.");
    house([&reception, &kitchen, &quiet()]).run("Hi").await.unwrap();
    assert!(!lines(&reception.requests()[3]).contains("assistant: a add"), "it was too much for reception");
    assert!(lines(&kitchen.requests()[0]).contains("assistant: a add"));
}

/// What a tool has pushed is executed before somebody else goes on.
#[tokio::test]
async fn a_queue_comes_before_a_hand_off() {
    let reception = quiet().calls([("a", "push", "{}"), ("b", "transfer_to_kitchen", "{}")]);
    let kitchen = quiet().text("3.");
    let tools = calculator().with(push());
    let agents = [
        ("reception", ReactAgent::builder(reception).tools(tools).pending_queue().build().unwrap()),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&quiet(), Toolset::new())),
    ];
    Handoffs::new(table(), agents).unwrap().run("Hi").await.unwrap();
    expect![[r#"
        user: Hi
        assistant: a push{}; b transfer_to_kitchen{}
        tool: a 3
        tool: b Handed to kitchen, who goes on from here.
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&lines(&kitchen.requests()[0]));
}
