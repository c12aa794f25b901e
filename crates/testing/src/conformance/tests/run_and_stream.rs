use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
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
    call::{Pending, PendingCall, PendingKind},
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
        let answer = json!({
            "type": "answer",
            "text": text,
            "outputs": outputs,
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
            _ if self.fault.starts_with("suspended") => {
                let events = [RunEvent::CallPending { pending }, RunEvent::Done { output: suspended() }];
                return stream::iter(events.map(Ok)).boxed();
            }
            _ => {}
        }
        let result = |id| Arc::new(ToolResult::done(id, "add", ToolOutput::from("2")));
        let delta = |text: &str| RunEvent::TextDelta { text: text.to_owned() };
        let events = [
            RunEvent::RequestStarted { request: 1 },
            RunEvent::RequestFinished { usage },
            RunEvent::CallStarted { call: call("a") },
            RunEvent::CallStarted { call: call("b") },
            RunEvent::CallFinished { result: result("a") },
            RunEvent::CallFinished { result: result("b") },
            RunEvent::RequestStarted { request: 2 },
            delta("Not this."),
            RunEvent::ReplyRejected { problem: "no".to_owned() },
            RunEvent::RequestStarted { request: 3 },
            delta("4"),
            delta(self.unless("lost delta", "2", "")),
            RunEvent::RequestFinished { usage },
            RunEvent::Done { output: self.output("42", usage) },
        ];
        stream::iter(events.map(Ok)).boxed()
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.whole_runs.fetch_add(1, Ordering::Relaxed);
        let is_new = !matches!(input.start, RunStart::Resume { .. });
        match self.fault {
            "suspended" | "suspended, other text" if is_new => Ok(suspended()),
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
    check("other text", expect![[r#"`run` and `stream` end with the same output, transcript and usage: /text: `run` has "43", `stream` has "42""#]]).await;
    check(
        "other usage",
        expect!["`run` and `stream` end with the same output, transcript and usage: /usage/output_tokens: `run` has 2, `stream` has 1"],
    )
    .await;
    check("error", expect![[r#"`run` and `stream` end with the same output, transcript and usage: /error: `run` has "Cancelled", `stream` has null"#]]).await;
    check("hangs", expect!["`run` and `stream` end: `run` does not in 50ms"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_differ_from_the_run_are_found() {
    check(
        "lost delta",
        expect![[
            r#"the deltas of the last reply are the answer: the answer is "42", but the deltas are "4""#
        ]],
    )
    .await;
    check("wrong output", expect![[r#"the deltas of the last reply are the answer: the output is {"n":1}, but the last partial output is None"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn suspended_runs_are_resumed_and_compared() {
    check("suspended", expect![""]).await;
    check("suspended, other text", expect![[r#"`run` and `stream` end with the same output, transcript and usage: /text: `run` has "43", `stream` has "42""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn changed_replies_can_be_allowed() {
    for fault in ["lost delta", "wrong output"] {
        let check = conformance::run_and_stream(move || FaultyAgent::new(fault));
        check.allow_changed_replies().await.assert_conforms();
    }
}

#[tokio::test]
async fn observations_are_compared() {
    let agent = FaultyAgent::new("none");
    let runs = Arc::clone(&agent.whole_runs);
    // Only the `duration` of a result is a time. The first observation follows `run`, and the
    // second one follows `stream`.
    let observed = move || json!({"duration": runs.swap(0, Ordering::Relaxed)});
    let report = conformance::run_and_stream(move || agent.clone()).observe("effects", observed).await;
    expect!["`run` and `stream` have the same effects: effects/duration: `run` has 1, `stream` has 0"]
        .assert_eq(&format_violations(&report));
}
