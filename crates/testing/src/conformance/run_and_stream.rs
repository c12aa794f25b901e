//! The check that `run` and `stream` of an agent are equal.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use haft_core::{
    Agent, RunInput, RunOutput,
    call::{Decision, PendingKind},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::events::{self, RunEnd};
use super::streamed_answer::StreamedAnswer;
use super::{DEFAULT_TIMEOUT, Report, Rule, with_timeout};

const ENDS_IN_TIME: Rule = Rule {
    text: "`run` and `stream` end",
    remedy: "limit the requests of a run and put a deadline on each wait; allow the check more time with `timeout`",
};
const SAME_OUTPUT: Rule = Rule {
    text: "`run` and `stream` end with the same output, transcript and usage",
    remedy: "share one loop between `run` and `stream`; record the complete reply of the model, not its deltas",
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
type Observe = dyn Fn() -> Value + Send + Sync;

/// A check that `run` and `stream` of an agent are equal, created by [`run_and_stream`]. It runs
/// when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct RunAndStreamCheck {
    agent: Box<MakeAgent>,
    input: Box<MakeInput>,
    observers: Vec<(String, Box<Observe>)>,
    has_changed_replies: bool,
    timeout: Duration,
}

/// Creates a check that [`run`](Agent::run) and [`stream`](Agent::stream) of an agent are equal.
/// `agent` creates one agent for `run` and one for `stream`, since a model with a script or a
/// cassette replies only once.
///
/// The check compares these data of both runs:
///
/// - the answer with its steps, the error, or the suspended calls with the checkpoint, and the
///   transcript and the usage
/// - the data of each [observer](RunAndStreamCheck::observe), such as the requests to the model
///
/// The text deltas of the last reply must be the answer, and the last partial output must be the
/// output. An answer that a guardrail rewrote or blocked is not compared. See also
/// [`allow_changed_replies`](RunAndStreamCheck::allow_changed_replies).
///
/// A suspended run is resumed up to eight times: calls that wait for an approval are approved, and
/// other calls are denied. The times of messages and tool results and the clock of a checkpoint are
/// not compared. Other data must not differ between two runs, so generate no random ids.
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
        observers: Vec::new(),
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

    /// Skips the comparison of the deltas with the answer. Use it for an agent with validators or hooks that change
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
        let whole = self.record(false, &mut report).await;
        let streamed = self.record(true, &mut report).await;
        for (run, stream) in whole.ends.iter().zip(&streamed.ends) {
            compare(&mut report, SAME_OUTPUT, "", run, stream);
        }
        let counts = (whole.ends.len(), streamed.ends.len());
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
        let mut ends = Vec::new();
        let mut next = Some((self.input)());
        while let Some(input) = next.take().filter(|_| ends.len() <= MAX_RESUMPTIONS) {
            let end = if streams {
                self.stream(&*agent, input, report).await
            } else {
                self.run(&*agent, input, report).await
            };
            let Some(end) = end else { break };
            ends.push(end_json(&end));
            next = self.resume(end);
        }
        Recording { ends, observations: self.observers.iter().map(|(_, observe)| observe()).collect() }
    }

    async fn run(&self, agent: &dyn Agent, input: RunInput, report: &mut Report) -> Option<RunEnd> {
        let end = with_timeout(self.timeout, agent.run(input)).await;
        if end.is_none() {
            report.add_finding(ENDS_IN_TIME, format!("`run` does not in {:?}", self.timeout));
        }
        end
    }

    async fn stream(&self, agent: &dyn Agent, input: RunInput, report: &mut Report) -> Option<RunEnd> {
        let events = agent.stream(input).collect::<Vec<_>>();
        let Some(events) = with_timeout(self.timeout, events).await else {
            report.add_finding(ENDS_IN_TIME, format!("`stream` does not in {:?}", self.timeout));
            return None;
        };
        let mut last = StreamedAnswer::default();
        events.iter().flatten().for_each(|event| last.observe(event));
        let end = events::check_events(events, report)?;
        if let (Ok(RunOutput::Answer(answer)), false) = (&end, self.has_changed_replies) {
            last.check(answer, report);
        }
        Some(end)
    }

    /// Returns the input to resume a run after `end`. `None` if the run is not suspended.
    fn resume(&self, end: RunEnd) -> Option<RunInput> {
        let Ok(RunOutput::Suspended(suspended)) = end else { return None };
        let decisions = suspended.undecided_calls().into_iter().map(|pending| {
            let is_approval = matches!(pending.pending.kind, PendingKind::Approval { .. });
            let decision = if is_approval { Decision::approved() } else { Decision::denied("not now") };
            (pending.call.id.clone(), decision)
        });
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
    /// The ends of the parts of the run. A part ends with the run or with a suspension.
    ends: Vec<Value>,
    observations: Vec<Value>,
}

/// Returns the output or the error at the end of a run as JSON without times.
fn end_json(end: &RunEnd) -> Value {
    match end {
        Ok(output) => to_json(output),
        Err(error) => json!({
            "error": format!("{:?}", error.kind),
            "transcript": to_json(&error.transcript),
            "usage": to_json(&error.usage),
        }),
    }
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
fn to_json(data: &impl Serialize) -> Value {
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
