//! Tests of the steps in which hand-offs take place, and of the state that they share.

use expect_test::expect;
use haft_core::{
    RunInput, ToolExt as _, Toolset,
    call::{Decision, Decisions},
    tool::ToolPolicy,
};
use haft_react::{
    HandoffGroup, ReactAgent, RunHandle,
    handoff::HandoffHistory,
    router::{Route, RouteTable},
    run::Delivery,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{calculator, enqueueing_tool, pushing_tool, tool_without_parameters},
};

/// Creates the agents "a" and "b", which can hand off to each other.
fn group(a: ReactAgent, b: ReactAgent) -> HandoffGroup {
    let table = RouteTable::new([Route::new("a", "A."), Route::new("b", "B.")]);
    HandoffGroup::new(table, [("a", a), ("b", b)]).unwrap()
}

fn agent(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model.clone(), tools).unwrap()
}

/// Creates the tool `push`, which pushes a call to `pay`, and the tool `pay`, which needs an
/// approval.
fn pushing_tools() -> Toolset {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay =
        tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy));
    let push = pushing_tool("push", |calls| calls.push_call("pay", json!({})));
    Toolset::new().with_tool(push).with_tool(pay)
}

/// A reply contains a hand-off and a call that pushes a call to a tool with an approval. After the
/// approval, the pushed call is executed first, then the hand-off takes place.
#[tokio::test]
async fn suspended_pushed_call_is_executed_before_the_handoff() {
    let a = ScriptedModel::new().reply_calls([("1", "push", "{}"), ("2", "transfer_to_b", "{}")]);
    let b = ScriptedModel::new().reply_text("Done.");
    let group = group(agent(&a, pushing_tools()), agent(&b, Toolset::new()));
    let suspended = group.run("Hi").await.unwrap().into_answer().unwrap_err();
    let id = suspended.undecided_calls()[0].call.id.clone();
    let decisions = Decisions::from([(id, Decision::approved())]);
    let answer = group.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("Done.", Some("b")));
    assert_paired(&answer.transcript);
    expect![[r#"
        user: Hi
        assistant: 1 push{}; 2 transfer_to_b{}
        tool: 1 paid
        tool: 2 Handed to b, who goes on from here.
        user: You go on from here: a hands off.
    "#]]
    .assert_eq(&message_lines(&b.requests()[0]));
}

/// With `HandoffHistory::Question`, the steps of the previous agent are hidden. A message of the
/// user that arrived during these steps is still sent.
#[tokio::test]
async fn message_during_a_hidden_step_reaches_the_next_agent() {
    let a = ScriptedModel::new().reply_calls([("1", "ask", "{}"), ("2", "transfer_to_b", "{}")]);
    let b = ScriptedModel::new().reply_text("Soup and bread.");
    let tools = Toolset::new().with_tool(enqueueing_tool(&[("And bread!", Delivery::NextRequest)]));
    let group = group(agent(&a, tools), agent(&b, Toolset::new())).with_history(HandoffHistory::Question);
    group.run(RunHandle::new().bind("Soup.")).await.unwrap();
    expect![[r#"
        user: Soup.
        user: You go on from here: a hands off.
        user: And bread!
    "#]]
    .assert_eq(&message_lines(&b.requests()[0]));
}

/// A stop tool of the same reply takes precedence over the hand-off. If the run continues, the
/// model can hand off in a later reply.
#[tokio::test]
async fn unused_handoff_does_not_block_a_later_handoff() {
    let a = ScriptedModel::new()
        .reply_calls([("1", "add", r#"{"x":1,"y":1}"#), ("2", "transfer_to_b", "{}")])
        .reply_calls([("3", "transfer_to_b", "{}")]);
    let b = ScriptedModel::new().reply_text("B.");
    let stopping = ReactAgent::builder(a).tools(calculator()).stop_on(["add"]).build().unwrap();
    let handle = RunHandle::new();
    handle.enqueue("And now?", Delivery::Idle).unwrap();
    let group = group(stopping, agent(&b, Toolset::new()));
    let answer = group.run(handle.bind("Hi")).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref()), ("B.", Some("b")));
}
