//! Tests of decisions that a run remembers for later calls.

use futures::StreamExt as _;
use haft_core::{
    RunInput, RunOutput, Schema, Tool, ToolCall, ToolDefinition, ToolName, Toolset,
    agent::SuspendedRun,
    call::{ApprovalRule, Approvals, Decision, Pending, PendingCall, PendingKind, ToolResponse},
    message::AssistantMessage,
    model::ChatResponse,
    tool::{DynamicTool, Principal, RunContext, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{Effect, ReactAgent, Run, RunConfig, RunScope};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::{SCRIPTS, Script, reloaded, run_or_stream},
    effects::{advance, apply, reply, suspend},
    tools::{pushing_tool, tool_without_parameters},
};

/// Creates the tool `pay(to, amount)`. Each of its calls requires an approval.
fn pay(description: &str) -> impl Tool + 'static {
    let schema = json!({"properties": {"to": {"type": "string"}, "amount": {"type": "number"}}});
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let definition =
        ToolDefinition::new(ToolName::new("pay").unwrap(), Schema::for_arguments(schema).unwrap())
            .with_description(description)
            .with_policy(policy);
    DynamicTool::new(definition, |arguments, _| async move { format!("paid {}", arguments["to"]) })
}

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), Toolset::new().with_tool(pay(""))).unwrap()
}

/// Returns the ids of the calls that still need a decision.
fn open(suspended: &SuspendedRun) -> Vec<&str> {
    suspended.undecided_calls().into_iter().map(|it| it.call.id.as_str()).collect()
}

/// Returns the ids of the calls in `output` that still need a decision. The calls are then denied
/// until the run has its answer, so that the script of its model is used up.
async fn open_calls(agent: &ReactAgent, output: RunOutput) -> String {
    let mut suspended = reloaded(output);
    let ids = open(&suspended).join(" ");
    while let Err(next) =
        agent.run(suspended.decide(|_| Some(Decision::denied("no")))).await.unwrap().into_answer()
    {
        suspended = next;
    }
    ids
}

/// Returns the input that resumes `output` after a save and a load, with `decision` about the first
/// open call.
#[track_caller]
fn decided(output: RunOutput, decision: Decision) -> RunInput {
    let suspended = reloaded(output);
    let id = open(&suspended)[0].to_owned();
    suspended.resume([(id, decision)])
}

/// An approval for a tool covers its later calls in the run, in all dialects and after the run was
/// saved.
#[tokio::test]
async fn approval_for_a_tool_covers_later_calls() {
    for (script, streamed) in SCRIPTS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let calls = [
            ("1", "pay", r#"{"to":"ann","amount":1}"#),
            ("2", "pay", r#"{"to":"bob","amount":2}"#),
            ("3", "pay", r#"{"to":"cy"}"#),
        ];
        let agent = agent(&script.replies(&calls, "Paid."));
        let output = run_or_stream(&agent, "Pay.", streamed).await.unwrap();
        let input = decided(output, Decision::approved().for_tool());
        let output = run_or_stream(&agent, input, streamed).await.unwrap();
        let results: Vec<_> = output.results_of("pay").map(|it| it.model_text().into_owned()).collect();
        assert_eq!(results, [r#"paid "ann""#, r#"paid "bob""#, r#"paid "cy""#], "{script:?}");
    }
}

/// Without `for_tool` or `for_arguments`, a decision covers one call.
#[tokio::test]
async fn plain_approval_covers_one_call() {
    let call = ("1", "pay", r#"{"to":"ann"}"#);
    let agent = agent(&Script::Native.replies(&[call, ("2", "pay", r#"{"to":"ann"}"#)], "Paid."));
    let output = agent.run("Pay.").await.unwrap();
    let output = agent.run(decided(output, Decision::approved())).await.unwrap();
    assert_eq!(open_calls(&agent, output).await, "2");
}

/// Arguments are equal if their values are equal. The order of keys and the form of numbers have no
/// effect.
#[tokio::test]
async fn approval_for_arguments_compares_values() {
    let calls = [
        ("1", "pay", r#"{"to":"ann","amount":1}"#),
        ("2", "pay", r#"{"amount":1.0,"to":"ann"}"#),
        ("3", "pay", r#"{"amount":1e0, "to":"ann"}"#),
        ("4", "pay", r#"{"to":"ann","amount":2}"#),
    ];
    let agent = agent(&Script::Native.replies(&calls, "Paid."));
    let output = agent.run("Pay.").await.unwrap();
    let output = agent.run(decided(output, Decision::approved().for_arguments())).await.unwrap();
    let suspended = reloaded(output);
    assert_eq!(open(&suspended), ["4"]);
    let input = suspended.resume([("4", Decision::denied("too much"))]);
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Paid.");
}

/// Above 2^53, a fraction such as `9007199254740992.0` stands for several integers.
#[tokio::test]
async fn large_numbers_are_not_rounded() {
    let calls =
        [("1", "pay", r#"{"amount":9007199254740993}"#), ("2", "pay", r#"{"amount":9007199254740992.0}"#)];
    let agent = agent(&Script::Native.replies(&calls, "Paid."));
    let output = agent.run("Pay.").await.unwrap();
    let output = agent.run(decided(output, Decision::approved().for_arguments())).await.unwrap();
    assert_eq!(open_calls(&agent, output).await, "2");
}

/// An approval with changed arguments covers the changed arguments, and not the original ones.
#[tokio::test]
async fn approval_with_changed_arguments_covers_the_changed_arguments() {
    let (cheap, dear) = (r#"{"to":"ann","amount":1}"#, r#"{"to":"ann","amount":9}"#);
    let agent = agent(
        &Script::Native.replies(&[("1", "pay", dear), ("2", "pay", cheap), ("3", "pay", dear)], "Paid."),
    );
    let output = agent.run("Pay.").await.unwrap();
    let decision = Decision::approved_with_arguments(json!({"to": "ann", "amount": 1})).for_arguments();
    let output = agent.run(decided(output, decision)).await.unwrap();
    assert_eq!(open_calls(&agent, output).await, "3");
}

/// A remembered denial denies later calls with the same reason.
#[tokio::test]
async fn denial_for_a_tool_covers_later_calls() {
    for script in SCRIPTS {
        let calls = [("1", "pay", r#"{"to":"ann"}"#), ("2", "pay", r#"{"to":"bob"}"#)];
        let agent = agent(&script.replies(&calls, "Not paid."));
        let output = agent.run("Pay.").await.unwrap();
        let input = decided(output, Decision::denied("no money").for_tool());
        let answer = agent.run(input).await.unwrap().into_answer().unwrap();
        let results: Vec<_> = answer.steps.iter().map(|it| it.result.model_text().into_owned()).collect();
        assert_eq!(results, ["denied: no money", "denied: no money"], "{script:?}");
    }
}

/// A remembered decision also decides about the other suspended calls that it covers. A call with a
/// decision of its own keeps it.
#[tokio::test]
async fn remembered_decision_covers_the_suspended_calls_of_the_batch() {
    let model = ScriptedModel::new()
        .reply_calls([
            ("a", "pay", r#"{"to":"ann"}"#),
            ("b", "pay", r#"{"to":"bob"}"#),
            ("c", "pay", r#"{"to":"ann"}"#),
        ])
        .reply_text("Done.");
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Pay.").await.unwrap());
    let input = suspended
        .clone()
        .resume([("a", Decision::approved().for_tool()), ("b", Decision::denied("not bob"))]);
    let output = agent.run(input).await.unwrap();
    let results: Vec<_> = output.results_of("pay").map(|it| it.model_text().into_owned()).collect();
    assert_eq!(results, [r#"paid "ann""#, "denied: not bob", r#"paid "ann""#]);

    let model = ScriptedModel::new();
    let agent = ReactAgent::new(model, Toolset::new().with_tool(pay(""))).unwrap();
    let input = suspended.resume([("c", Decision::approved().for_arguments())]);
    assert_eq!(open(&reloaded(agent.run(input).await.unwrap())), ["b"]);
}

#[tokio::test]
async fn changed_definition_requires_a_new_approval() {
    let calls = [("1", "pay", r#"{"to":"ann"}"#), ("2", "pay", r#"{"to":"ann"}"#)];
    let approvals = Approvals::new();
    for (description, is_covered) in [("", true), ("Pays, and sends the user's files.", false)] {
        let model = Script::Native.replies(&calls, "Paid.");
        let agent = ReactAgent::new(model, Toolset::new().with_tool(pay(description))).unwrap();
        let output = agent.run(RunInput::new("Pay.").with_approvals(approvals.clone())).await.unwrap();
        if is_covered {
            let input = decided(output, Decision::approved().for_tool()).with_approvals(approvals.clone());
            assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Paid.");
        } else {
            assert_eq!(open_calls(&agent, output).await, "1");
        }
    }
}

fn principal(id: &str) -> Principal {
    Principal { id: id.to_owned(), ..Principal::default() }
}

/// The host carries remembered decisions to later runs of the same principal. They never apply to
/// another principal, or to a run without a principal.
#[tokio::test]
async fn approvals_are_carried_to_later_runs_of_the_same_principal() {
    let calls = [("1", "pay", r#"{"to":"ann"}"#)];
    let agent = |calls: &[_]| agent(&Script::Native.replies(calls, "Paid."));
    let approvals = Approvals::new();
    let input = |text: &str| RunInput::new(text).with_principal(principal("ann"));
    let first = agent(&calls);
    let output = first.run(input("Pay.").with_approvals(approvals.clone())).await.unwrap();
    let resumed = decided(output, Decision::approved().for_tool()).with_principal(principal("ann"));
    first.run(resumed.with_approvals(approvals.clone())).await.unwrap();

    let stored = serde_json::to_string(&approvals).unwrap();
    let stored = || serde_json::from_str::<Approvals>(&stored).unwrap();
    let output = agent(&calls).run(input("Again.").with_approvals(stored())).await.unwrap();
    assert_eq!(output.text().unwrap(), "Paid.");
    let others = [
        RunInput::new("Again.").with_principal(principal("bob")).with_approvals(stored()),
        RunInput::new("Again.").with_approvals(stored()),
        input("Again."),
    ];
    for input in others {
        let agent = agent(&calls);
        let output = agent.run(input).await.unwrap();
        assert_eq!(open_calls(&agent, output).await, "1");
    }
}

/// A run that is resumed for another principal does not use the decisions of the first principal.
#[tokio::test]
async fn resumption_for_another_principal_does_not_use_the_decisions() {
    let wait = tool_without_parameters("wait", || async {
        ToolResponse::Pending(Pending::new(PendingKind::input("Go on?")))
    });
    let model = ScriptedModel::new()
        .reply_calls([("a", "pay", r#"{"to":"x"}"#), ("b", "wait", "{}")])
        .reply_calls([("c", "pay", r#"{"to":"x"}"#)])
        .reply_text("Paid.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(pay("")).with_tool(wait)).unwrap();
    let ann = |input: RunInput| input.with_principal(principal("ann"));
    let suspended = reloaded(agent.run(ann("Pay.".into())).await.unwrap());
    let input = suspended.resume([("a", Decision::approved().for_tool())]);
    let suspended = reloaded(agent.run(ann(input)).await.unwrap());
    assert_eq!(open(&suspended), ["b"]);
    let input = suspended.resume([("b", Decision::denied("no"))]).with_principal(principal("bob"));
    let output = agent.run(input).await.unwrap();
    assert_eq!(open_calls(&agent, output).await, "c");
}

/// Approvals of the host also decide about the calls of a run that is resumed.
#[tokio::test]
async fn approvals_of_the_host_cover_suspended_calls() {
    let calls = [("1", "pay", r#"{"to":"ann"}"#)];
    let agent = |calls: &[_]| agent(&Script::Native.replies(calls, "Paid."));
    let approvals = Approvals::new();
    let (first, second) = (agent(&calls), agent(&calls));
    let waiting = reloaded(first.run("Pay.").await.unwrap());
    let output = second.run("Pay.").await.unwrap();
    let input = decided(output, Decision::approved().for_arguments()).with_approvals(approvals.clone());
    second.run(input).await.unwrap();
    let none: [(&str, Decision); 0] = [];
    let output = first.run(waiting.resume(none).with_approvals(approvals)).await.unwrap();
    assert_eq!(output.text().unwrap(), "Paid.");
}

/// The latest decision about the same calls applies. A decision about arguments has priority over a
/// decision about the tool.
#[tokio::test]
async fn latest_and_most_specific_decision_applies() {
    let call = |to: &str| format!(r#"{{"to":"{to}"}}"#);
    let (ann, bob) = (call("ann"), call("bob"));
    let model = ScriptedModel::new()
        .reply_calls([("a", "pay", ann.as_str()), ("b", "pay", bob.as_str())])
        .reply_calls([("c", "pay", ann.as_str()), ("d", "pay", bob.as_str()), ("e", "pay", "{}")])
        .reply_text("Done.");
    let agent = agent(&model);
    let suspended = reloaded(agent.run("Pay.").await.unwrap());
    let input = suspended
        .resume([("a", Decision::denied("not ann").for_arguments()), ("b", Decision::approved().for_tool())]);
    let output = agent.run(input).await.unwrap();
    let results: Vec<_> = output.results_of("pay").map(|it| it.model_text().into_owned()).collect();
    let denied = "denied: not ann";
    assert_eq!(results, [denied, r#"paid "bob""#, denied, r#"paid "bob""#, "paid null"]);
}

/// A remembered decision about a call of a child agent covers later calls of that child, and calls
/// of the parent and of other children to the same tool.
#[tokio::test]
async fn remembered_decision_covers_child_agents() {
    let child = |id: &'static str| {
        let model = ScriptedModel::new()
            .reply_calls([(id, "pay", r#"{"to":"ann"}"#)])
            .reply_calls([("next", "pay", r#"{"to":"bob"}"#)])
            .reply_text("Paid.");
        agent(&model)
    };
    let tools = Toolset::new()
        .with_tool(pay(""))
        .with_tool(child("1").into_tool("first", "Pays."))
        .with_tool(child("2").into_tool("second", "Pays."));
    let model = ScriptedModel::new()
        .reply_calls([("a", "first", r#"{"task":"Pay."}"#)])
        .reply_calls([("b", "second", r#"{"task":"Pay."}"#), ("c", "pay", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, tools).unwrap();
    let output = agent.run("Pay.").await.unwrap();
    assert_eq!(open(&reloaded(output.clone())), ["a/1"]);
    let output = agent.run(decided(output, Decision::approved().for_tool())).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

/// Two children wait in one batch. The decision about the call of one child also decides about the
/// call of the other child.
#[tokio::test]
async fn remembered_decision_covers_a_suspended_sibling() {
    let child = || agent(&Script::Native.replies(&[("1", "pay", r#"{"to":"ann"}"#)], "Paid."));
    let tools = Toolset::new()
        .with_tool(child().into_tool("first", "Pays."))
        .with_tool(child().into_tool("second", "Pays."));
    let task = r#"{"task":"Pay."}"#;
    let model =
        ScriptedModel::new().reply_calls([("a", "first", task), ("b", "second", task)]).reply_text("Done.");
    let agent = ReactAgent::new(model, tools).unwrap();
    let output = agent.run("Pay.").await.unwrap();
    assert_eq!(open(&reloaded(output.clone())), ["a/1", "b/1"]);
    let output = agent.run(decided(output, Decision::approved().for_arguments())).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
}

#[tokio::test]
async fn remembered_decision_covers_pushed_calls() {
    let push = pushing_tool("push", |calls| calls.push_call("pay", json!({"to": "bob"})));
    let calls = [("1", "pay", r#"{"to":"ann"}"#), ("2", "push", "{}")];
    let tools = Toolset::new().with_tool(pay("")).with_tool(push);
    let agent = ReactAgent::new(Script::Native.replies(&calls, "Done."), tools).unwrap();
    let output = agent.run("Pay.").await.unwrap();
    let output = agent.run(decided(output, Decision::approved().for_tool())).await.unwrap();
    assert_eq!(output.results_of("push").next().unwrap().model_text(), r#"paid "bob""#);
}

/// The approvals of the host also cover the waiting calls of a run whose driver crashed while other
/// calls were executed.
#[tokio::test]
async fn approvals_of_the_host_cover_calls_of_a_crashed_run() {
    let mut run = Run::new(&RunConfig::default(), "Pay.".into()).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let tool_calls = ["1", "2"].map(|id| ToolCall::new(id, "pay", "{}")).into();
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    reply(&mut run, ChatResponse::new(message)).unwrap();
    let Effect::Call(mut batch) = advance(&mut run).unwrap() else { panic!("{run:?}") };
    let mut pending = Pending::new(PendingKind::Approval { arguments: json!({}) });
    pending.definition = Some(pay("").definition().fingerprint());
    let pending = PendingCall { call: batch.calls.remove(0).call, pending };
    suspend(&mut run, pending.clone()).unwrap();

    let mut run: Run = serde_json::from_value(json!(run)).unwrap();
    let approvals = Approvals::new();
    approvals.extend(ApprovalRule::new(None, &pending, &Decision::approved().for_tool()));
    let context = RunContext { approvals: Some(approvals), ..RunContext::default() };
    let scope = RunScope::new(&mut run, context);
    let agent = agent(&ScriptedModel::new());
    let effect = advance(&mut run).unwrap();
    let outcomes: Vec<_> = agent.perform(&run, effect, &scope).collect().await;
    for outcome in outcomes {
        apply(&mut run, outcome.unwrap()).unwrap();
    }
    assert_eq!(run.pending_calls(), []);
}

/// A host that takes the rules out of its approvals withdraws them for later runs.
#[tokio::test]
async fn withdrawn_approvals_apply_to_later_runs_only() {
    let calls = [("1", "pay", r#"{"to":"ann"}"#), ("2", "pay", r#"{"to":"ann"}"#)];
    let agent = |calls: &[_]| agent(&Script::Native.replies(calls, "Paid."));
    let approvals = Approvals::new();
    let first = agent(&calls);
    let output = first.run("Pay.").await.unwrap();
    let input = decided(output, Decision::approved().for_tool()).with_approvals(approvals.clone());
    first.run(input).await.unwrap();
    assert_eq!(approvals.take().len(), 1);
    let later = agent(&calls);
    let output = later.run(RunInput::new("Pay.").with_approvals(approvals)).await.unwrap();
    assert_eq!(open_calls(&later, output).await, "1");
}
