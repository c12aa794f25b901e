//! Tests of calls that the host program adds to a run.

use std::collections::BTreeSet;

use haft_core::{
    Timestamp, ToolCall, ToolError, ToolOutput, ToolResult,
    agent::{Limit, RunLimits, StopReason},
    call::{Decision, FailureKind, Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    model::{ChatResponse, ModelError, ToolChoice},
    toolset::ToolList,
};
use haft_react::{
    Dialect as _, Effect, LimitAction, NativeCalls, Run, RunConfig, Step,
    run::{RunError, RunState, call_results},
};
use serde_json::json;

use crate::{
    effects::advance,
    pairing::{assert_paired, message_lines},
};

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "look", "{}")
}

/// Creates a run with the given limits. The tests drive the run directly, without an agent.
fn new_run(limits: RunLimits) -> Run {
    Run::new(&RunConfig { limits, ..RunConfig::default() }, "Go.".into()).unwrap()
}

/// Reports a model reply to `run`, with one call to `look` for each id in `ids`.
fn reply(run: &mut Run, ids: &[&str]) {
    let tool_calls = ids.iter().map(|id| call(id)).collect();
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new(message), None))).unwrap();
}

/// Reports a successful result for the call `id` to `run`.
fn succeed(run: &mut Run, id: &str) {
    run.on_result(id, ToolResult::done("", "", ToolOutput::from("seen"))).unwrap();
}

#[test]
fn added_calls_run_after_the_calls_of_the_reply() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = new_run(RunLimits::default());
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
    reply(&mut run, &["a"]);
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    run.add_calls([call("x"), call("y")]).unwrap();
    succeed(&mut run, "a");
    let Effect::Call(batch) = advance(&mut run, &step).unwrap() else {
        panic!("the added calls are not executed")
    };
    assert_eq!(batch.calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["x", "y"]);
    run.on_result("y", ToolResult::failed("", "", &ToolError::failed("no luck"))).unwrap();
    succeed(&mut run, "x");
    let Effect::Chat(request) = advance(&mut run, &step).unwrap() else { panic!("no request") };
    expect_test::expect![[r#"
        user: Go.
        assistant: a look{}
        tool: a seen
        user: Results of calls:
        x: seen
        y: [look failed: no luck]
    "#]]
    .assert_eq(&message_lines(&request));
    let note = run.transcript().messages().last().unwrap();
    let results = call_results(note).unwrap();
    assert_eq!(results["x"]["executed"]["call_id"], json!("x"));
    assert_paired(run.transcript());

    // The id of an earlier call is rejected, even after the run was saved and loaded.
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    run.recover(&tools);
    for id in ["a", "x", ""] {
        assert_eq!(run.add_calls([call(id)]), Err(RunError::InvalidCallId(id.to_owned())));
    }
    assert_eq!(run.add_calls([call("z"), call("z")]), Err(RunError::InvalidCallId("z".to_owned())));
}

/// The run may end with the reply in flight, or with the output in validation. Added calls would
/// then not be executed, so they are rejected in these states.
#[test]
fn calls_are_rejected_while_the_run_may_end() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let config = RunConfig { check_outputs: true, ..RunConfig::default() };
    let mut run = Run::new(&config, "Go.".into()).unwrap();
    let rejected = |run: &mut Run, state| {
        assert_eq!(run.state(), state);
        assert_eq!(run.add_calls([call("x")]), Err(RunError::ReplyInProgress(state)));
    };
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
    rejected(&mut run, RunState::AwaitingReply);
    run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new("Seen."), None))).unwrap();
    rejected(&mut run, RunState::ReplyReceived);
    let Effect::Check(output) = advance(&mut run, &step).unwrap() else { panic!("no output to check") };
    rejected(&mut run, RunState::CheckingOutput);
    run.on_check(Ok(*output)).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Done(_)));
    assert_eq!(run.add_calls([call("x")]), Err(RunError::Ended));
}

#[test]
fn added_call_can_be_suspended() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = new_run(RunLimits::default());
    run.add_calls([call("x")]).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    let pending = Pending::new(PendingKind::External);
    run.on_pending(PendingCall { call: call("x"), pending }).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Wait(_)));
    assert_eq!(run.state(), RunState::Suspended);
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    run.on_decision("x", Decision::output("given")).unwrap();
    // The driver must list the tools again before a suspended call resumes.
    assert!(matches!(run.next(&step).unwrap(), Effect::Prepare));
    assert!(matches!(run.next(&step).unwrap(), Effect::Call(_)));
    succeed(&mut run, "x");
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
}

#[test]
fn limits_apply_to_added_calls() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = new_run(RunLimits { tool_calls: Some(1), ..RunLimits::default() });
    run.add_calls([call("x"), call("y")]).unwrap();
    let error = advance(&mut run, &step).unwrap_err().to_string();
    assert_eq!(error, Limit::ToolCalls(1).to_string());
    let results = call_results(run.transcript().messages().last().unwrap()).unwrap();
    let kind = |id: &str| results[id]["executed"]["outcome"]["failed"]["kind"].clone();
    assert_eq!([kind("x"), kind("y")], [json!(FailureKind::Denied), json!(FailureKind::Denied)]);

    // A cancellation also closes added calls that were not returned as `Effect::Call` yet.
    let mut run = new_run(RunLimits::default());
    run.add_calls([call("x")]).unwrap();
    run.cancel();
    assert!(call_results(run.transcript().messages().last().unwrap()).is_some());
    assert_eq!(run.add_calls([call("y")]), Err(RunError::Ended));
}

/// Calls added between `Effect::Prepare` and the model request are executed first. The run then
/// returns `Effect::Prepare` again, because the prepared request lacks their results.
#[test]
fn calls_added_while_preparing_run_before_the_request() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = new_run(RunLimits::default());
    assert!(matches!(run.next(&step).unwrap(), Effect::Prepare));
    run.add_calls([call("x")]).unwrap();
    assert!(matches!(run.next(&step).unwrap(), Effect::Call(_)));
    succeed(&mut run, "x");
    assert!(matches!(run.next(&step).unwrap(), Effect::Prepare));
    assert!(matches!(run.next(&step).unwrap(), Effect::Chat(_)));
}

/// Returns a run with a limit of one request, whose final request is in flight.
fn in_final_request(step: &Step<'_>) -> Run {
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let config = RunConfig { limits, limit_action: LimitAction::Answer, ..RunConfig::default() };
    let mut run = Run::new(&config, "Go.".into()).unwrap();
    assert!(matches!(advance(&mut run, step).unwrap(), Effect::Chat(_)));
    reply(&mut run, &["a"]);
    assert!(matches!(advance(&mut run, step).unwrap(), Effect::Call(_)));
    succeed(&mut run, "a");
    assert!(matches!(advance(&mut run, step).unwrap(), Effect::Chat(_)));
    run
}

/// If calls are added after a limit was reached, they are denied. The model still gets the final
/// request, because the user expects an answer.
#[test]
fn calls_added_after_a_limit_do_not_prevent_the_answer() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = in_final_request(&step);
    // The final request failed, so it is repeated.
    assert!(run.on_chat(Err(ModelError::ContextTooLong("too much".to_owned()))).is_err());
    run.add_calls([call("x")]).unwrap();
    let Effect::Chat(request) = advance(&mut run, &step).unwrap() else { panic!("no request") };
    assert_eq!(request.tool_choice, ToolChoice::None);
    let results = call_results(run.transcript().messages().last().unwrap()).unwrap();
    assert_eq!(results["x"]["executed"]["outcome"]["failed"]["kind"], json!(FailureKind::Denied));
    run.on_chat(Ok(NativeCalls.parse_reply(ChatResponse::new("Seen."), None))).unwrap();
    let Effect::Done(answer) = advance(&mut run, &step).unwrap() else { panic!("the run is not done") };
    assert_eq!((&*answer.text, answer.stop_reason), ("Seen.", StopReason::LimitReached));
}

#[test]
fn broken_reply_to_the_final_request_ends_at_the_limit() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = in_final_request(&step);
    let error = run.on_chat(Err(ModelError::EmptyResponse)).unwrap_err().to_string();
    assert_eq!(error, Limit::Requests(1).to_string());
    assert_eq!(run.state(), RunState::LimitReached);

    // After the limit is raised, the run can continue.
    run.set_limits(RunLimits::default());
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
}

/// If a run is cancelled after its stop tool succeeded, while an added call is suspended, each call
/// must still get a result.
#[test]
fn stopped_run_with_a_suspended_call_can_be_cancelled() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let stop_on = BTreeSet::from(["look".to_owned()]);
    let mut run = Run::new(&RunConfig { stop_on, ..RunConfig::default() }, "Go.".into()).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
    reply(&mut run, &["a"]);
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    run.add_calls([call("x")]).unwrap();
    succeed(&mut run, "a");
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    let pending = Pending::new(PendingKind::External);
    run.on_pending(PendingCall { call: call("x"), pending }).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Wait(_)));
    let mut decided = run.clone();
    run.cancel();
    assert_paired(run.transcript());
    assert!(call_results(run.transcript().messages().last().unwrap()).is_some());

    // Without a cancellation, the run finishes the added call and ends with the result of the stop
    // tool.
    decided.on_decision("x", Decision::output("given")).unwrap();
    assert!(matches!(advance(&mut decided, &step).unwrap(), Effect::Call(_)));
    succeed(&mut decided, "x");
    let Effect::Done(answer) = advance(&mut decided, &step).unwrap() else { panic!("the run is not done") };
    assert_eq!((&*answer.text, answer.stop_reason), ("seen", StopReason::Tool));
}
