//! Property tests of runs whose process crashes. Each call to a tool that is not idempotent must
//! run at most once, and every call must get a result.

use std::collections::{BTreeMap, BTreeSet};

use haft_core::{
    RunEvent, RunInput, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult,
    agent::{AgentErrorKind, Limit},
    call::{Decision, FailureKind, Pending, PendingCall, PendingKind, ResumedCall},
    message::AssistantMessage,
    model::{ChatResponse, ModelError},
};
use haft_react::{
    Effect, Outcome, Run, RunConfig, Verdict,
    hook::Judgement,
    run::{
        CallBatch, Check, CheckVerdict, Checks, ContextConfig, ModelReply, PreparedRequest, ReadyCall,
        ToolSnapshot,
    },
};
use proptest::{
    bool::weighted,
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest},
    sample::Index,
};
use serde_json::json;

use crate::{
    effects::{advance, apply, finish, judge, suspend},
    pairing::{assert_paired, assert_view_paired},
};

/// The name of a tool. It determines how [`Environment::execute`] executes a call.
type ToolKind = &'static str;

#[derive(Clone, Debug)]
struct Scenario {
    replies: Vec<Vec<(&'static str, ToolKind)>>,
    /// Random numbers. Each selects the next call to execute, or the next suspended call to decide.
    order: Vec<Index>,
    /// For each effect of the run and each event reported to the run, `true` if the process crashes
    /// after it.
    crashes: Vec<bool>,
    /// For each event, `true` if the run is saved after it. The run is also saved before each
    /// effect is performed.
    saves: Vec<bool>,
    /// For each validation of an output, `true` if the output is accepted.
    accepted: Vec<bool>,
    /// For each model request, `true` if it fails because the context is too long. For each
    /// summary, `true` if it fails.
    overflows: Vec<bool>,
    config: RunConfig,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_1")];
    let kind = prop_oneof![
        Just("once"),
        Just("again"),
        Just("approved"),
        Just("external"),
        Just("nested"),
        Just("fails")
    ];
    let replies = vec(vec((id, kind), 1..5), 0..4);
    let schedule = (vec(any::<Index>(), 40), vec(weighted(0.2), 60), vec(any::<bool>(), 60));
    let models = (replies, vec(any::<bool>(), 0..3), vec(weighted(0.3), 12));
    let config = (any::<bool>(), any::<bool>(), any::<bool>());
    (schedule, models, config).prop_map(
        |((order, crashes, saves), (replies, accepted, overflows), (check_outputs, stops, compaction))| {
            Scenario {
                replies,
                order,
                crashes,
                saves,
                accepted,
                overflows,
                config: RunConfig {
                    checks: Checks { answer: check_outputs, ..Checks::default() },
                    stop_on: stops.then(|| "once".to_owned()).into_iter().collect(),
                    max_repeated_calls: None,
                    max_output_retries: 10,
                    context: ContextConfig { compaction, ..ContextConfig::default() },
                    ..RunConfig::default()
                },
            }
        },
    )
}

/// The world outside the process, which survives a crash.
#[derive(Default)]
struct Environment {
    /// The number of executions of each call, by call id.
    execution_counts: BTreeMap<String, u32>,
    /// The ids of the inner calls that have a decision, by the id of the outer call.
    decided_inner_calls: BTreeMap<String, BTreeSet<String>>,
}

impl Environment {
    /// Executes a call, or suspends it if it still needs a decision.
    fn execute(&mut self, ready: &ReadyCall) -> Result<ToolResult, Box<Pending>> {
        let call = &ready.call;
        let answer = ready.resumed.as_ref().map(ResumedCall::decision);
        let pending = match (&*call.name, answer) {
            ("approved", None) => PendingKind::Approval { arguments: json!({}) },
            ("external", None) => PendingKind::External,
            ("nested", answer) => {
                let decided = self.decided_inner_calls.entry(call.id.clone()).or_default();
                if let Some(Decision::Nested { decisions: answers }) = answer {
                    decided.extend(answers.keys().cloned());
                }
                let undecided: Vec<_> =
                    nested_calls(call).into_iter().filter(|it| !decided.contains(&it.call.id)).collect();
                if undecided.is_empty() {
                    return Ok(self.count_execution(call));
                }
                PendingKind::Nested { pending: undecided }
            }
            _ => return Ok(self.count_execution(call)),
        };
        Err(Pending::new(pending).into())
    }

    /// Counts an execution of `call`, and returns its result.
    fn count_execution(&mut self, call: &ToolCall) -> ToolResult {
        *self.execution_counts.entry(call.id.clone()).or_default() += 1;
        match &*call.name {
            "fails" => ToolResult::failed("", "", &ToolError::retry("again")),
            _ => ToolResult::done("", "", ToolOutput::from("done")),
        }
    }
}

/// Returns the two suspended calls inside `call`, which is a call to the tool `nested`.
fn nested_calls(call: &ToolCall) -> Vec<PendingCall> {
    let pending = Pending::new(PendingKind::External);
    let calls = ["x", "y"].map(|it| ToolCall::new(format!("{}/{it}", call.id), "inner", "{}"));
    calls.map(|call| PendingCall { call, pending: pending.clone() }).into()
}

/// Returns the properties of the tools.
fn called_tools() -> BTreeMap<String, ToolSnapshot> {
    let again = ToolSnapshot { idempotent: true, retries: 1, ..ToolSnapshot::default() };
    BTreeMap::from([("again".to_owned(), again)])
}

fn to_json(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

/// A process that drives a run, crashes at random and restarts from the saved run.
struct Process<'p> {
    scenario: &'p Scenario,
    run: Run,
    /// The saved run as JSON. It is loaded after a crash.
    saved: String,
    environment: Environment,
    order: std::slice::Iter<'p, Index>,
    crashes: std::slice::Iter<'p, bool>,
    saves: std::slice::Iter<'p, bool>,
    accepted: std::slice::Iter<'p, bool>,
    overflows: std::slice::Iter<'p, bool>,
    crash_count: u32,
}

impl<'p> Process<'p> {
    fn new(scenario: &'p Scenario) -> Self {
        let run = Run::new(&scenario.config, RunInput::new("Go.")).unwrap();
        Self {
            scenario,
            saved: to_json(&run),
            run,
            environment: Environment::default(),
            order: scenario.order.iter(),
            crashes: scenario.crashes.iter(),
            saves: scenario.saves.iter(),
            accepted: scenario.accepted.iter(),
            overflows: scenario.overflows.iter(),
            crash_count: 0,
        }
    }

    /// Saves the run if the scenario requires it for this event, and then simulates a crash if the
    /// scenario requires one. Returns `false` after a crash. Must be called after each event.
    fn record_event(&mut self) -> bool {
        if self.saves.next().copied().unwrap_or(true) {
            self.saved = to_json(&self.run);
        }
        self.survives()
    }

    /// Simulates a crash if the scenario requires one for this effect or event: loads the saved run
    /// and recovers it. Returns `false` after a crash.
    fn survives(&mut self) -> bool {
        let crashes = self.crashes.next().copied().unwrap_or_default();
        if crashes {
            self.crash_count += 1;
            self.run = serde_json::from_str(&self.saved).unwrap();
            self.run.recover();
        }
        !crashes
    }

    fn overflows(&mut self) -> bool {
        self.overflows.next().copied().unwrap_or_default()
    }

    fn pick(&mut self, of: usize) -> usize {
        self.order.next().map_or(0, |index| index.index(of))
    }

    /// Drives the run to its end. Returns `true` if it ends with an answer.
    fn drive(&mut self) -> bool {
        let mut replies = self.scenario.replies.iter();
        for clock in 0..2_000 {
            let Ok(effect) = self.run.next(Timestamp::from_unix_millis(clock)) else { return false };
            self.saved = to_json(&self.run);
            if !self.survives() {
                continue;
            }
            match effect {
                Effect::Prepare => {
                    apply(&mut self.run, Outcome::Prepared(PreparedRequest::default())).unwrap();
                    self.record_event();
                }
                Effect::Chat if self.overflows() => {
                    assert_view_paired(&self.run.view());
                    let too_long = ModelError::ContextTooLong("too long".to_owned());
                    if apply(&mut self.run, Outcome::Replied(Err(too_long))).is_err() {
                        return false;
                    }
                    self.record_event();
                }
                Effect::Compact(earlier) => {
                    assert_view_paired(&earlier);
                    let failed = ModelError::EmptyResponse;
                    let summary =
                        if self.overflows() { Err(failed) } else { Ok(Box::new(ChatResponse::new("Much."))) };
                    apply(&mut self.run, Outcome::Compacted(summary)).unwrap();
                    self.record_event();
                }
                Effect::Chat => {
                    assert_view_paired(&self.run.view());
                    let response = replies
                        .next()
                        .map_or_else(|| ChatResponse::new("Done."), |calls| reply_with_calls(calls));
                    let (tools, judgement) = (called_tools(), Judgement::default());
                    let reply = ModelReply { reply: response.into(), tools, judgement };
                    apply(&mut self.run, Outcome::Replied(Ok(Box::new(reply)))).unwrap();
                    self.record_event();
                }
                Effect::Call(batch) => self.execute_calls(&batch),
                Effect::Wait(pending) => self.decide_some(&pending),
                Effect::Check(Check::Answer(_)) => {
                    let accepted = self.accepted.next().copied().unwrap_or(true);
                    let verdict = if accepted { Verdict::Pass } else { Verdict::retry("no") };
                    judge(&mut self.run, CheckVerdict::Answer(verdict.into())).unwrap();
                    self.record_event();
                }
                Effect::Done(_) => return true,
                other => panic!("{other:?}"),
            }
        }
        panic!("the run does not end");
    }

    fn execute_calls(&mut self, batch: &CallBatch) {
        let mut open = batch.calls.clone();
        while !open.is_empty() {
            let place = self.pick(open.len());
            let ready = open.remove(place);
            match self.environment.execute(&ready) {
                Ok(result) => finish(&mut self.run, &ready.call.id, result).unwrap(),
                Err(pending) => {
                    suspend(&mut self.run, PendingCall { call: ready.call, pending: *pending }).unwrap();
                }
            }
            if !self.record_event() {
                return;
            }
        }
    }

    /// Reports decisions for a random subset of the suspended calls.
    fn decide_some(&mut self, pending: &[PendingCall]) {
        let mut leaves: Vec<_> = pending.iter().flat_map(PendingCall::innermost_calls).collect();
        for _ in 0..=self.pick(leaves.len()) {
            let place = self.pick(leaves.len());
            let suspended_call = leaves.remove(place);
            let answer = match &suspended_call.pending.kind {
                PendingKind::Approval { .. } if place > 0 => Decision::denied("no"),
                PendingKind::Approval { .. } => Decision::approved(),
                _ => Decision::output("given"),
            };
            let decided = |decision| Outcome::Decided { id: suspended_call.call.id.clone(), decision };
            apply(&mut self.run, decided(answer.clone())).unwrap();
            assert!(apply(&mut self.run, decided(answer)).is_err(), "a second decision must be rejected");
            if !self.record_event() {
                return;
            }
        }
    }
}

fn reply_with_calls(calls: &[(&'static str, ToolKind)]) -> ChatResponse {
    let tool_calls = calls.iter().map(|(id, kind)| ToolCall::new(*id, *kind, "{}")).collect();
    ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each call to a tool that is not idempotent runs at most once, wherever the process crashes
    /// and whichever state was saved. The scenarios include partial decisions, nested calls, output
    /// validators, summaries, omitted steps and stop tools.
    #[test]
    fn crash_repeats_only_idempotent_calls(scenario in scenarios()) {
        let mut process = Process::new(&scenario);
        let answered = process.drive();
        let names: BTreeMap<_, _> = process.run.transcript().messages().iter()
            .flat_map(|message| message.tool_calls())
            .map(|call| (call.id.as_str(), call.name.as_str()))
            .collect();
        for (id, times) in &process.environment.execution_counts {
            prop_assert!(names.contains_key(id.as_str()), "the call {id} ran and is not in the transcript");
            prop_assert!(*times == 1 || names[id.as_str()] == "again", "{} {id} ran {times} times", names[id.as_str()]);
            prop_assert!(*times == 1 || process.crash_count > 0);
        }
        if !answered {
            process.run.cancel();
        }
        assert_paired(process.run.transcript());
        // The conversation must be usable in another run.
        prop_assert!(Run::new(&scenario.config, RunInput::new("More.").with_history(process.run.transcript().clone())).is_ok());
    }

    /// If a run is cancelled after its process has crashed, every call has a result.
    #[test]
    fn cancellation_after_crashes_closes_every_call(scenario in scenarios(), events in 0_usize..30) {
        let mut scenario = scenario;
        // The process no longer crashes after this number of events.
        scenario.crashes.truncate(events);
        let mut process = Process::new(&scenario);
        let replies: Vec<_> = scenario.replies.iter().take(events % 4).cloned().collect();
        let shorter = Scenario { replies, ..scenario.clone() };
        process.scenario = &shorter;
        process.drive();
        let mut run: Run = serde_json::from_str(&process.saved).unwrap();
        run.cancel();
        assert_paired(run.transcript());
    }
}

/// The reader of the events learns of a call whose effect may have happened.
#[test]
fn unconfirmed_call_has_an_event() {
    let mut run = Run::new(&RunConfig::default(), "Go.".into()).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let call = ToolCall::new("a", "pay", "{}");
    let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    apply(&mut run, Outcome::replied(ChatResponse::new(message))).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Call(_)));
    let mut run: Run = serde_json::from_value(json!(run)).unwrap();
    run.recover();
    let events = run.take_events();
    let [RunEvent::CallFinished { result }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(result.failure().unwrap().kind, FailureKind::Unconfirmed);
}

/// A request that an enclosing run forbids ends the run, which can be continued.
#[test]
fn limit_of_an_enclosing_run_ends_a_request() {
    let mut run = Run::new(&RunConfig::default(), "Go.".into()).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let limit = Limit::Requests(1);
    let error = apply(&mut run, Outcome::LimitReached(limit)).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Requests(1))), "{error:?}");
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
}
