//! Calls that the host adds to a run.

use haft_core::{
    Answer, AssistantMessage, ChatResponse, FailureKind, Limit, Pending, PendingCall, PendingKind, RunLimits,
    Timestamp, ToolCall, ToolError, ToolList, ToolOutput, ToolResult, json,
};
use haft_react::{
    Dialect as _, Effect, NativeCalls, Run, RunConfig, RunError, Step,
    run::{RunState, call_results},
};

use crate::{
    effects::advance,
    pairing::{assert_paired, lines},
};

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "look", "{}")
}

fn started(limits: RunLimits) -> Run {
    Run::new(&RunConfig { limits, ..RunConfig::default() }, "Go.".into()).unwrap()
}

fn reply(run: &mut Run, ids: &[&str]) {
    let tool_calls = ids.iter().map(|id| call(id)).collect();
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    run.on_chat(Ok(NativeCalls.fold(ChatResponse::new(message), None))).unwrap();
}

fn done(run: &mut Run, id: &str) {
    run.on_result(id, ToolResult::done("", "", ToolOutput::from("seen"))).unwrap();
}

#[test]
fn added_calls_run_after_those_of_the_reply_and_the_model_reads_their_results() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = started(RunLimits::default());
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
    reply(&mut run, &["a"]);
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    run.add_calls([call("x"), call("y")]).unwrap();
    done(&mut run, "a");
    let Effect::Call(batch) = advance(&mut run, &step).unwrap() else { panic!("they are executed") };
    assert_eq!(batch.calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["x", "y"]);
    run.on_result("y", ToolResult::failed("", "", &ToolError::failed("no luck"))).unwrap();
    done(&mut run, "x");
    let Effect::Chat(request) = advance(&mut run, &step).unwrap() else { panic!("it asks") };
    expect_test::expect![[r#"
        user: Go.
        assistant: a look{}
        tool: a seen
        user: Results of calls:
        x: seen
        y: [look failed: no luck]
    "#]]
    .assert_eq(&lines(&request));
    let note = run.transcript().messages().last().unwrap();
    let results = call_results(note).unwrap();
    assert_eq!(results["x"]["executed"]["call_id"], json!("x"));
    assert_paired(run.transcript());

    // Ids are used once, also after a load.
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    for id in ["a", "x", ""] {
        assert_eq!(run.add_calls([call(id)]), Err(RunError::DuplicateCallId(id.to_owned())));
    }
    assert_eq!(run.add_calls([call("z"), call("z")]), Err(RunError::DuplicateCallId("z".to_owned())));
}

#[test]
fn an_added_call_may_wait() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = started(RunLimits::default());
    run.add_calls([call("x")]).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Call(_)));
    let pending = Pending::new(PendingKind::External);
    run.on_pending(PendingCall { call: call("x"), pending }).unwrap();
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Wait(_)));
    assert_eq!(run.state(), RunState::Suspended);
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    run.on_answer("x", Answer::output("given")).unwrap();
    // The tools are listed again before a call goes on.
    assert!(matches!(run.next(&step).unwrap(), Effect::Prepare));
    assert!(matches!(run.next(&step).unwrap(), Effect::Call(_)));
    done(&mut run, "x");
    assert!(matches!(advance(&mut run, &step).unwrap(), Effect::Chat(_)));
}

#[test]
fn limits_hold_for_added_calls_and_each_has_a_result() {
    let tools = ToolList::default();
    let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    let mut run = started(RunLimits { tool_calls: Some(1), ..RunLimits::default() });
    run.add_calls([call("x"), call("y")]).unwrap();
    let error = advance(&mut run, &step).unwrap_err().to_string();
    assert_eq!(error, Limit::ToolCalls(1).to_string());
    let results = call_results(run.transcript().messages().last().unwrap()).unwrap();
    let kind = |id: &str| results[id]["executed"]["outcome"]["failed"]["kind"].clone();
    assert_eq!([kind("x"), kind("y")], [json!(FailureKind::Denied), json!(FailureKind::Denied)]);

    // Cancelled, also those that were not returned yet.
    let mut run = started(RunLimits::default());
    run.add_calls([call("x")]).unwrap();
    run.cancel();
    assert!(call_results(run.transcript().messages().last().unwrap()).is_some());
    assert_eq!(run.add_calls([call("y")]), Err(RunError::Over));
}
