use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use expect_test::{Expect, expect};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;

use super::format_violations;
use crate::conformance;
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, ToolCall, ToolOutput, ToolResult, Transcript,
    agent::{AgentError, AgentErrorKind, RunStart, SuspendedRun},
    call::{Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    usage::Usage,
};

/// An agent with the fault named by `fault`. For example, `two ends` means that each run ends
/// twice. With the fault `none`, the agent conforms to the contract.
#[derive(Clone)]
struct FaultyAgent {
    fault: &'static str,
    runs: Arc<AtomicUsize>,
}

type Event = Result<RunEvent, AgentError>;

fn call() -> ToolCall {
    ToolCall::new("call_1", "add", "{}")
}

fn calls() -> Message {
    Message::assistant(AssistantMessage { tool_calls: vec![call()], ..AssistantMessage::default() })
}

fn result() -> ToolResult {
    ToolResult::done("call_1", "add", ToolOutput::from("42"))
}

fn answer(transcript: Transcript) -> RunEvent {
    let answer = json!({
        "type": "answer",
        "text": "42",
        "steps": [],
        "usage": Usage::one_request(1, 1),
        "stop_reason": "finished",
        "transcript": transcript,
    });
    RunEvent::Done { output: serde_json::from_value(answer).unwrap() }
}

fn suspended(state: u32) -> RunEvent {
    let pending = PendingCall { call: call(), pending: Pending::new(PendingKind::External) };
    RunEvent::Done {
        output: RunOutput::Suspended(SuspendedRun { pending: vec![pending], checkpoint: json!(state) }),
    }
}

impl FaultyAgent {
    fn begin(&self, input: &RunInput) -> Vec<Event> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let (earlier, is_resumed) = match &input.start {
            RunStart::New { transcript, .. } => (transcript.clone(), false),
            RunStart::Resume { .. } => (Transcript::new(), true),
        };
        let mut transcript = if self.fault == "forgets" { Transcript::new() } else { earlier.clone() };
        transcript.push(Message::user("Hello."));
        let started = || Ok(RunEvent::CallStarted { call: call() });
        let finished = || Ok(RunEvent::CallFinished { result: result().into() });
        let request = |request| Ok(RunEvent::RequestStarted { request });
        match self.fault {
            "no end" => vec![request(1)],
            "two ends" => vec![Ok(answer(transcript.clone())), Ok(answer(transcript))],
            "open call" => vec![started(), Ok(answer(transcript))],
            "unpaired" if earlier.is_empty() => {
                transcript.extend([Arc::new(calls())]);
                vec![started(), finished(), Ok(answer(transcript))]
            }
            "other end" if run > 1 => vec![Err(AgentErrorKind::ContentFiltered { reason: None }.into())],
            "rejects history" if !earlier.is_empty() => {
                vec![Err(AgentErrorKind::InvalidInput("no more".to_owned()).into())]
            }
            "suspends" if is_resumed => vec![request(2), Ok(answer(transcript))],
            "suspends" | "always suspends" => vec![
                request(if is_resumed { 2 } else { 1 }),
                started(),
                Ok(RunEvent::CallPending {
                    pending: PendingCall { call: call(), pending: Pending::new(PendingKind::External) }
                        .into(),
                }),
                Ok(suspended(7)),
            ],
            _ => {
                if earlier.is_empty() {
                    transcript.extend([Arc::new(calls()), Arc::new(Message::tool(result()))]);
                }
                vec![request(1), started(), finished(), request(2), Ok(answer(transcript))]
            }
        }
    }
}

impl Agent for FaultyAgent {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Event> {
        let events = stream::iter(self.begin(&input));
        let token = input.context.cancellation.clone();
        match self.fault {
            "hangs" => stream::pending().boxed(),
            "ignores cancellation" => events.boxed(),
            "leaks" => {
                let work = tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(input);
                });
                drop(work);
                with_cancellation(events.boxed(), token)
            }
            _ => with_cancellation(events.boxed(), token),
        }
    }
}

/// Returns `events`, but ends with [`AgentErrorKind::Cancelled`] as soon as `token` is cancelled.
fn with_cancellation(
    events: BoxStream<'static, Event>,
    token: tokio_util::sync::CancellationToken,
) -> BoxStream<'static, Event> {
    let mut is_over = false;
    let events = events.map(Some).chain(stream::iter([None]));
    let cancellable = events.filter_map(move |event| {
        let event = match event {
            _ if is_over => None,
            Some(_) if token.is_cancelled() => {
                is_over = true;
                Some(Err(AgentErrorKind::Cancelled.into()))
            }
            event => event,
        };
        async { event }
    });
    cancellable.boxed()
}

async fn check(fault: &'static str, expected: Expect) {
    let agent = FaultyAgent { fault, runs: Arc::default() };
    let report = conformance::agent(agent).await;
    expected.assert_eq(&format_violations(&report));
}

#[tokio::test]
async fn conforming_agents_have_no_findings() {
    check("none", expect![""]).await;
    check("suspends", expect![""]).await;
}

#[tokio::test]
async fn malformed_event_sequences_are_found() {
    check(
        "no end",
        expect!["a run ends exactly once, with its output or an error: the stream ends with neither"],
    )
    .await;
    check(
        "two ends",
        expect!["a run ends exactly once, with its output or an error: 1 events follow the end"],
    )
    .await;
    check("open call", expect![[r#"every started call finishes or is suspended: "call_1" does neither"#]])
        .await;
}

#[tokio::test]
async fn invalid_transcripts_are_found() {
    check("unpaired", expect![[r#"every call in a transcript has exactly one result, in call order: the call "call_1" has no result"#]]).await;
    check(
        "forgets",
        expect!["a conversation can be continued: the new transcript does not start with the old one"],
    )
    .await;
    check("rejects history", expect!["a conversation can be continued: the run cannot begin: no more"]).await;
}

#[tokio::test]
async fn inconsistent_ends_and_endless_suspension_are_found() {
    check(
        "other end",
        expect!["cancelling ends a run: it ends with: a content filter of the provider stopped the reply"],
    )
    .await;
    check(
        "always suspends",
        expect![
            "a suspended run can be saved, loaded and continued: with all decisions given, it is suspended as before"
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_do_not_end_are_found() {
    check("hangs", expect!["every run ends: no end in 5s"]).await;
    check(
        "ignores cancellation",
        expect!["cancelling ends a run: a run that was cancelled before its start answers"],
    )
    .await;
    check(
        "leaks",
        expect!["dropping the stream ends the run and its tasks: its context is still in use after 5s"],
    )
    .await;
}
