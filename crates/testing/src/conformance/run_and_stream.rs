//! The check that `run` and `stream` of an agent are equal.

use std::{fmt, future::IntoFuture, mem, sync::Arc, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, Either},
};
use haft_core::{
    Agent, RunInput, RunOutput,
    call::{Decision, PendingCall, PendingKind},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::events::{self, RunEnd};
use super::streamed_replies::StreamedRun;
use super::{DEFAULT_TIMEOUT, Report, Rule, with_timeout};

const ENDS_IN_TIME: Rule = Rule {
    text: "`run` and `stream` end",
    remedy: "limit the requests of a run and put a deadline on each wait; allow the check more time with `timeout`",
};
const SAME_OUTPUT: Rule = Rule {
    text: "`run` and `stream` end with the same output or error",
    remedy: "share one loop between `run` and `stream`",
};
const SAME_TRANSCRIPT: Rule = Rule {
    text: "`run` and `stream` leave the same transcript",
    remedy: "record the complete reply of the model, not its deltas",
};
const SAME_USAGE: Rule = Rule {
    text: "`run` and `stream` count the same usage",
    remedy: "count the usage of the complete reply, and of each failed request",
};
const SAME_OBSERVATIONS: Rule = Rule {
    text: "`run` and `stream` have the same effects",
    remedy: "send the same requests and make the same calls, whether or not the events are read",
};

/// The keys of times and durations in saved data. Their values differ between two runs. The second
/// key is in the same object: in a message, a tool result or the state of a `ReactAgent`. Keys in
/// other data, such as arguments with a `duration`, are compared.
const TIME_KEYS: [(&str, &str); 4] =
    [("created_at", "body"), ("started_at", "call_id"), ("duration", "call_id"), ("clock", "first_message")];

/// The maximum number of resumptions of a suspended run.
const MAX_RESUMPTIONS: usize = 8;

type MakeAgent = dyn Fn() -> Arc<dyn Agent> + Send + Sync;
type MakeInput = dyn Fn() -> RunInput + Send + Sync;
type Decide = dyn Fn(&PendingCall) -> Option<Decision> + Send + Sync;
type Observe = dyn Fn() -> Value + Send + Sync;
type Normalize = dyn Fn(&mut Value) + Send + Sync;

/// A check that `run` and `stream` of an agent are equal, created by [`run_and_stream`]. It runs
/// when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct RunAndStreamCheck {
    agent: Box<MakeAgent>,
    input: Box<MakeInput>,
    decide: Box<Decide>,
    observers: Vec<(String, Box<Observe>)>,
    normalize: Box<Normalize>,
    has_changed_replies: bool,
    timeout: Duration,
}

/// Creates a check that [`run`](Agent::run) and [`stream`](Agent::stream) of an agent are equal.
/// `agent` creates one agent for `run` and one for `stream`, since a model with a script or a
/// cassette replies only once.
///
/// The check compares these data of both runs:
///
/// - the answer with its steps, the error, or the suspended calls with the checkpoint
/// - the transcript and the usage
/// - the data of each [observer](RunAndStreamCheck::observe), such as the requests to the model
///
/// It also compares the events of `stream` with the transcript and the answer:
///
/// - The text deltas of a reply are its text, and the deltas of the last reply are the answer.
///   A [rejected](haft_core::RunEvent::ReplyRejected) reply is ignored. An answer is not compared
///   with the deltas if a guardrail rewrote or blocked it. See also
///   [`allow_changed_replies`](RunAndStreamCheck::allow_changed_replies).
/// - The last partial output is the output.
/// - A started call has the name and the arguments of its announcement. Arguments from a guardrail
///   are not compared. Calls start in the order of the transcript, except calls that a guardrail
///   blocks.
/// - A finished call has the recorded result.
///
/// A suspended run is resumed with [decisions](RunAndStreamCheck::decide), and then compared again.
/// The times of messages and tool results and the clock of a checkpoint are removed before the
/// comparison. Remove other generated data, such as random ids, with
/// [`normalize`](RunAndStreamCheck::normalize).
///
/// # Examples
///
/// ```
/// use haft_core::{Agent, RunEvent, RunInput, agent::{AgentError, AgentErrorKind}};
/// use haft_testing::conformance;
/// use futures::stream::{self, BoxStream, StreamExt as _};
///
/// /// An agent that is out of order.
/// struct Broken;
///
/// impl Agent for Broken {
///     fn stream(&self, _: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
///         let error = AgentErrorKind::InvalidInput("out of order".to_owned());
///         stream::iter([Err(error.into())]).boxed()
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// conformance::run_and_stream(|| Broken).await.assert_conforms();
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_and_stream<A: Agent + 'static>(
    agent: impl Fn() -> A + Send + Sync + 'static,
) -> RunAndStreamCheck {
    RunAndStreamCheck {
        agent: Box::new(move || Arc::new(agent())),
        input: Box::new(|| RunInput::new("Hello.")),
        decide: Box::new(default_decision),
        observers: Vec::new(),
        normalize: Box::new(|_| {}),
        has_changed_replies: false,
        timeout: DEFAULT_TIMEOUT,
    }
}

impl RunAndStreamCheck {
    /// Sets the function that creates the input of each run. The default input is the message
    /// `Hello.`
    pub fn input(mut self, input: impl Fn() -> RunInput + Send + Sync + 'static) -> Self {
        self.input = Box::new(input);
        self
    }

    /// Sets the function for decisions about the calls of suspended runs. A run without a decision
    /// is not resumed. Default: calls waiting for an approval are approved, and other calls are
    /// denied. A run is resumed at most eight times.
    pub fn decide(
        mut self,
        decide: impl Fn(&PendingCall) -> Option<Decision> + Send + Sync + 'static,
    ) -> Self {
        self.decide = Box::new(decide);
        self
    }

    /// Adds data to compare between both runs, for example the requests to a model or the records
    /// of a [`Recorder`](haft_core::pipeline::Recorder). `observe` is called once after `run` and
    /// once after `stream`, and returns the data of this run alone. `name` is the name of the data
    /// in the report.
    pub fn observe<T: Serialize>(
        mut self,
        name: impl Into<String>,
        observe: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        self.observers.push((name.into(), Box::new(move || to_json(&observe()))));
        self
    }

    /// Sets a function that changes all data before the comparison. Use it to replace generated
    /// data, such as random ids. The data are the JSON of the output, the transcript, the usage or
    /// an observation.
    pub fn normalize(mut self, normalize: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.normalize = Box::new(normalize);
        self
    }

    /// Skips the comparison of the text, the partial outputs and the announced calls in the events
    /// with the transcript and the answer. Use it for an agent with validators or hooks that change
    /// replies after their deltas, for example `after_reply`.
    pub fn allow_changed_replies(mut self) -> Self {
        self.has_changed_replies = true;
        self
    }

    /// Sets the timeout of each run. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn check(self) -> Report {
        let mut report = Report::new("the agent");
        let mut whole = self.record(false, &mut report).await;
        let mut streamed = self.record(true, &mut report).await;
        for recording in [&mut whole, &mut streamed] {
            recording.parts.iter_mut().for_each(|part| part.normalize(&self.normalize));
            recording.observations.iter_mut().for_each(&self.normalize);
        }
        for (run, stream) in whole.parts.iter().zip(&streamed.parts) {
            compare(&mut report, SAME_OUTPUT, "", &run.output, &stream.output);
            compare(&mut report, SAME_TRANSCRIPT, "", &run.transcript, &stream.transcript);
            compare(&mut report, SAME_USAGE, "", &run.usage, &stream.usage);
        }
        let counts = (whole.parts.len(), streamed.parts.len());
        report.require(SAME_OUTPUT, counts.0 == counts.1 || !report.findings().is_empty(), || {
            format!("`run` has {} parts, `stream` has {}", counts.0, counts.1)
        });
        let observations = whole.observations.iter().zip(&streamed.observations);
        for ((name, _), (run, stream)) in self.observers.iter().zip(observations) {
            compare(&mut report, SAME_OBSERVATIONS, name, run, stream);
        }
        report
    }

    /// Runs a new agent until it ends, with [`Agent::stream`] if `streams` is `true`. Resumes it
    /// after each suspension.
    async fn record(&self, streams: bool, report: &mut Report) -> Recording {
        let agent = (self.agent)();
        let (mut parts, mut requests, mut run) = (Vec::new(), 0, StreamedRun::default());
        let mut next = Some((self.input)());
        while let Some(input) = next.take().filter(|_| parts.len() <= MAX_RESUMPTIONS) {
            let end = if streams {
                Either::Left(self.stream(&*agent, input, (&mut requests, &mut run), report))
            } else {
                Either::Right(self.run(&*agent, input, report))
            };
            let Some(end) = end.await else { break };
            parts.push(RunPart::new(&end));
            next = self.resume(end);
        }
        Recording { parts, observations: self.observers.iter().map(|(_, observe)| observe()).collect() }
    }

    async fn run(&self, agent: &dyn Agent, input: RunInput, report: &mut Report) -> Option<RunEnd> {
        let end = with_timeout(self.timeout, agent.run(input)).await;
        if end.is_none() {
            report.add_finding(ENDS_IN_TIME, format!("`run` does not in {:?}", self.timeout));
        }
        end
    }

    async fn stream(
        &self,
        agent: &dyn Agent,
        input: RunInput,
        (requests, run): (&mut u32, &mut StreamedRun),
        report: &mut Report,
    ) -> Option<RunEnd> {
        let events = agent.stream(input).collect::<Vec<_>>();
        let Some(events) = with_timeout(self.timeout, events).await else {
            report.add_finding(ENDS_IN_TIME, format!("`stream` does not in {:?}", self.timeout));
            return None;
        };
        *run = mem::take(run).next_part();
        events.iter().flatten().for_each(|event| run.observe(event));
        let end = events::check_events(events, requests, report)?;
        run.check(&end, !self.has_changed_replies, report);
        Some(end)
    }

    /// Returns the input to resume a run after `end`. `None` if the run is not suspended, or if
    /// there is no decision about its calls.
    fn resume(&self, end: RunEnd) -> Option<RunInput> {
        let Ok(RunOutput::Suspended(suspended)) = end else { return None };
        let calls = suspended.undecided_calls();
        let decisions = calls.into_iter().filter_map(|it| Some((it.call.id.clone(), (self.decide)(it)?)));
        let decisions: Vec<_> = decisions.collect();
        let context = (self.input)().context;
        (!decisions.is_empty()).then(|| suspended.resume(decisions).with_context(context))
    }
}

impl IntoFuture for RunAndStreamCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.check().boxed()
    }
}

impl fmt::Debug for RunAndStreamCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAndStreamCheck").finish_non_exhaustive()
    }
}

/// The data of a whole or streamed run.
struct Recording {
    /// The parts of the run. A part ends with the run or with a suspension.
    parts: Vec<RunPart>,
    observations: Vec<Value>,
}

/// The end of a part of a run, as JSON without times.
struct RunPart {
    /// The answer without its transcript and usage, the suspended run, or the error.
    output: Value,
    transcript: Value,
    usage: Value,
}

impl RunPart {
    fn new(end: &RunEnd) -> Self {
        match end {
            Ok(RunOutput::Answer(answer)) => {
                let mut output = to_json(&**answer);
                if let Some(fields) = output.as_object_mut() {
                    fields.remove("transcript");
                    fields.remove("usage");
                }
                Self { output, transcript: to_json(&answer.transcript), usage: to_json(&answer.usage) }
            }
            Ok(RunOutput::Suspended(suspended)) => {
                Self { output: to_json(suspended), transcript: Value::Null, usage: Value::Null }
            }
            Err(error) => Self {
                output: json!({"error": format!("{:?}", error.kind)}),
                transcript: to_json(&error.transcript),
                usage: to_json(&error.usage),
            },
        }
    }

    fn normalize(&mut self, normalize: &Normalize) {
        [&mut self.output, &mut self.transcript, &mut self.usage].into_iter().for_each(normalize);
    }
}

fn default_decision(pending: &PendingCall) -> Option<Decision> {
    let is_approval = matches!(pending.pending.kind, PendingKind::Approval { .. });
    Some(if is_approval { Decision::approved() } else { Decision::denied("not now") })
}

/// Reports the first difference between `run` and `stream`. `name` is the name of the data, or an
/// empty string if the rule names them.
fn compare(report: &mut Report, rule: Rule, name: &str, run: &Value, stream: &Value) {
    if let Some((path, run, stream)) = find_difference(run, stream) {
        report.add_finding(rule, format!("{name}{path}: `run` has {run}, `stream` has {stream}"));
    }
}

/// Returns the JSON pointer of the first difference between `one` and `other`, and the different
/// values. A missing value is `null`.
fn find_difference<'v>(one: &'v Value, other: &'v Value) -> Option<(String, &'v Value, &'v Value)> {
    static MISSING: Value = Value::Null;
    let at = |key: &dyn fmt::Display, one: Option<&'v Value>, other: Option<&'v Value>| {
        let (path, one, other) = find_difference(one.unwrap_or(&MISSING), other.unwrap_or(&MISSING))?;
        Some((format!("/{key}{path}"), one, other))
    };
    let inner = match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys());
            keys.into_iter().find_map(|key| at(key, one.get(key), other.get(key)))
        }
        (Value::Array(one), Value::Array(other)) => {
            (0..one.len().max(other.len())).find_map(|index| at(&index, one.get(index), other.get(index)))
        }
        _ => None,
    };
    inner.or_else(|| (one != other).then(|| (String::new(), one, other)))
}

/// Returns the JSON of `data` without times, see [`TIME_KEYS`].
pub(super) fn to_json(data: &impl Serialize) -> Value {
    fn remove_times(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, marker) in TIME_KEYS {
                    if fields.contains_key(marker) {
                        fields.remove(key);
                    }
                }
                fields.values_mut().for_each(remove_times);
            }
            Value::Array(items) => items.iter_mut().for_each(remove_times),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(data).unwrap_or_default();
    remove_times(&mut value);
    value
}
