use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;

use super::format_violations;
use crate::conformance;
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, ToolCall, ToolOutput, ToolResult, Transcript,
    agent::{AgentError, RunStart, SuspendedRun},
    call::{Decision, Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    usage::Usage,
};

/// An agent with the fault named by `fault`. With the fault `none`, the agent conforms.
#[derive(Clone)]
struct FaultyAgent {
    fault: &'static str,
    /// The number of runs with `run`.
    whole_runs: Arc<AtomicUsize>,
}

impl FaultyAgent {
    fn new(fault: &'static str) -> Self {
        Self { fault, whole_runs: Arc::default() }
    }

    /// Returns `other` if the agent has this `fault`, or else `usual`.
    fn unless<T>(&self, fault: &str, usual: T, other: T) -> T {
        if self.fault == fault { other } else { usual }
    }

    fn output(&self, text: &str, usage: Usage) -> RunOutput {
        let calls = vec![call("a"), call("b")];
        let calls = AssistantMessage { tool_calls: calls, ..AssistantMessage::default() };
        let mut transcript = Transcript::new();
        transcript.push(Message::user("Hello."));
        transcript.push(Message::assistant(calls));
        for id in ["a", "b"] {
            transcript.push(Message::tool(ToolResult::done(id, "add", ToolOutput::from("2"))));
        }
        transcript.push(Message::assistant(text));
        let outputs = self.unless("wrong output", json!({}), json!({"n": 1}));
        let report = json!({"guardrail": "limit", "stage": "call", "action": "rewrite", "call_id": "a"});
        let guardrails = self.unless("rewritten arguments", json!([]), json!([report]));
        let answer = json!({
            "type": "answer",
            "text": text,
            "outputs": outputs,
            "guardrails": guardrails,
            "steps": [],
            "usage": usage,
            "stop_reason": "finished",
            "transcript": transcript,
        });
        serde_json::from_value(answer).unwrap()
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "add", json!({"x": 1}))
}

/// An external call.
fn pending() -> PendingCall {
    PendingCall { call: call("a"), pending: Pending::new(PendingKind::External) }
}

fn suspended() -> RunOutput {
    RunOutput::Suspended(SuspendedRun { pending: vec![pending()], checkpoint: json!({"n": 1}) })
}

#[async_trait]
impl Agent for FaultyAgent {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let usage = Usage::one_request(1, 1);
        let pending = Box::new(pending());
        match &input.start {
            // The resumed run has the output of the external call.
            RunStart::Resume { .. } => {
                let result = ToolResult::done("a", "add", ToolOutput::from("2"));
                let events = [
                    RunEvent::CallStarted { call: call("a") },
                    RunEvent::CallFinished { result: Arc::new(result) },
                    RunEvent::Done { output: self.output("42", usage) },
                ];
                return stream::iter(events.map(Ok)).boxed();
            }
            _ if self.fault == "lost suspension" => {
                return stream::iter([Ok(RunEvent::Done { output: suspended() })]).boxed();
            }
            _ if self.fault.starts_with("suspended") => {
                let events = [RunEvent::CallPending { pending }, RunEvent::Done { output: suspended() }];
                return stream::iter(events.map(Ok)).boxed();
            }
            _ => {}
        }
        let id = self.unless("other id", "a", "b").to_owned();
        let arguments = self.unless("other arguments", r#"{"x": 1}"#, "{}").to_owned();
        let result = ToolResult::done("a", "add", ToolOutput::from(self.unless("other result", "2", "3")));
        let delta = |text: &str| RunEvent::TextDelta { text: text.to_owned() };
        let started = ["other start", "rewritten arguments"].contains(&self.fault);
        let started = if started { ToolCall::new("a", "add", json!({"x": 2})) } else { call("a") };
        let starts = self.unless("other order", [started.clone(), call("b")], [call("b"), started]);
        let starts = starts.into_iter().map(|call| RunEvent::CallStarted { call });
        let before = [
            RunEvent::RequestStarted { request: 1 },
            RunEvent::CallAnnounced { call_id: id.clone(), tool_name: "add".to_owned() },
            RunEvent::ArgumentsDelta { call_id: id, arguments },
            RunEvent::CallAnnounced { call_id: "b".to_owned(), tool_name: "add".to_owned() },
            RunEvent::ArgumentsDelta { call_id: "b".to_owned(), arguments: r#"{"x":1}"#.to_owned() },
            RunEvent::RequestFinished { usage },
        ];
        let other = ToolResult::done("b", "add", ToolOutput::from("2"));
        let after = [
            RunEvent::CallFinished { result: Arc::new(result) },
            RunEvent::CallFinished { result: Arc::new(other) },
            RunEvent::RequestStarted { request: 2 },
            delta("Not this."),
            RunEvent::ReplyRejected { problem: "no".to_owned() },
            RunEvent::RequestStarted { request: 3 },
            delta("4"),
            delta(self.unless("lost delta", "2", "")),
            RunEvent::RequestFinished { usage },
            RunEvent::Done { output: self.output("42", usage) },
        ];
        stream::iter(before.into_iter().chain(starts).chain(after).map(Ok)).boxed()
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.whole_runs.fetch_add(1, Ordering::Relaxed);
        let is_new = !matches!(input.start, RunStart::Resume { .. });
        match self.fault {
            "lost suspension" | "suspended" | "suspended, other text" if is_new => Ok(suspended()),
            "suspended, other text" => Ok(self.output("43", Usage::one_request(1, 1))),
            "hangs" => std::future::pending().await,
            "error" => Err(haft_core::agent::AgentErrorKind::Cancelled.into()),
            _ => {
                let tokens = self.unless("other usage", 1, 2);
                Ok(self.output(self.unless("other text", "42", "43"), Usage::one_request(1, tokens)))
            }
        }
    }
}

async fn check(fault: &'static str, expected: Expect) {
    let check = conformance::run_and_stream(move || FaultyAgent::new(fault));
    expected.assert_eq(&format_violations(&check.timeout(Duration::from_millis(50)).await));
}

#[tokio::test(start_paused = true)]
async fn equal_runs_have_no_findings() {
    check("none", expect![""]).await;
}

#[tokio::test(start_paused = true)]
async fn different_ends_are_found() {
    check("other text", expect![[r#"
        `run` and `stream` end with the same output or error: /text: `run` has "43", `stream` has "42"
        `run` and `stream` leave the same transcript: /messages/4/body/content/0/text: `run` has "43", `stream` has "42""#]]).await;
    check(
        "other usage",
        expect!["`run` and `stream` count the same usage: /output_tokens: `run` has 2, `stream` has 1"],
    )
    .await;
    check("error", expect![[r#"
        `run` and `stream` end with the same output or error: /error: `run` has "Cancelled", `stream` has null
        `run` and `stream` leave the same transcript: /messages/0: `run` has null, `stream` has {"body":{"role":"user","content":[{"type":"text","text":"Hello."}]}}
        `run` and `stream` count the same usage: /requests: `run` has 0, `stream` has 1"#]]).await;
    check("hangs", expect!["`run` and `stream` end: `run` does not in 50ms"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_differ_from_the_run_are_found() {
    check(
        "lost delta",
        expect![[r#"
        the text deltas of a reply are its text: no later reply in the transcript has the streamed text "4"
        the text deltas of the last reply are the answer: the answer is "42", but the deltas are "4""#]],
    )
    .await;
    check("wrong output", expect![[r#"the last partial output is the output: the output is {"n":1}, but the last partial output is None"#]]).await;
    check("other id", expect![[r#"an announced call has the id, the name and the arguments of the call in the transcript: ToolCall { id: "a", name: "add", arguments: "{\"x\":1}" } is not announced"#]]).await;
    check("other arguments", expect![[r#"an announced call has the id, the name and the arguments of the call in the transcript: ToolCall { id: "a", name: "add", arguments: "{\"x\":1}" } is not announced"#]]).await;
    check("other result", expect![[r#"the result in `CallFinished` is the result in the transcript: the transcript has {"call_id":"a","name":"add","outcome":{"done":{"content":[{"type":"text","text":"2"}]}}}, the event has {"call_id":"a","name":"add","outcome":{"done":{"content":[{"type":"text","text":"3"}]}}}"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn order_of_calls_is_checked() {
    check(
        "other order",
        expect![[r#"calls start in the order of the transcript: they start as ["b", "a"]"#]],
    )
    .await;
}

/// Arguments from a guardrail differ from the announcement.
#[tokio::test(start_paused = true)]
async fn rewritten_arguments_need_a_report() {
    check("other start", expect![[r#"an announced call has the id, the name and the arguments of the call in the transcript: ToolCall { id: "a", name: "add", arguments: "{\"x\":2}" } is not announced"#]]).await;
    check("rewritten arguments", expect![""]).await;
}

#[tokio::test(start_paused = true)]
async fn suspended_runs_are_resumed_and_compared() {
    check("lost suspension", expect![[r#"each call of a suspended run has a `CallPending`: Some("a") is suspended, but the events have []"#]]).await;
    check("suspended", expect![""]).await;
    check("suspended, other text", expect![[r#"
        `run` and `stream` end with the same output or error: /text: `run` has "43", `stream` has "42"
        `run` and `stream` leave the same transcript: /messages/4/body/content/0/text: `run` has "43", `stream` has "42""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn decisions_resume_a_run() {
    // Without a decision, the second part is not compared.
    let faulty = || FaultyAgent::new("suspended, other text");
    conformance::run_and_stream(faulty).decide(|_| None).await.assert_conforms();
    // Only the first of two runs gets a decision.
    let decided = AtomicBool::new(false);
    let decide =
        move |_: &PendingCall| (!decided.swap(true, Ordering::Relaxed)).then(|| Decision::denied("not now"));
    let report = conformance::run_and_stream(|| FaultyAgent::new("suspended")).decide(decide).await;
    expect!["`run` and `stream` end with the same output or error: `run` has 2 parts, `stream` has 1"]
        .assert_eq(&format_violations(&report));
}

#[tokio::test(start_paused = true)]
async fn changed_replies_can_be_allowed() {
    for fault in ["lost delta", "wrong output", "other id", "other arguments", "other start"] {
        let check = conformance::run_and_stream(move || FaultyAgent::new(fault));
        check.allow_changed_replies().await.assert_conforms();
    }
    let report =
        conformance::run_and_stream(|| FaultyAgent::new("other result")).allow_changed_replies().await;
    assert_eq!(report.findings().len(), 1, "{report}");
}

#[tokio::test]
async fn observations_are_compared_after_they_are_normalized() {
    let agent = FaultyAgent::new("none");
    let runs = Arc::clone(&agent.whole_runs);
    // Only the `duration` of a result is a time. The first observation follows `run`, and the
    // second one follows `stream`.
    let observed = move || json!({"duration": runs.swap(0, Ordering::Relaxed)});
    let create = move || agent.clone();
    let report = conformance::run_and_stream(create.clone()).observe("effects", observed.clone()).await;
    expect!["`run` and `stream` have the same effects: effects/duration: `run` has 1, `stream` has 0"]
        .assert_eq(&format_violations(&report));

    let check = conformance::run_and_stream(create).observe("effects", observed);
    check
        .normalize(|data| drop(data.as_object_mut().map(|it| it.remove("duration"))))
        .await
        .assert_conforms();
}
