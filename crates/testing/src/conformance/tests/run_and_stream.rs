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
    agent::AgentError, message::AssistantMessage, usage::Usage,
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
        let call = ToolCall::new("a", "add", json!({"x": 1}));
        let calls = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        let mut transcript = Transcript::new();
        transcript.push(Message::user("Hello."));
        transcript.push(Message::assistant(calls));
        transcript.push(Message::tool(ToolResult::done("a", "add", ToolOutput::from("2"))));
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

#[async_trait]
impl Agent for FaultyAgent {
    fn stream(&self, _: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let id = self.unless("other id", "a", "b").to_owned();
        let arguments = self.unless("other arguments", r#"{"x": 1}"#, "{}").to_owned();
        let result = ToolResult::done("a", "add", ToolOutput::from(self.unless("other result", "2", "3")));
        let delta = |text: &str| RunEvent::TextDelta { text: text.to_owned() };
        let usage = Usage::one_request(1, 1);
        let events = [
            RunEvent::RequestStarted { request: 1 },
            RunEvent::CallAnnounced { call_id: id.clone(), tool_name: "add".to_owned() },
            RunEvent::ArgumentsDelta { call_id: id, arguments },
            RunEvent::RequestFinished { usage },
            RunEvent::CallStarted { call: ToolCall::new("a", "add", json!({"x": 1})) },
            RunEvent::CallFinished { result: Arc::new(result) },
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

    async fn run(&self, _: RunInput) -> Result<RunOutput, AgentError> {
        self.whole_runs.fetch_add(1, Ordering::Relaxed);
        match self.fault {
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
        `run` and `stream` leave the same transcript: /messages/3/body/content/0/text: `run` has "43", `stream` has "42""#]]).await;
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

#[tokio::test]
async fn observations_are_compared_after_they_are_normalized() {
    let agent = FaultyAgent::new("none");
    let runs = Arc::clone(&agent.whole_runs);
    // The first observation follows `run`, and the second one follows `stream`.
    let observed = move || json!({"whole": runs.swap(0, Ordering::Relaxed)});
    let create = move || agent.clone();
    let report = conformance::run_and_stream(create.clone()).observe("effects", observed.clone()).await;
    expect!["`run` and `stream` have the same effects: effects/whole: `run` has 1, `stream` has 0"]
        .assert_eq(&format_violations(&report));

    let check = conformance::run_and_stream(create).observe("effects", observed);
    check.normalize(|data| drop(data.as_object_mut().map(|it| it.remove("whole")))).await.assert_conforms();
}
