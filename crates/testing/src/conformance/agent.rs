use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
};
use tokio_util::sync::CancellationToken;

use super::events::{self, Ended};
use super::{PATIENCE, Promise, Report, comes_true, pairing, within};
use haft_core::{
    Agent, RunInput, RunOutput, Transcript,
    agent::{AgentErrorKind, Parked},
    call::{Decision, PendingCall},
    tool::{Progress, ProgressSink, RunContext},
};

const ENDS: Promise = Promise {
    what: "a run comes to an end",
    remedy: "put a limit on what it may do and a deadline on what it waits for; give the check more time by `within`",
};
const PAIRED: Promise = Promise {
    what: "every call in a transcript has exactly one result, in call order",
    remedy: "close what is open with a result before the run ends, however it ends",
};
const ALIKE: Promise = Promise {
    what: "run and stream come to the same kind of end",
    remedy: "leave `run` as the trait has it, or make both of one loop",
};
const FOLLOWS: Promise = Promise {
    what: "a conversation can be gone on with",
    remedy: "take the transcript of `RunStart::New` as what was said before",
};
const SAVED: Promise = Promise {
    what: "a run that waits is the same after a round trip through JSON",
    remedy: "keep in `Parked::state` what JSON holds, and no handles",
};
const RESUMES: Promise = Promise {
    what: "a run that waits goes on with an answer",
    remedy: "read `RunStart::Resume`: the state that was parked, and answers by the ids of the calls that wait",
};
const CANCELLED: Promise = Promise {
    what: "cancelling ends a run",
    remedy: "watch the token of `RunInput::context`, close the open calls, and end with `AgentErrorKind::Cancelled`",
};
const DROPPED: Promise = Promise {
    what: "dropping the stream ends the run with all that is in it",
    remedy: "own what is spawned: abort it when the stream is dropped",
};

type MakeInput = dyn Fn() -> RunInput + Send + Sync;

/// Checks an agent: see [`agent`].
#[must_use = "a check does nothing until it is awaited"]
pub struct AgentCheck {
    agent: Arc<dyn Agent>,
    input: Box<MakeInput>,
    patience: Duration,
}

/// Checks what [`Agent`] promises: events in order and one end; a transcript in which every call has its result; conversations that go on; runs that
/// wait, are saved and resumed; runs that end when they are cancelled or dropped, and do not disturb one another.
///
/// The agent runs about eight times, each time with the same [input](AgentCheck::input). Of one that is over before anybody can cancel it, only a
/// token that is cancelled from the beginning is held against it: give it an input that takes a while.
pub fn agent(agent: impl Agent + 'static) -> AgentCheck {
    AgentCheck { agent: Arc::new(agent), input: Box::new(|| RunInput::new("Hello.")), patience: PATIENCE }
}

impl AgentCheck {
    /// Sets what each run begins with; its token and its progress sink are not used. Default: the message `Hello.`
    pub fn input(mut self, input: impl Fn() -> RunInput + Send + Sync + 'static) -> Self {
        self.input = Box::new(input);
        self
    }

    /// Sets how long each run may take. Default: five seconds.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn run(self) -> Report {
        let mut report = Report::new("the agent");
        let mut requests = 0;
        let first = self.stream((self.input)(), &mut requests, ENDS, &mut report).await;
        let Some(first) = first else { return report };
        match &first {
            Ok(RunOutput::Answer(answer)) => self.follow(&answer.transcript, &mut report).await,
            Ok(RunOutput::Parked(parked)) => self.resume(parked, requests, &mut report).await,
            Err(_) => {}
        }
        let again = within(self.patience, self.agent.run((self.input)())).await;
        match again {
            None => report.add(ENDS, format!("`run` does not in {:?}", self.patience)),
            Some(again) => {
                let kinds = (kind(&first), kind(&again));
                report.hold(ALIKE, kinds.0 == kinds.1, || {
                    format!("`stream` ends with {}, `run` with {}", kinds.0, kinds.1)
                });
            }
        }
        self.cancel(&mut report).await;
        self.drop_early(&mut report).await;
        let many = join_all((0..2).map(|_| within(self.patience, self.agent.run((self.input)())))).await;
        report.hold(ENDS, many.iter().all(Option::is_some), || "two runs side by side do not".to_owned());
        report
    }

    /// Runs to the end, and judges events and transcript.
    async fn stream(
        &self,
        input: RunInput,
        requests: &mut u32,
        promise: Promise,
        report: &mut Report,
    ) -> Option<Ended> {
        let Some(told) = within(self.patience, self.agent.stream(input).collect::<Vec<_>>()).await else {
            report.add(promise, format!("it does not in {:?}", self.patience));
            return None;
        };
        let ended = events::check(told, requests, report)?;
        let transcript = match &ended {
            Ok(RunOutput::Answer(answer)) => Some(&answer.transcript),
            Ok(RunOutput::Parked(_)) => None,
            Err(error) => Some(&error.transcript),
        };
        if let Some(problem) = transcript.and_then(pairing::broken) {
            report.add(PAIRED, problem);
        }
        Some(ended)
    }

    async fn follow(&self, said: &Transcript, report: &mut Report) {
        let context = (self.input)().context;
        let input = RunInput::new("And then?").with_history(said.clone()).with_context(context);
        match self.stream(input, &mut 0, FOLLOWS, report).await {
            Some(Ok(RunOutput::Answer(answer))) => {
                let begins = answer.transcript.messages().starts_with(said.messages());
                report.hold(FOLLOWS, begins, || {
                    "the new transcript does not begin with the old one".to_owned()
                });
            }
            Some(Err(error)) if matches!(*error.kind, AgentErrorKind::InvalidInput(_)) => {
                report.add(FOLLOWS, error.to_string());
            }
            _ => {}
        }
    }

    /// Saves a run that waits, and lets it go on with a denial of all, after so many requests.
    async fn resume(&self, parked: &Parked, mut requests: u32, report: &mut Report) {
        let saved = serde_json::to_string(parked).map_err(|error| error.to_string());
        let loaded =
            saved.and_then(|text| serde_json::from_str::<Parked>(&text).map_err(|error| error.to_string()));
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(problem) => return report.add(SAVED, problem),
        };
        report.hold(SAVED, loaded == *parked, || "it is another one".to_owned());
        report.hold(RESUMES, !parked.pending.is_empty(), || "it waits for nothing".to_owned());
        let leaves = loaded.pending.iter().flat_map(PendingCall::leaves);
        let answers = leaves.map(|leaf| (leaf.call.id.clone(), Decision::denied("not now"))).collect();
        let input = RunInput::resume(loaded.clone(), answers).with_context((self.input)().context);
        match self.stream(input, &mut requests, RESUMES, report).await {
            Some(Ok(RunOutput::Parked(again))) => {
                report
                    .hold(RESUMES, again != *parked, || "all is answered, and it waits as before".to_owned());
            }
            Some(Err(error))
                if matches!(*error.kind, AgentErrorKind::InvalidInput(_) | AgentErrorKind::OutOfTurn(_)) =>
            {
                report.add(RESUMES, error.to_string());
            }
            _ => {}
        }
    }

    /// Runs that are cancelled before they begin, and at their first event.
    async fn cancel(&self, report: &mut Report) {
        for at_once in [true, false] {
            let cancellation = CancellationToken::new();
            let input = (self.input)();
            let context = RunContext { cancellation: cancellation.clone(), ..input.context.clone() };
            let mut stream = self.agent.stream(input.with_context(context));
            let mut told = Vec::new();
            if !at_once {
                told.extend(within(self.patience, stream.next()).await.flatten());
            }
            cancellation.cancel();
            let Some(rest) = within(self.patience, stream.collect::<Vec<_>>()).await else {
                report.add(CANCELLED, format!("it goes on for {:?}", self.patience));
                continue;
            };
            told.extend(rest);
            match events::check(told, &mut 0, report) {
                Some(Err(error)) => {
                    let is_cancelled = matches!(*error.kind, AgentErrorKind::Cancelled);
                    report.hold(CANCELLED, is_cancelled, || format!("it ends with: {error}"));
                    if let Some(problem) = pairing::broken(&error.transcript) {
                        report.add(PAIRED, format!("cancelled, {problem}"));
                    }
                }
                // It was over by then.
                Some(Ok(_)) if !at_once => {}
                Some(Ok(_)) => report.add(CANCELLED, "cancelled before it began, it comes to an answer"),
                None => {}
            }
        }
    }

    /// What is left of a run holds its context.
    async fn drop_early(&self, report: &mut Report) {
        let input = (self.input)();
        let probe: Arc<dyn ProgressSink> = Arc::new(Probe);
        let watch = Arc::downgrade(&probe);
        let context = RunContext { progress: Some(probe), ..input.context.clone() };
        let mut stream = self.agent.stream(input.with_context(context));
        drop(within(self.patience, stream.next()).await);
        drop(stream);
        let ended = comes_true(self.patience, || watch.strong_count() == 0).await;
        report.hold(DROPPED, ended, || format!("something of it is left after {:?}", self.patience));
    }
}

impl IntoFuture for AgentCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

fn kind(ended: &Ended) -> &'static str {
    match ended {
        Ok(RunOutput::Answer(_)) => "an answer",
        Ok(RunOutput::Parked(_)) => "a run that waits",
        Err(_) => "an error",
    }
}

/// Lives as long as whoever holds the context of a run.
struct Probe;

impl ProgressSink for Probe {
    fn report(&self, _call_id: &str, _progress: Progress) {}
}

impl std::fmt::Debug for AgentCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentCheck").finish_non_exhaustive()
    }
}
