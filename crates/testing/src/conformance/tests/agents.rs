use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use expect_test::{Expect, expect};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;

use super::broken;
use crate::conformance;
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, ToolCall, ToolOutput, ToolResult, Transcript,
    agent::{AgentError, AgentErrorKind, Parked, RunStart},
    call::{Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    usage::Usage,
};

/// An agent that does one thing wrong, or none.
#[derive(Clone)]
struct Broken {
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

fn answered(transcript: Transcript) -> RunEvent {
    let answer = json!({
        "type": "answer",
        "text": "42",
        "steps": [],
        "usage": Usage::of_request(1, 1),
        "stop_reason": "finished",
        "transcript": transcript,
    });
    RunEvent::Done { output: serde_json::from_value(answer).unwrap() }
}

fn parked(state: u32) -> RunEvent {
    let pending = PendingCall { call: call(), pending: Pending::new(PendingKind::External) };
    RunEvent::Done { output: RunOutput::Parked(Parked { pending: vec![pending], state: json!(state) }) }
}

impl Broken {
    fn begin(&self, input: &RunInput) -> Vec<Event> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let (earlier, is_resumed) = match &input.start {
            RunStart::New { transcript, .. } => (transcript.clone(), false),
            RunStart::Resume { .. } => (Transcript::new(), true),
        };
        let mut said = if self.fault == "forgets" { Transcript::new() } else { earlier.clone() };
        said.push(Message::user("Hello."));
        let started = || Ok(RunEvent::CallStarted { call: call() });
        let finished = || Ok(RunEvent::CallFinished { result: result().into() });
        let request = |request| Ok(RunEvent::RequestStarted { request });
        match self.fault {
            "no end" => vec![request(1)],
            "two ends" => vec![Ok(answered(said.clone())), Ok(answered(said))],
            "numbers" => vec![request(7), Ok(answered(said))],
            "open call" => vec![started(), Ok(answered(said))],
            "unpaired" if earlier.is_empty() => {
                said.extend([Arc::new(calls())]);
                vec![started(), finished(), Ok(answered(said))]
            }
            "other end" if run > 1 => vec![Err(AgentErrorKind::ContentFiltered.into())],
            "refuses more" if !earlier.is_empty() => {
                vec![Err(AgentErrorKind::InvalidInput("no more".to_owned()).into())]
            }
            "counts anew" if is_resumed => vec![request(1), Ok(answered(said))],
            "waits" if is_resumed => vec![request(2), Ok(answered(said))],
            "waits" | "waits on" | "counts anew" => vec![
                request(if is_resumed { 2 } else { 1 }),
                started(),
                Ok(RunEvent::CallPending {
                    pending: PendingCall { call: call(), pending: Pending::new(PendingKind::External) }
                        .into(),
                }),
                Ok(parked(7)),
            ],
            _ => {
                if earlier.is_empty() {
                    said.extend([Arc::new(calls()), Arc::new(Message::tool(result()))]);
                }
                vec![request(1), started(), finished(), request(2), Ok(answered(said))]
            }
        }
    }
}

impl Agent for Broken {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Event> {
        let events = stream::iter(self.begin(&input));
        let token = input.context.cancellation.clone();
        match self.fault {
            "hangs" => stream::pending().boxed(),
            "deaf" => events.boxed(),
            "leaks" => {
                let work = tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(input);
                });
                drop(work);
                heeding(events.boxed(), token)
            }
            _ => heeding(events.boxed(), token),
        }
    }
}

/// Ends with an error where the token is cancelled.
fn heeding(
    events: BoxStream<'static, Event>,
    token: tokio_util::sync::CancellationToken,
) -> BoxStream<'static, Event> {
    let mut is_over = false;
    let events = events.map(Some).chain(stream::iter([None]));
    let heeded = events.filter_map(move |event| {
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
    heeded.boxed()
}

async fn check(fault: &'static str, expected: Expect) {
    let agent = Broken { fault, runs: Arc::default() };
    let report = conformance::agent(agent).await;
    expected.assert_eq(&broken(&report));
}

#[tokio::test]
async fn agents_that_answer_or_wait_have_no_findings() {
    check("none", expect![""]).await;
    check("waits", expect![""]).await;
}

#[tokio::test]
async fn events_without_an_end_or_out_of_order_are_found() {
    check("no end", expect!["a run ends with its output or an error, once: its stream ends with neither"])
        .await;
    check("two ends", expect!["a run ends with its output or an error, once: 1 events come after the end"])
        .await;
    check("numbers", expect!["requests are counted from 1: request 1 is told as 7"]).await;
    check("counts anew", expect!["requests are counted from 1: request 2 is told as 1"]).await;
    check("open call", expect![[r#"a call that begins ends, or waits: "call_1" does neither"#]]).await;
}

#[tokio::test]
async fn transcripts_that_no_provider_takes_are_found() {
    check("unpaired", expect![[r#"every call in a transcript has exactly one result, in call order: the call "call_1" has no result"#]]).await;
    check(
        "forgets",
        expect!["a conversation can be gone on with: the new transcript does not begin with the old one"],
    )
    .await;
    check("refuses more", expect!["a conversation can be gone on with: the run cannot begin: no more"]).await;
}

#[tokio::test]
async fn a_run_that_ends_in_another_way_or_waits_for_ever_is_found() {
    check(
        "other end",
        expect![[r#"
        run and stream come to the same kind of end: `stream` ends with an answer, `run` with an error
        cancelling ends a run: it ends with: a content filter of the provider stopped the reply"#]],
    )
    .await;
    check(
        "waits on",
        expect!["a run that waits goes on with an answer: all is answered, and it waits as before"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_found() {
    check("hangs", expect!["a run comes to an end: it does not in 5s"]).await;
    check("deaf", expect!["cancelling ends a run: cancelled before it began, it comes to an answer"]).await;
    check(
        "leaks",
        expect!["dropping the stream ends the run with all that is in it: something of it is left after 5s"],
    )
    .await;
}
