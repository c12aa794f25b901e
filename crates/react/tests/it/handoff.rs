//! Tests of hand-offs between agents.

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
    HandoffGroup, ReactAgent, Router, TextReact,
    handoff::{HandoffError, HandoffHistory},
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, failing_tool, pushing_tool, tool_without_parameters},
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

/// Creates three agents that can hand off to each other: reception, kitchen and bar.
fn restaurant(models: [&ScriptedModel; 3]) -> HandoffGroup {
    let [reception, kitchen, bar] = models.map(|model| agent(model, calculator().with_tool(failing_tool())));
    HandoffGroup::new(table(), [("reception", reception), ("kitchen", kitchen), ("bar", bar)]).unwrap()
}

fn empty_script() -> ScriptedModel {
    ScriptedModel::new()
}

/// Creates the tool `pay`, which needs an approval.
fn pay() -> impl haft_core::Tool + 'static {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy))
}

/// Creates the tool `push`, which queues a call to `add`.
fn push() -> DynamicTool {
    pushing_tool("push", |calls| calls.push_call("add", json!({"x": 1, "y": 2})))
}

/// Serializes and deserializes `suspended`, as if another process resumed the run.
fn reloaded(suspended: &SuspendedRun) -> SuspendedRun {
    serde_json::from_str(&serde_json::to_string(suspended).unwrap()).unwrap()
}

/// Returns decisions that approve the call `id`.
fn approved(id: &str) -> Decisions {
    Decisions::from([(id.to_owned(), Decision::approved())])
}

#[tokio::test]
async fn next_agent_gets_the_whole_conversation() {
    let reception = empty_script().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_calls([(
        "b",
        "transfer_to_kitchen",
        r#"{"reason":"soup"}"#,
    )]);
    let kitchen = empty_script().reply_text("One soup.");
    let agents = restaurant([&reception, &kitchen, &empty_script()]);
    let mut routes = Vec::new();
    let mut events = agents.stream("A soup for 1 + 1.");
    let output = loop {
        match events.next().await.unwrap().unwrap() {
            RunEvent::Routed { route, reason } => routes.push(format!("{}: {reason}", route.unwrap())),
            RunEvent::Done { output } => break output,
            _ => {}
        }
    };
    assert_eq!(routes, ["reception: it has the conversation", "kitchen: reception hands off: soup"]);

    let answer = output.into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("One soup.", Some("kitchen")));
    assert_eq!(answer.usage.requests, 3, "the usage must be the sum over all agents");
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
    .assert_eq(&message_lines(&kitchen.requests()[0]));
    let offered: Vec<_> = kitchen.requests()[0].tools.names().map(ToString::to_string).collect();
    assert_eq!(offered, ["add", "fail", "transfer_to_reception", "transfer_to_bar"]);
    let transfer = reception.requests()[0].tools.get("transfer_to_kitchen").unwrap().definition().to_string();
    expect![[r#"transfer_to_kitchen: Hands the conversation to kitchen, who answers in your place. Takes orders for food. Arguments: {"type":"object","properties":{"reason":{"type":"string","description":"Why, and what is left to do."}},"additionalProperties":false}"#]].assert_eq(&transfer);
}

/// If a reply contains a hand-off and other calls, every call gets a result. Only the first
/// hand-off of a reply takes place.
#[tokio::test]
async fn calls_beside_a_handoff_get_results() {
    let reception = empty_script().reply_calls([
        ("a", "add", r#"{"x":1,"y":1}"#),
        ("b", "transfer_to_bar", "{}"),
        ("c", "transfer_to_kitchen", "{}"),
        ("d", "fail", "{}"),
    ]);
    let bar = empty_script().reply_text("A tea.");
    let answer =
        restaurant([&reception, &empty_script(), &bar]).run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.agent.as_deref(), Some("bar"));
    expect![[r#"
        user: Hi
        assistant: a add{"x":1,"y":1}; b transfer_to_bar{}; c transfer_to_kitchen{}; d fail{}
        tool: a 2
        tool: b Handed to bar, who goes on from here.
        tool: c denied: this reply hands off the conversation by "transfer_to_bar" already
        tool: d no luck
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&message_lines(&bar.requests()[0]));
}

/// The agents have no hand-off tool for an unknown agent. If the model calls such a tool, the call
/// fails and the current agent continues.
#[tokio::test]
async fn handoff_to_an_unknown_agent_is_an_unknown_tool() {
    let reception =
        empty_script().reply_calls([("a", "transfer_to_cellar", "{}")]).reply_text("There is no cellar.");
    let answer = restaurant([&reception, &empty_script(), &empty_script()])
        .run("Wine?")
        .await
        .unwrap()
        .into_answer()
        .unwrap();
    assert_eq!(answer.agent.as_deref(), Some("reception"));
    assert_eq!(answer.steps[0].result.failure().unwrap().kind, FailureKind::NotFound);
}

/// After the maximum number of hand-offs, a further hand-off is denied and the current agent
/// answers.
#[tokio::test]
async fn number_of_handoffs_is_limited() {
    let reception = empty_script()
        .reply_calls([("a", "transfer_to_kitchen", r#"{"reason":"1"}"#)])
        .reply_calls([("c", "transfer_to_kitchen", r#"{"reason":"2"}"#)])
        .reply_text("Then I do it.");
    let kitchen = empty_script().reply_calls([("b", "transfer_to_reception", r#"{"reason":"3"}"#)]);
    let agents = restaurant([&reception, &kitchen, &empty_script()]).with_max_handoffs(2);
    let answer = agents.run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("Then I do it.", Some("reception")));
    expect!["denied: the conversation was handed off 2 times for this question, which is the most: answer yourself"]
        .assert_eq(&answer.steps[2].result.model_text());
}

/// All agents share one run, so the limit on repeated calls also ends a cycle of hand-offs.
#[tokio::test]
async fn cyclic_handoffs_end_the_run() {
    let calls = |model: ScriptedModel, to: &str| model.reply_calls([("", to, "{}")]);
    let (mut reception, mut kitchen) = (empty_script(), empty_script());
    for _ in 0..4 {
        reception = calls(reception, "transfer_to_kitchen");
        kitchen = calls(kitchen, "transfer_to_reception");
    }
    let error = restaurant([&reception, &kitchen, &empty_script()]).run("Hi").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(_))), "{error:?}");
    assert_paired(&error.transcript);
    assert_eq!(error.usage.requests, 8);
}

#[tokio::test]
async fn agents_share_the_limits_of_the_run() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("b", "add", r#"{"x":1,"y":1}"#)]);
    let limits = RunLimits { requests: Some(2), ..RunLimits::default() };
    let input = RunInput::new("Hi").with_limits(limits);
    let error = restaurant([&reception, &kitchen, &empty_script()]).run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(2))));
    assert_paired(&error.transcript);
}

/// A decision must reach the agent whose call was suspended, even if the suspended run was saved
/// and loaded in between.
#[tokio::test]
async fn decision_reaches_the_agent_of_the_suspended_call() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("b", "pay", "{}")]).reply_text("Paid.");
    let restaurant = || {
        let agents = [
            ("reception", agent(&reception, Toolset::new())),
            ("kitchen", agent(&kitchen, Toolset::new().with_tool(pay()))),
            ("bar", agent(&empty_script(), Toolset::new())),
        ];
        HandoffGroup::new(table(), agents).unwrap()
    };
    let suspended = restaurant().run("Hi").await.unwrap().into_answer().unwrap_err();
    let wrong = RunInput::resume(reloaded(&suspended), approved("a"));
    let error = restaurant().run(wrong).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)));
    let output = restaurant().run(RunInput::resume(reloaded(&suspended), approved("b"))).await.unwrap();
    let answer = output.into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("Paid.", Some("kitchen")));
    assert_eq!(answer.usage.requests, 3);
    assert_paired(&answer.transcript);
}

/// A hand-off takes place only after the suspended calls in the same reply have results.
#[tokio::test]
async fn suspended_call_delays_a_handoff() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}"), ("b", "pay", "{}")]);
    let kitchen = empty_script().reply_text("Thanks.");
    let restaurant = || {
        let agents = [
            ("reception", agent(&reception, Toolset::new().with_tool(pay()))),
            ("kitchen", agent(&kitchen, Toolset::new())),
            ("bar", agent(&empty_script(), Toolset::new())),
        ];
        HandoffGroup::new(table(), agents).unwrap()
    };
    let suspended = restaurant().run("Hi").await.unwrap().into_answer().unwrap_err();
    assert_eq!(kitchen.requests().len(), 0);
    let output = restaurant().run(RunInput::resume(reloaded(&suspended), approved("b"))).await.unwrap();
    assert_eq!(output.answer().unwrap().agent.as_deref(), Some("kitchen"));
    expect![[r#"
        user: Hi
        assistant: a transfer_to_kitchen{}; b pay{}
        tool: a Handed to kitchen, who goes on from here.
        tool: b paid
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&message_lines(&kitchen.requests()[0]));
}

/// The agent that answered last also gets the next question of the conversation.
#[tokio::test]
async fn next_question_goes_to_the_last_agent() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_text("One soup.").reply_text("With bread.");
    let agents = restaurant([&reception, &kitchen, &empty_script()]);
    let first = agents.run("Soup.").await.unwrap().into_answer().unwrap();
    let second = agents.run(RunInput::new("And bread.").with_history(first.transcript)).await.unwrap();
    let second = second.into_answer().unwrap();
    assert_eq!((&*second.text, second.agent.as_deref()), ("With bread.", Some("kitchen")));
    assert_eq!(*second.steps, []);
}

/// With `HandoffHistory::Question`, the model of the next agent receives the question and the
/// reason for the hand-off, but not the steps of the previous agent. The transcript stays complete.
#[tokio::test]
async fn handoff_can_carry_only_the_question() {
    let reception = empty_script().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_calls([(
        "b",
        "transfer_to_kitchen",
        r#"{"reason":"soup"}"#,
    )]);
    let kitchen = empty_script().reply_calls([("c", "add", r#"{"x":2,"y":2}"#)]).reply_text("Done.");
    let agents = restaurant([&reception, &kitchen, &empty_script()]).with_history(HandoffHistory::Question);
    let answer = agents.run("Soup.").await.unwrap().into_answer().unwrap();
    expect![[r#"
        user: Soup.
        user: You go on from here: reception hands off: soup.
        assistant: c add{"x":2,"y":2}
        tool: c 4
    "#]]
    .assert_eq(&message_lines(&kitchen.requests()[1]));
    assert_eq!((answer.transcript.len(), answer.steps.len()), (9, 3));
    assert_paired(&answer.transcript);
}

#[tokio::test]
async fn agents_have_their_own_dialects_and_outputs() {
    let reception = empty_script().reply_text("Thought: Hm.\nAction: transfer_to_kitchen\nArguments: {}");
    let kitchen = empty_script().reply_calls([("b", "finish", r#"{"dish":"soup"}"#)]);
    let outputs = Schema::new(json!({"properties": {"dish": {"type": "string"}}})).unwrap();
    let agents = [
        ("reception", ReactAgent::builder(reception.clone()).dialect(TextReact).build().unwrap()),
        (
            "kitchen",
            ReactAgent::builder(kitchen.clone()).instructions("You cook.").outputs(outputs).build().unwrap(),
        ),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let answer = HandoffGroup::new(table(), agents).unwrap().run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["dish"], "soup");
    assert_eq!(kitchen.requests()[0].instructions.as_ref().unwrap().text(), "You cook.");
}

#[tokio::test]
async fn cancellation_after_a_handoff_closes_every_call() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("b", "hang", "{}")]);
    let hang = tool_without_parameters("hang", std::future::pending::<()>);
    let agents = [
        ("reception", agent(&reception, Toolset::new())),
        ("kitchen", agent(&kitchen, Toolset::new().with_tool(hang))),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let mut events =
        HandoffGroup::new(table(), agents).unwrap().stream(RunInput::new("Hi").with_context(context));
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

/// `HandoffGroup::filtered` offers only the hand-offs that its filter allows.
#[tokio::test]
async fn handoffs_can_be_restricted() {
    let model = empty_script().reply_text("Hello.");
    let agents = || ["reception", "kitchen", "bar"].map(|name| (name, agent(&model, Toolset::new())));
    let restaurant =
        HandoffGroup::filtered(table(), agents(), |from, to| from == "reception" && to == "bar").unwrap();
    restaurant.run("Hi").await.unwrap();
    let offered: Vec<_> = model.requests()[0].tools.names().map(ToString::to_string).collect();
    assert_eq!(offered, ["transfer_to_bar"]);
}

#[tokio::test]
async fn invalid_agents_are_an_error_at_construction() {
    let model = empty_script();
    let three = |reception: ReactAgent| {
        let kitchen = agent(&model, Toolset::new());
        [("reception", reception), ("kitchen", kitchen.clone()), ("bar", kitchen)]
    };
    let error = |agents: [(&str, ReactAgent); 3]| HandoffGroup::new(table(), agents).unwrap_err();
    let duplicate: DynamicTool = tool_without_parameters("transfer_to_bar", || async {});
    let duplicate = error(three(agent(&model, Toolset::new().with_tool(duplicate))));
    assert!(
        matches!(&duplicate, HandoffError::ToolConflict { agent, .. } if agent == "reception"),
        "{duplicate}"
    );
    let inputs = Schema::new(json!({"properties": {"x": {"type": "integer"}}})).unwrap();
    let inputs = error(three(ReactAgent::builder(model.clone()).inputs(inputs).build().unwrap()));
    expect![[
        r#"cannot hand off to "reception": the agent has named inputs, which a conversation does not provide"#
    ]]
    .assert_eq(&inputs.to_string());
    let two = [("reception", agent(&model, Toolset::new())), ("cellar", agent(&model, Toolset::new()))];
    assert!(matches!(HandoffGroup::new(table(), two).unwrap_err(), HandoffError::InvalidTable(_)));
}

/// `HandoffGroup` implements `Agent`, so it can be a route of a router or a tool of another agent.
#[tokio::test]
async fn handoffs_are_a_route_and_a_tool() {
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("b", "pay", "{}")]).reply_text("Paid.");
    let agents = [
        ("reception", agent(&reception, Toolset::new().with_tool(add_tool()))),
        ("kitchen", agent(&kitchen, Toolset::new().with_tool(pay()))),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let restaurant = HandoffGroup::new(table(), agents).unwrap();
    let route = Route::new("restaurant", "a meal").with_keywords(["soup"]);
    let router = Router::new(RouteTable::new([route]), [("restaurant", restaurant)]).unwrap();
    let suspended = router.run("A soup.").await.unwrap().into_answer().unwrap_err();
    let output = router.run(RunInput::resume(reloaded(&suspended), approved("b"))).await.unwrap();
    assert_eq!(output.answer().unwrap().agent.as_deref(), Some("restaurant/kitchen"));

    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let restaurant =
        restaurant_with(&reception, &empty_script().reply_calls([("b", "pay", "{}")]).reply_text("Paid."));
    let model = empty_script().reply_calls([("1", "order", r#"{"task":"A soup."}"#)]).reply_text("Ordered.");
    let parent = agent(&model, Toolset::new().with_tool(restaurant.into_tool("order", "Orders.")));
    let RunOutput::Suspended(suspended) = parent.run("Soup.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let output = parent.run(RunInput::resume(reloaded(&suspended), approved("1/b"))).await.unwrap();
    assert_eq!(output.results_of("order").next().unwrap().model_text(), "Paid.");
}

/// Creates a group with the three agents of [`restaurant`]. Only the kitchen has a tool: `pay`.
fn restaurant_with(reception: &ScriptedModel, kitchen: &ScriptedModel) -> HandoffGroup {
    let agents = [
        ("reception", agent(reception, Toolset::new())),
        ("kitchen", agent(kitchen, Toolset::new().with_tool(pay()))),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    HandoffGroup::new(table(), agents).unwrap()
}

/// A stop tool also ends the run after a hand-off, even if the same reply contains another
/// hand-off.
#[tokio::test]
async fn stop_tool_ends_the_run_of_any_agent() {
    let sum = r#"{"x":1,"y":1}"#;
    let reception = empty_script().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("b", "add", sum), ("c", "transfer_to_bar", "{}")]);
    let input = RunInput::new("Hi").with_stop_on(["add"]);
    let answer =
        restaurant([&reception, &kitchen, &empty_script()]).run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("2", Some("kitchen")));
    assert_eq!(answer.stop_reason, StopReason::Tool);
    assert_paired(&answer.transcript);

    // The hand-off in the reply with the stop tool did not take place, so the next question goes to
    // the kitchen.
    let kitchen = empty_script().reply_text("And bread.");
    let next = RunInput::new("What else?").with_history(answer.transcript);
    let answer = restaurant([&empty_script(), &kitchen, &empty_script()])
        .run(next)
        .await
        .unwrap()
        .into_answer()
        .unwrap();
    assert_eq!(answer.agent.as_deref(), Some("kitchen"));
}

#[tokio::test]
async fn stop_tools_of_the_input_survive_a_suspension() {
    let reception =
        empty_script().reply_calls([("a", "pay", "{}")]).reply_calls([("b", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_calls([("c", "add", r#"{"x":1,"y":1}"#)]);
    let agents = [
        ("reception", agent(&reception, Toolset::new().with_tool(pay()))),
        ("kitchen", agent(&kitchen, calculator())),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let restaurant = HandoffGroup::new(table(), agents).unwrap();
    let suspended =
        restaurant.run(RunInput::new("Hi").with_stop_on(["add"])).await.unwrap().into_answer().unwrap_err();
    let output = restaurant.run(RunInput::resume(reloaded(&suspended), approved("a"))).await.unwrap();
    assert_eq!(output.answer().unwrap().stop_reason, StopReason::Tool);
}

/// A tool call is forced only once per run. After a hand-off, the tool choice is `Auto`, since the
/// next agent may not have the tool.
#[tokio::test]
async fn forced_call_does_not_apply_to_the_next_agent() {
    let reception = empty_script().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_calls([(
        "b",
        "transfer_to_kitchen",
        "{}",
    )]);
    let kitchen = empty_script().reply_text("Done.");
    let agents = [
        ("reception", agent(&reception, calculator())),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let add = ToolChoice::Tool(ToolName::new("add").unwrap());
    let restaurant = HandoffGroup::new(table(), agents).unwrap();
    let answer = restaurant.run(RunInput::new("Hi").with_tool_choice(add)).await.unwrap();
    assert_eq!(answer.text().unwrap(), "Done.");
    assert_eq!(kitchen.requests()[0].tool_choice, ToolChoice::Auto);
}

/// A queued call to a stop tool does not end the run, so the hand-off takes place.
#[tokio::test]
async fn queued_stop_tool_does_not_prevent_a_handoff() {
    let reception = empty_script().reply_calls([("a", "push", "{}"), ("b", "transfer_to_kitchen", "{}")]);
    let tools = calculator().with_tool(push());
    let kitchen = empty_script().reply_text("Done.");
    let agents = [
        ("reception", ReactAgent::builder(reception).tools(tools).stop_on(["add"]).build().unwrap()),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    let answer = HandoffGroup::new(table(), agents).unwrap().run("Hi").await.unwrap();
    assert_eq!(answer.answer().unwrap().agent.as_deref(), Some("kitchen"));
}

/// Messages that were omitted for one model are sent to the model of the next agent.
#[tokio::test]
async fn omissions_do_not_apply_to_the_next_agent() {
    let sum = r#"{"x":1,"y":1}"#;
    let reception = empty_script()
        .reply_calls([("a", "add", sum)])
        .reply_calls([("b", "fail", "{}")])
        .fail(haft_core::model::ModelError::ContextTooLong("too much".to_owned()))
        .reply_calls([("c", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_text("Done.");
    restaurant([&reception, &kitchen, &empty_script()]).run("Hi").await.unwrap();
    assert!(
        !message_lines(&reception.requests()[3]).contains("assistant: a add"),
        "the oldest step must be omitted for reception"
    );
    assert!(message_lines(&kitchen.requests()[0]).contains("assistant: a add"));
}

#[tokio::test]
async fn pushed_calls_run_before_a_handoff() {
    let reception = empty_script().reply_calls([("a", "push", "{}"), ("b", "transfer_to_kitchen", "{}")]);
    let kitchen = empty_script().reply_text("3.");
    let tools = calculator().with_tool(push());
    let agents = [
        ("reception", ReactAgent::builder(reception).tools(tools).build().unwrap()),
        ("kitchen", agent(&kitchen, Toolset::new())),
        ("bar", agent(&empty_script(), Toolset::new())),
    ];
    HandoffGroup::new(table(), agents).unwrap().run("Hi").await.unwrap();
    expect![[r#"
        user: Hi
        assistant: a push{}; b transfer_to_kitchen{}
        tool: a 3
        tool: b Handed to kitchen, who goes on from here.
        user: You go on from here: reception hands off.
    "#]]
    .assert_eq(&message_lines(&kitchen.requests()[0]));
}

/// A hook may neither rename a hand-off tool nor give its name to another tool, even if the
/// hand-off tool itself is hidden.
#[tokio::test]
async fn renamed_handoff_tool_ends_the_run() {
    let error = async |old: &'static str, new: &'static str| {
        let reception = ReactAgent::builder(empty_script())
            .tools(calculator())
            .prepare(move |mut request, _| async move {
                request.hide_tool(new);
                request.change_tool(old, |tool| tool.with_name(ToolName::new(new).unwrap()));
                Ok(request)
            })
            .build()
            .unwrap();
        let (kitchen, bar) = (agent(&empty_script(), Toolset::new()), agent(&empty_script(), Toolset::new()));
        let agents = [("reception", reception), ("kitchen", kitchen), ("bar", bar)];
        let error = HandoffGroup::new(table(), agents).unwrap().run("A soup.").await.unwrap_err();
        let AgentErrorKind::HookFailed { source, .. } = &*error.kind else { panic!("{error:?}") };
        source.to_string()
    };
    expect![[r#"the hand-off tool "transfer_to_kitchen" cannot be renamed"#]]
        .assert_eq(&error("transfer_to_kitchen", "cook").await);
    expect![[r#"the tool "add" cannot be renamed to "transfer_to_kitchen", the name of a hand-off tool"#]]
        .assert_eq(&error("add", "transfer_to_kitchen").await);
}
