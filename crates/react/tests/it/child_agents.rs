//! Tests of agents that are used as tools of other agents.

use std::time::Duration;

use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, Schema, Tool as _, ToolDefinition, ToolExt as _, ToolName, Toolset,
    agent::{AgentErrorKind, RunLimits, SuspendedRun},
    call::{Decision, Decisions, FailureKind, PendingCall, PendingKind},
    tool::{DynamicTool, RunContext},
};
use haft_middleware::AgentExt as _;
use haft_react::{ReactAgent, Run};
use haft_testing::ScriptedModel;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    pairing::assert_paired,
    tools::{DynamicSource, calculator, pushing_tool},
};

/// Creates the tool `name`, which has no arguments and returns "{name} is done".
fn tool(name: &str) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
    let name = name.to_owned();
    DynamicTool::new(definition, move |_, _| {
        let text = format!("{name} is done");
        async move { text }
    })
}

/// Returns a toolset with two tools whose calls are suspended: `pay` needs an approval, and `ship`
/// is external.
fn shop() -> Toolset {
    let tools = Toolset::new().with_tool(tool("pay")).with_tool(tool("ship"));
    let tools = tools.approval_required(|it| *it.name() == *"pay").external(|it| *it.name() == *"ship");
    Toolset::new().with_source(tools)
}

fn agent(model: ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model, tools).unwrap()
}

/// Creates an agent that can call `child` as the tool `buy`.
fn parent(model: ScriptedModel, child: ReactAgent) -> ReactAgent {
    agent(model, calculator().with_tool(child.into_tool("buy", "Buys something.")))
}

/// Serializes and deserializes `suspended`, as if another process resumed the run.
fn reloaded(suspended: &SuspendedRun) -> SuspendedRun {
    serde_json::from_str(&serde_json::to_string(suspended).unwrap()).unwrap()
}

/// Returns the ids of the suspended calls in `pending`. A call that runs a suspended child agent is
/// replaced by the suspended calls of the child.
fn ids<'a>(pending: impl IntoIterator<Item = &'a PendingCall>) -> Vec<&'a str> {
    pending.into_iter().flat_map(PendingCall::innermost_calls).map(|leaf| leaf.call.id.as_str()).collect()
}

fn decisions<const N: usize>(decisions: [(&str, Decision); N]) -> Decisions {
    decisions.into_iter().map(|(id, answer)| (id.to_owned(), answer)).collect()
}

#[tokio::test]
async fn answer_of_a_child_is_the_result() {
    let child = agent(
        ScriptedModel::new().reply_calls([("1", "add", r#"{"x":1,"y":2}"#)]).reply_text("It costs 3."),
        calculator(),
    );
    let model =
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]).reply_text("Bought for 3.");
    let answer = parent(model.clone(), child).run("Buy a pen.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "Bought for 3.");
    assert_eq!(answer.steps[0].result.model_text(), "It costs 3.");
    let definition = model.requests()[0].tools.get("buy").unwrap().definition().to_string();
    expect![[r#"buy: Buys something. Arguments: {"type":"object","properties":{"task":{"type":"string","description":"What is to be done, with all that must be known for it."}},"required":["task"],"additionalProperties":false}"#]].assert_eq(&definition);
}

/// The events of a run include those of its child runs, at any depth.
#[tokio::test]
async fn events_of_a_child_are_nested() {
    let adds = || ScriptedModel::new().reply_calls([("1", "add", r#"{"x":1,"y":2}"#)]).reply_text("3.");
    let grandchild = agent(adds(), calculator()).into_tool("count", "Counts.");
    let child =
        ScriptedModel::new().reply_calls([("2", "count", r#"{"task":"Add."}"#)]).reply_text("It is 3.");
    let child = agent(child, Toolset::new().with_tool(grandchild));
    let model =
        ScriptedModel::new().reply_calls([("3", "buy", r#"{"task":"A pen."}"#)]).reply_text("Bought for 3.");
    let mut events = parent(model, child).stream("Buy a pen.");
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        let mut event = event.unwrap();
        let mut path = String::new();
        while let RunEvent::Nested { call_id, event: inner } = event {
            path += &format!("{call_id}/");
            event = *inner;
        }
        let json = serde_json::to_value(&event).unwrap();
        kinds.push(format!("{path}{}", json["type"].as_str().unwrap()));
    }
    expect![[r#"
        request_started
        call_announced
        arguments_delta
        request_finished
        call_started
        3/request_started
        3/call_announced
        3/arguments_delta
        3/request_finished
        3/call_started
        3/2/request_started
        3/2/call_announced
        3/2/arguments_delta
        3/2/request_finished
        3/2/call_started
        3/2/call_finished
        3/2/request_started
        3/2/text_delta
        3/2/request_finished
        3/call_finished
        3/request_started
        3/text_delta
        3/request_finished
        call_finished
        request_started
        text_delta
        request_finished
        done"#]]
    .assert_eq(&kinds.join("\n"));
}

/// A suspended child agent suspends its parent. The ids of the child's calls are unique in the
/// parent's run, because they are prefixed with the id of the outer call. A decision for a prefixed
/// id reaches the child.
#[tokio::test]
async fn suspended_child_suspends_its_parent() {
    let script = || ScriptedModel::new().reply_calls([("1", "pay", "{}"), ("2", "ship", "{}")]);
    let child = agent(script().reply_text("Paid and shipped."), shop());
    let model =
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]).reply_text("Bought.");
    let agent = parent(model, child);

    let suspended = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap_err();
    assert_eq!(ids(&suspended.pending), ["1/1", "1/2"]);
    assert_eq!(suspended.pending[0].call.name, "buy");
    let PendingKind::Nested { pending } = &suspended.pending[0].pending.kind else { panic!() };
    assert!(matches!(pending[0].pending.kind, PendingKind::Approval { .. }));

    // The decisions arrive one at a time, and the run is serialized between them.
    let resume = RunInput::resume(reloaded(&suspended), decisions([("1/2", Decision::output("shipped"))]));
    let suspended = agent.run(resume).await.unwrap().into_answer().unwrap_err();
    assert_eq!(ids(&suspended.pending), ["1/1"]);
    let resume = RunInput::resume(reloaded(&suspended), decisions([("1/1", Decision::approved())]));
    let answer = agent.run(resume).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "Bought.");
    assert_eq!(answer.steps[0].result.model_text(), "Paid and shipped.");
    assert_paired(&answer.transcript);
}

#[tokio::test]
async fn decisions_reach_a_grandchild() {
    let grandchild = agent(
        ScriptedModel::new().reply_calls([("1", "pay", "{}"), ("2", "pay", "{ }")]).reply_text("Paid."),
        shop(),
    );
    let child = agent(
        ScriptedModel::new()
            .reply_calls([("1", "buy", r#"{"task":"Pay."}"#), ("2", "ship", "{}")])
            .reply_text("All done."),
        Toolset::new()
            .with_tool(grandchild.into_tool("buy", ""))
            .with_source(shop().filtered(|it| *it.name() != *"pay")),
    );
    let model =
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]).reply_text("Bought.");
    let agent = parent(model, child);
    let suspended = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap_err();
    assert_eq!(ids(&suspended.pending), ["1/1/1", "1/1/2", "1/2"]);
    let all = decisions([
        ("1/1/1", Decision::approved()),
        ("1/1/2", Decision::denied("twice")),
        ("1/2", Decision::output("shipped")),
    ]);
    let output = agent.run(RunInput::resume(reloaded(&suspended), all)).await.unwrap();
    assert_eq!(output.text().unwrap(), "Bought.");
}

#[tokio::test]
async fn decision_of_the_wrong_kind_is_an_error() {
    let child = agent(ScriptedModel::new().reply_calls([("1", "pay", "{}")]), shop());
    let agent = parent(ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]), child);
    let suspended = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap_err();
    let error = async |id: &str, answer: Decision| {
        let error =
            agent.run(RunInput::resume(reloaded(&suspended), decisions([(id, answer)]))).await.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)));
        error.to_string()
    };
    expect![[r#"the run cannot begin: the decision about the call "1/1" does not fit: the call needs an approval or a denial"#]].assert_eq(&error("1/1", Decision::output("paid")).await);
    expect![[
        r#"the run cannot begin: there is a decision about the call "1/7", which does not wait; waiting: 1/1"#
    ]]
    .assert_eq(&error("1/7", Decision::approved()).await);
    expect![[r#"the run cannot begin: the decision about the call "1" does not fit: the call needs decisions about the calls inside it"#]].assert_eq(&error("1", Decision::approved()).await);
}

/// A decision can deny the outer call, whose child agent is suspended. No decisions for the inner
/// calls are needed.
#[tokio::test]
async fn suspended_child_can_be_denied() {
    let child = agent(ScriptedModel::new().reply_calls([("1", "pay", "{}")]), shop());
    let model =
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]).reply_text("Not bought.");
    let agent = parent(model, child);
    let suspended = agent.run("Buy a pen.").await.unwrap().into_answer().unwrap_err();
    let denied = RunInput::resume(suspended, decisions([("1", Decision::denied("no money"))]));
    let answer = agent.run(denied).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.steps[0].result.failure().unwrap().kind, FailureKind::Denied);
}

/// If a child agent fails, the parent gets a failed result for its call, and continues.
#[tokio::test]
async fn failed_child_is_a_failed_call() {
    let child = ReactAgent::builder(ScriptedModel::new().reply_calls([("1", "add", "{}")]))
        .tools(calculator())
        .limits(RunLimits { requests: Some(1), ..RunLimits::default() })
        .build()
        .unwrap();
    let model =
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]).reply_text("I could not.");
    let answer = parent(model, child).run("Buy a pen.").await.unwrap().into_answer().unwrap();
    expect!["the agent did not finish: the limit of 1 model requests is reached"]
        .assert_eq(&answer.steps[0].result.model_text());
}

/// If an agent used as a tool declares inputs and outputs, the arguments of the tool call are its
/// structured input, and its structured output is the structured result of the call.
#[tokio::test]
async fn child_has_named_inputs_and_outputs() {
    let question = Schema::new(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]})).unwrap();
    let child = ReactAgent::builder(ScriptedModel::new().reply_calls([("1", "finish", r#"{"y":2}"#)]))
        .inputs(question.clone())
        .outputs(Schema::new(json!({"properties": {"y": {"type": "integer"}}})).unwrap())
        .build()
        .unwrap();
    let double = child.into_tool("double", "Doubles.").with_definition(|it| it.with_input_schema(question));
    let model = ScriptedModel::new().reply_calls([("1", "double", r#"{"x":1}"#)]).reply_text("2");
    let answer =
        agent(model, Toolset::new().with_tool(double)).run("Twice 1?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.steps[0].result.output().unwrap().structured, Some(json!({"y": 2})));
}

/// Creates a parent with a child and a grandchild. The grandchild calls `pay` and a second tool:
/// `hang` if `hangs` is `true`, otherwise `pay` again.
fn three_levels(hangs: bool) -> ReactAgent {
    let last = if hangs { ("2", "hang", "{}") } else { ("2", "pay", "{ }") };
    let hang = crate::tools::tool_without_parameters("hang", std::future::pending::<()>);
    let grandchild =
        agent(ScriptedModel::new().reply_calls([("1", "pay", "{}"), last]), shop().with_tool(hang));
    let child = agent(
        ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"Pay."}"#)]),
        Toolset::new().with_tool(grandchild.into_tool("buy", "")),
    );
    parent(ScriptedModel::new().reply_calls([("1", "buy", r#"{"task":"A pen."}"#)]), child)
}

/// A cancellation reaches the agent two levels down without delay, and gives every call a result.
#[tokio::test(start_paused = true)]
async fn cancellation_two_levels_down_closes_every_call() {
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let parent = three_levels(true);
    let run = parent.run(RunInput::new("Buy.").with_context(context));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        token.cancel();
        Instant::now()
    };
    let ((ended, at), cancelled) = tokio::join!(async { (run.await, Instant::now()) }, cancel);
    let error = ended.unwrap_err();
    assert!(at - cancelled < Duration::from_secs(1));
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    assert_paired(&error.transcript);
    assert_eq!(error.transcript.messages()[2].text(), "cancelled");
}

#[tokio::test]
async fn cancellation_of_a_suspended_grandchild_closes_its_call() {
    let parent = three_levels(false);
    let suspended = parent.run("Buy.").await.unwrap().into_answer().unwrap_err();
    assert_eq!(ids(&suspended.pending), ["1/1/1", "1/1/2"]);
    let mut run = Run::from_suspended(reloaded(&suspended)).unwrap();
    run.cancel();
    assert_paired(run.transcript());

    // Resume the run with only one of two decisions, and with a token that is already cancelled.
    let context = RunContext::default();
    context.cancellation.cancel();
    let resume = RunInput::resume(reloaded(&suspended), decisions([("1/1/1", Decision::approved())]));
    let error = parent.run(resume.with_context(context)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_paired(&error.transcript);
}

/// A child agent has a queue of its own. Otherwise, it could push calls to the tools of its parent,
/// through the handle of the call that runs the child.
#[tokio::test]
async fn child_agent_cannot_push_calls_to_the_tools_of_its_parent() {
    let push = pushing_tool("push", |calls| calls.push_call("pay", json!({})));
    // The source lists the tool only during a run.
    let tools = Toolset::new().with_source(DynamicSource::new(push));
    let child_model = ScriptedModel::new().reply_calls([("b", "push", "{}")]).reply_text("No.");
    let child = agent(child_model.clone(), tools);
    let model = ScriptedModel::new().reply_calls([("a", "buy", r#"{"task":"Buy."}"#)]).reply_text("Done.");
    let tools = Toolset::new().with_tool(child.into_tool("buy", "Buys something.")).with_tool(tool("pay"));
    let parent = ReactAgent::new(model, tools).unwrap();
    let answer = parent.run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.steps.len(), 1);
    let result = child_model.requests()[1].messages.iter().last().unwrap().text();
    assert!(result.starts_with("unknown tool \"pay\""), "{result}");
}
