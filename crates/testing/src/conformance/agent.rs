use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::events::{self, RunEnd};
use super::{DEFAULT_TIMEOUT, Report, Rule, pairing, wait_until, with_timeout};
use haft_core::{
    Agent, RunInput, RunOutput, Transcript,
    agent::{AgentErrorKind, SuspendedRun},
    call::{Decision, PendingCall},
    tool::{Progress, ProgressSink, RunContext},
};

const RUN_ENDS: Rule = Rule {
    text: "every run ends",
    remedy: "limit the requests of a run and put a deadline on each wait; allow the check more time with `timeout`",
};
const CALLS_PAIRED: Rule = Rule {
    text: "every call in a transcript has exactly one result, in call order",
    remedy: "add a result for each open call before the run ends, also after an error",
};
const CONVERSATION_CONTINUES: Rule = Rule {
    text: "a conversation can be continued",
    remedy: "treat the transcript of `RunStart::New` as the earlier conversation",
};
const SUSPENSION_RESUMES: Rule = Rule {
    text: "a suspended run can be saved, loaded and continued",
    remedy: "keep only JSON data in `SuspendedRun::checkpoint`; read `RunStart::Resume`: the saved state, and the decisions by call id",
};
const CANCELLED_RUN_ENDS: Rule = Rule {
    text: "cancelling ends a run",
    remedy: "watch the token of `RunInput::context`, close the open calls, and end with `AgentErrorKind::Cancelled`",
};
const DROPPED_RUN_ENDS: Rule = Rule {
    text: "dropping the stream ends the run and its tasks",
    remedy: "own spawned tasks: abort them when the stream is dropped",
};

type MakeInput = dyn Fn() -> RunInput + Send + Sync;

/// A conformance check of an agent, created by [`agent`]. It runs when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct AgentCheck {
    agent: Arc<dyn Agent>,
    input: Box<MakeInput>,
    timeout: Duration,
}

/// Creates a check of `agent` against these rules of the [`Agent`] contract:
///
/// - events are in order, and a run ends exactly once
/// - every call in a transcript has exactly one result
/// - conversations can be continued
/// - suspended runs can be saved and resumed
/// - runs end when they are cancelled or dropped
///
/// The agent runs about five times. Every run uses the [input](AgentCheck::input) of the check,
/// except for the runs that continue a conversation or resume a suspended run. Choose an input that
/// takes the agent some time. If each run finishes before the check can cancel it, only a
/// cancellation before the start of a run is tested.
pub fn agent(agent: impl Agent + 'static) -> AgentCheck {
    AgentCheck {
        agent: Arc::new(agent),
        input: Box::new(|| RunInput::new("Hello.")),
        timeout: DEFAULT_TIMEOUT,
    }
}

impl AgentCheck {
    /// Sets the function that creates the input of each run. The default input is the message
    /// `Hello.` In some runs, the check replaces the cancellation token or the progress sink of the
    /// input.
    pub fn input(mut self, input: impl Fn() -> RunInput + Send + Sync + 'static) -> Self {
        self.input = Box::new(input);
        self
    }

    /// Sets the timeout of each run. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn run(self) -> Report {
        let mut report = Report::new("the agent");
        match self.stream((self.input)(), RUN_ENDS, &mut report).await {
            None => return report,
            Some(Ok(RunOutput::Answer(answer))) => {
                self.continue_conversation(&answer.transcript, &mut report).await;
            }
            Some(Ok(RunOutput::Suspended(suspended))) => self.resume(&suspended, &mut report).await,
            Some(Err(_)) => {}
        }
        self.cancel(&mut report).await;
        self.drop_early(&mut report).await;
        report
    }

    /// Runs the agent until the run ends. Checks the events and the transcript, and returns the
    /// output or the error of the run. Returns `None` if the run does not end within the timeout,
    /// which is a violation of `rule`, or if the stream ends without an output or an error.
    async fn stream(&self, input: RunInput, rule: Rule, report: &mut Report) -> Option<RunEnd> {
        let Some(events) = with_timeout(self.timeout, self.agent.stream(input).collect::<Vec<_>>()).await
        else {
            report.add_finding(rule, format!("no end in {:?}", self.timeout));
            return None;
        };
        let end = events::check_events(events, report)?;
        check_pairing(&end, report);
        Some(end)
    }

    /// Runs the agent with the messages of `earlier` as history, and checks that the new transcript
    /// starts with these messages.
    async fn continue_conversation(&self, earlier: &Transcript, report: &mut Report) {
        let context = (self.input)().context;
        let input = RunInput::new("And then?").with_history(earlier.clone()).with_context(context);
        match self.stream(input, CONVERSATION_CONTINUES, report).await {
            Some(Ok(RunOutput::Answer(answer))) => {
                let is_continued = answer.transcript.messages().starts_with(earlier.messages());
                report.require(CONVERSATION_CONTINUES, is_continued, || {
                    "the new transcript does not start with the old one".to_owned()
                });
            }
            Some(Err(error)) if matches!(*error.kind, AgentErrorKind::InvalidInput(_)) => {
                report.add_finding(CONVERSATION_CONTINUES, error.to_string());
            }
            _ => {}
        }
    }

    /// Saves `suspended` as JSON, loads it again, and denies all of its pending calls. Checks that
    /// the loaded run equals `suspended`, and that the resumed run does not reject its input or
    /// return the same suspended run again.
    async fn resume(&self, suspended: &SuspendedRun, report: &mut Report) {
        let saved = serde_json::to_string(suspended);
        let loaded: SuspendedRun = match saved.and_then(|text| serde_json::from_str(&text)) {
            Ok(loaded) => loaded,
            Err(problem) => return report.add_finding(SUSPENSION_RESUMES, problem.to_string()),
        };
        report.require(SUSPENSION_RESUMES, loaded == *suspended, || "it differs after loading".to_owned());
        let leaves = loaded.pending.iter().flat_map(PendingCall::innermost_calls);
        let decisions = leaves.map(|leaf| (leaf.call.id.clone(), Decision::denied("not now"))).collect();
        let input = RunInput::resume(loaded.clone(), decisions).with_context((self.input)().context);
        match self.stream(input, SUSPENSION_RESUMES, report).await {
            Some(Ok(RunOutput::Suspended(again))) => {
                report.require(SUSPENSION_RESUMES, again != *suspended, || {
                    "with all decisions given, it is suspended as before".to_owned()
                });
            }
            Some(Err(error))
                if matches!(
                    *error.kind,
                    AgentErrorKind::InvalidInput(_) | AgentErrorKind::UnexpectedOutcome(_)
                ) =>
            {
                report.add_finding(SUSPENSION_RESUMES, error.to_string());
            }
            _ => {}
        }
    }

    /// Cancels one run before its start and a second run after its first event. Checks that both
    /// end with [`AgentErrorKind::Cancelled`]. The second run may also end with an output, if it
    /// finishes before it is cancelled.
    async fn cancel(&self, report: &mut Report) {
        for at_once in [true, false] {
            let cancellation = CancellationToken::new();
            let input = (self.input)();
            let context = RunContext { cancellation: cancellation.clone(), ..input.context.clone() };
            let mut stream = self.agent.stream(input.with_context(context));
            let mut events = Vec::new();
            if !at_once {
                events.extend(with_timeout(self.timeout, stream.next()).await.flatten());
            }
            cancellation.cancel();
            let Some(rest) = with_timeout(self.timeout, stream.collect::<Vec<_>>()).await else {
                report.add_finding(CANCELLED_RUN_ENDS, format!("it still runs after {:?}", self.timeout));
                continue;
            };
            events.extend(rest);
            let end = events::check_events(events, report);
            if let Some(end) = &end {
                check_pairing(end, report);
            }
            match end {
                Some(Err(error)) => {
                    let is_cancelled = matches!(*error.kind, AgentErrorKind::Cancelled);
                    report.require(CANCELLED_RUN_ENDS, is_cancelled, || format!("it ends with: {error}"));
                }
                // The run finished before the check cancelled it.
                Some(Ok(_)) if !at_once => {}
                Some(Ok(_)) => report
                    .add_finding(CANCELLED_RUN_ENDS, "a run that was cancelled before its start answers"),
                None => {}
            }
        }
    }

    /// Drops the event stream of a run after the first event, and checks that this drops the
    /// context of the run. A task that outlives the stream would keep the context alive.
    async fn drop_early(&self, report: &mut Report) {
        let input = (self.input)();
        let probe: Arc<dyn ProgressSink> = Arc::new(ContextProbe);
        let weak = Arc::downgrade(&probe);
        let context = RunContext { progress: Some(probe), ..input.context.clone() };
        let mut stream = self.agent.stream(input.with_context(context));
        drop(with_timeout(self.timeout, stream.next()).await);
        drop(stream);
        let ended = wait_until(self.timeout, || weak.strong_count() == 0).await;
        report.require(DROPPED_RUN_ENDS, ended, || {
            format!("its context is still in use after {:?}", self.timeout)
        });
    }
}

impl IntoFuture for AgentCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

/// Checks that each call in the transcript of a finished run has a result.
fn check_pairing(end: &RunEnd, report: &mut Report) {
    let transcript = match end {
        Ok(RunOutput::Answer(answer)) => &answer.transcript,
        Ok(RunOutput::Suspended(_)) => return,
        Err(error) => &error.transcript,
    };
    if let Some(problem) = pairing::find_pairing_problem(transcript) {
        report.add_finding(CALLS_PAIRED, problem);
    }
}

/// A progress sink that does nothing. The check adds it to the context of a run. As long as a
/// reference to the sink exists, the context is still in use, for example by a leaked task.
struct ContextProbe;

impl ProgressSink for ContextProbe {
    fn report(&self, _call_id: &str, _progress: Progress) {}
}

impl std::fmt::Debug for AgentCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentCheck").finish_non_exhaustive()
    }
}
