//! The transitions of runs are those in `docs/states.md`.

use std::{
    collections::BTreeSet,
    fmt, mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_core::{
    Message, RunInput, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    agent::{Limit, RunLimits},
    call::{Decision, Pending, PendingCall, PendingKind},
    message::AssistantMessage,
    model::{ChatResponse, ModelError},
    usage::Usage,
};
use haft_react::{
    LimitAction, Outcome, Output, Run, RunConfig, Verdict,
    entries::SavedEntries,
    hook::Judgement,
    run::{
        CheckVerdict, Checks, ContextConfig, Delivery, FinishedCall, NestedUsage, NewArguments, NextAgent,
        PreparedRequest, RunState,
    },
};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, any, prop_assert, proptest},
    sample::Index,
};
use serde_json::json;
use tracing::{
    Dispatch, Event, Metadata, Subscriber, dispatcher,
    field::{Field, Visit},
    span,
    subscriber::NoSubscriber,
};

/// A transition: the state before it, the state after it, and its cause. The cause is `next`, the
/// name of an outcome, or another method of the run.
type Arrow = (String, String, String);

/// Returns the arrows of the diagram. `AnyState` stands for each other state.
fn drawn_arrows() -> BTreeSet<Arrow> {
    let drawn: Vec<Arrow> = page()
        .split("```")
        .find_map(|block| block.strip_prefix("mermaid"))
        .unwrap()
        .lines()
        .filter(|line| !line.contains("[*]"))
        .filter_map(|line| line.trim().split_once(" --> "))
        .flat_map(|(from, rest)| {
            let (to, causes) = rest.split_once(": ").unwrap();
            causes.split(", ").map(move |cause| (from.to_owned(), to.to_owned(), cause.to_owned()))
        })
        .collect();
    let states: BTreeSet<_> =
        drawn.iter().map(|(from, ..)| from.clone()).filter(|from| from != "AnyState").collect();
    let expand = |(from, to, cause): Arrow| {
        let mut all: BTreeSet<_> = if from == "AnyState" { states.clone() } else { [from].into() };
        all.remove(&to);
        all.into_iter().map(move |from| (from, to.clone(), cause.clone()))
    };
    drawn.into_iter().flat_map(expand).collect()
}

/// Returns the pairs of states in the table.
fn listed_pairs() -> BTreeSet<(String, String)> {
    let rows = page().lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.splitn(5, '`').step_by(2).collect::<Vec<_>>());
    cells.map(|cells| (cells[0].to_owned(), cells[1].to_owned())).collect()
}

fn page() -> &'static str {
    include_str!("../../docs/states.md")
}

/// A run whose transitions are recorded.
struct WatchedRun {
    run: Run,
    arrows: BTreeSet<Arrow>,
    log: StateLog,
    subscriber: Dispatch,
    /// With a single subscriber, `tracing` caches the interest of other threads.
    _second: Dispatch,
}

/// A subscriber that records the states that a run enters.
#[derive(Clone, Default)]
struct StateLog(Arc<Mutex<Vec<String>>>);

impl Subscriber for StateLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "haft_react::run::state"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Visit for StateLog {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "state" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

/// A method of [`Run`] that can change the state.
type Method = fn(&mut Run);

impl WatchedRun {
    /// Starts the second turn of a conversation.
    fn new(config: &RunConfig) -> Self {
        let earlier = [Message::user("Begin."), Message::assistant("Begun.")];
        let earlier: Transcript = earlier.into_iter().collect();
        let run = Run::new(config, RunInput::new("Go.").with_history(earlier)).unwrap();
        let log = StateLog::default();
        let (subscriber, second) = (Dispatch::new(log.clone()), Dispatch::new(NoSubscriber::new()));
        Self { run, arrows: BTreeSet::new(), log, subscriber, _second: second }
    }

    fn state(&self) -> String {
        format!("{:?}", self.run.state())
    }

    fn record(&mut self, from: String, to: String, cause: &str) {
        if from != to {
            self.arrows.insert((from, to, cause.to_owned()));
        }
    }

    /// Calls [`Run::next`], and records each transition inside of it.
    fn next(&mut self) {
        let mut from = self.state();
        let run = &mut self.run;
        let _ = dispatcher::with_default(&self.subscriber, || run.next(Timestamp::default()));
        let entered = mem::take(&mut *self.log.0.lock().unwrap());
        assert!(!entered.is_empty(), "the states are not traced");
        for to in entered {
            self.record(from, to.clone(), "next");
            from = to;
        }
        assert_eq!(from, self.state(), "the trace is incomplete");
        self.try_methods();
    }

    fn apply(&mut self, outcome: Outcome) {
        let description = format!("{outcome:?}");
        let name = description.split(|it: char| !it.is_alphanumeric()).next().unwrap();
        self.change(name, |run| drop(run.apply(outcome, Timestamp::default())));
        self.try_methods();
    }

    /// Changes the run by the method `cause`.
    fn change(&mut self, cause: &str, change: impl FnOnce(&mut Run)) {
        let from = self.state();
        change(&mut self.run);
        self.record(from, self.state(), cause);
    }

    /// Calls the other methods that change the state, each on a copy of the run.
    fn try_methods(&mut self) {
        let methods: [(&str, Method); 3] = [
            ("cancel", Run::cancel),
            ("recover", Run::recover),
            ("set_limits", |run| run.set_limits(RunLimits::NONE)),
        ];
        for (cause, method) in methods {
            let saved = self.run.clone();
            self.change(cause, method);
            self.run = saved;
        }
    }

    /// Makes a request without hooks, and applies `reply`, its outcome.
    fn request(&mut self, reply: Outcome) {
        self.next();
        self.apply(prepared(Verdict::Pass));
        self.next();
        self.apply(reply);
    }
}

fn prepared(verdict: Verdict<()>) -> Outcome {
    Outcome::Prepared(PreparedRequest {
        has_tools: true,
        judgement: verdict.into(),
        ..PreparedRequest::default()
    })
}

fn text(text: &str) -> Outcome {
    Outcome::replied(ChatResponse::new(text))
}

fn failed(error: ModelError) -> Outcome {
    Outcome::Replied(Err(error))
}

/// Creates a reply of 20 tokens with calls. The id of a call is the name of its tool.
fn calls(names: &[&str]) -> Outcome {
    let tool_calls = names.iter().map(|name| ToolCall::new(*name, *name, "{}")).collect();
    let response = ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() });
    Outcome::replied(ChatResponse { usage: Usage::one_request(10, 10), ..response })
}

fn done() -> ToolResult {
    ToolResult::done("", "", ToolOutput::from("done"))
}

fn called(id: &str) -> Outcome {
    Outcome::called(id, done())
}

/// Creates the result of a call at which a hook ends the run.
fn ended(id: &str) -> Outcome {
    let (id, judgement) = (id.to_owned(), Verdict::end("over").into());
    Outcome::Called(Box::new(FinishedCall { id, result: done(), judgement }))
}

fn reported() -> Outcome {
    Outcome::Judged(Verdict::end("over").into())
}

fn enqueued() -> Outcome {
    Outcome::Enqueued { message: Box::new(Message::user("More?")), delivery: Delivery::NextRequest }
}

fn pending(id: &str) -> Outcome {
    let pending = Pending::new(PendingKind::Approval { arguments: json!({}) });
    Outcome::Pending(Box::new(PendingCall { call: ToolCall::new(id, id, "{}"), pending }))
}

fn decided(id: &str, decision: Decision) -> Outcome {
    Outcome::Decided { id: id.to_owned(), decision }
}

fn judged(calls: &[&str], verdict: &Verdict<NewArguments>) -> Outcome {
    let verdicts = calls.iter().map(|id| ((*id).to_owned(), verdict.clone().into()));
    Outcome::Checked(CheckVerdict::Calls(verdicts.collect()))
}

fn time_is_up() -> Outcome {
    Outcome::LimitReached(Limit::Time(Duration::from_secs(1)))
}

fn summary() -> Outcome {
    Outcome::Compacted(Ok(Box::new(ChatResponse::new("Much was said."))))
}

fn handed_off() -> Outcome {
    let (name, reason) = ("other".to_owned(), "a reason".to_owned());
    Outcome::HandedOff(Box::new(NextAgent { name, config: RunConfig::default(), reason, hides_steps: false }))
}

fn with_checks(checks: Checks) -> RunConfig {
    RunConfig { checks, ..RunConfig::default() }
}

fn all_checks() -> Checks {
    Checks { input: true, calls: true, results: true, answer: true }
}

/// The configuration of runs that summarize a conversation of more than 10 tokens.
fn compacting() -> RunConfig {
    let context = ContextConfig { compaction: true, tokens: Some(10), ..ContextConfig::default() };
    RunConfig { context, ..RunConfig::default() }
}

/// The configuration of runs that make a final request after their first request.
fn limited() -> RunConfig {
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    RunConfig { limits, limit_action: LimitAction::Answer, ..RunConfig::default() }
}

/// The configuration of runs with a stop tool and a hand-off tool.
fn with_special_tools(checks: Checks) -> RunConfig {
    let (stop_on, handoff_tools) = (["stop".to_owned()].into(), ["transfer".to_owned()].into());
    RunConfig { stop_on, handoff_tools, ..with_checks(checks) }
}

/// Plays a script on a new run, and returns the transitions.
fn play(config: &RunConfig, script: impl FnOnce(&mut WatchedRun)) -> BTreeSet<Arrow> {
    let mut run = WatchedRun::new(config);
    script(&mut run);
    run.arrows
}

fn play_steps() -> BTreeSet<Arrow> {
    play(&RunConfig::default(), |run| {
        // Each of these requests ends at the step boundary.
        run.next();
        run.apply(time_is_up());
        run.next();
        run.apply(prepared(Verdict::end("no")));
        run.next();
        run.apply(enqueued());
        run.request(time_is_up());
        run.request(failed(ModelError::EmptyResponse));

        run.request(calls(&["a", "b"]));
        run.next();
        run.apply(called("a"));
        run.apply(pending("b"));
        run.next();
        run.apply(decided("b", Decision::approved()));
        run.next();
        run.apply(called("b"));
        run.request(text("Done."));
        run.next();

        run.run.enqueue("More?", Delivery::Idle).unwrap();
        run.next();
        run.apply(prepared(Verdict::block("no more")));
    })
}

fn play_limit_of_nested_run() -> BTreeSet<Arrow> {
    play(&RunConfig::default(), |run| {
        run.next();
        run.apply(prepared(Verdict::Pass));
        let limit = Some(Limit::ToolCalls(1));
        run.apply(Outcome::Nested(NestedUsage { limit, ..NestedUsage::default() }));
        run.next();
    })
}

fn play_checks() -> BTreeSet<Arrow> {
    play(&with_checks(all_checks()), |run| {
        run.next();
        run.apply(time_is_up());
        run.next();
        run.apply(Outcome::Checked(CheckVerdict::Input(Judgement::default())));
        run.request(calls(&["a"]));
        run.next();
        run.apply(time_is_up());
        run.next();
        run.apply(judged(&["a"], &Verdict::Pass));
        run.next();
        run.apply(called("a"));
        run.next();
        run.apply(Outcome::Checked(CheckVerdict::Results(Judgement::default())));
        run.request(text("Done."));
        run.next();
        run.apply(Outcome::Checked(CheckVerdict::Answer(Judgement::default())));
    })
}

/// Plays the ends of a batch whose first call `first` has succeeded.
fn play_ends_of_calls(config: &RunConfig, first: &str) -> BTreeSet<Arrow> {
    let last = [called("b"), ended("b"), reported(), Outcome::LimitReached(Limit::ToolCalls(1))];
    let played = last.into_iter().flat_map(|last| {
        play(config, |run| {
            run.request(calls(&[first, "b"]));
            run.next();
            run.apply(called(first));
            run.apply(last);
            run.next();
        })
    });
    played.collect()
}

fn play_handoffs() -> BTreeSet<Arrow> {
    play(&with_special_tools(Checks::default()), |run| {
        run.request(calls(&["transfer"]));
        run.next();
        run.apply(called("transfer"));
        run.next();
        run.apply(handed_off());
    })
}

fn play_summaries() -> BTreeSet<Arrow> {
    let too_long = || failed(ModelError::ContextTooLong("too long".to_owned()));
    let in_time = play(&compacting(), |run| {
        run.request(calls(&["a"]));
        run.next();
        run.apply(called("a"));
        run.next();
        run.apply(summary());
    });
    let too_late = play(&compacting(), |run| {
        run.request(too_long());
        run.next();
        run.apply(time_is_up());
    });
    [in_time, too_late].into_iter().flatten().collect()
}

fn play_final_request() -> BTreeSet<Arrow> {
    play(&limited(), |run| {
        run.request(calls(&["a"]));
        run.next();
        run.apply(called("a"));
        run.request(failed(ModelError::EmptyResponse));
    })
}

/// Each arrow is a transition of a run, and each transition of these runs is an arrow.
#[test]
fn diagram_has_the_transitions_of_runs() {
    let checks_answer = Checks { answer: true, ..Checks::default() };
    let played = [
        play_steps(),
        play_limit_of_nested_run(),
        play_checks(),
        play_ends_of_calls(&RunConfig::default(), "a"),
        play_ends_of_calls(&with_special_tools(Checks::default()), "stop"),
        play_ends_of_calls(&with_special_tools(checks_answer), "stop"),
        play_ends_of_calls(&with_special_tools(Checks::default()), "transfer"),
        play_handoffs(),
        play_summaries(),
        play_final_request(),
    ];
    let (played, drawn): (BTreeSet<_>, _) = (played.into_iter().flatten().collect(), drawn_arrows());
    let undrawn: Vec<_> = played.difference(&drawn).collect();
    let unplayed: Vec<_> = drawn.difference(&played).collect();
    assert!(undrawn.is_empty() && unplayed.is_empty(), "not drawn: {undrawn:?}, not played: {unplayed:?}");
}

#[test]
fn table_has_the_arrows_of_the_diagram() {
    let arrows = drawn_arrows().into_iter().filter(|(_, _, cause)| cause != "cancel");
    let mut pairs: BTreeSet<_> = arrows.map(|(from, to, _)| (from, to)).collect();
    pairs.insert(("AnyState".to_owned(), "Ended".to_owned()));
    assert_eq!(listed_pairs(), pairs);
}

/// Returns outcomes that may fit the state of `run`.
fn outcomes(run: &Run) -> Vec<Outcome> {
    let ids: Vec<String> = match run.state() {
        RunState::Calling => run.interrupted_calls().into_iter().map(|call| call.id).collect(),
        RunState::Suspended => run.pending_calls().into_iter().map(|it| it.call.id).collect(),
        _ => {
            let last = run.transcript().messages().iter().rev().find(|it| !it.tool_calls().is_empty());
            last.into_iter().flat_map(|it| it.tool_calls()).map(|call| call.id.clone()).collect()
        }
    };
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let fitting: Vec<Outcome> = match run.state() {
        RunState::Preparing => verdicts(()).map(prepared).into(),
        RunState::AwaitingReply => vec![
            text("Done."),
            text(""),
            calls(&["a"]),
            calls(&["a", "stop"]),
            calls(&["transfer", "a", "b"]),
            failed(ModelError::ContextTooLong("too long".to_owned())),
            failed(ModelError::failed("no server")),
            Outcome::Used(Usage::one_request(10, 10)),
        ],
        RunState::Calling => ids.iter().flat_map(|id| outcomes_of_call(id)).chain([reported()]).collect(),
        RunState::Suspended => ids.iter().flat_map(|id| decisions(id)).collect(),
        RunState::Checking => outcomes_of_check(&ids),
        RunState::Compacting => vec![summary(), Outcome::Compacted(Err(ModelError::EmptyResponse))],
        RunState::HandingOff => vec![handed_off()],
        _ => Vec::new(),
    };
    let any_state = [
        time_is_up(),
        Outcome::LimitReached(Limit::ToolCalls(1)),
        Outcome::Entries(SavedEntries::new()),
        Outcome::Nested(NestedUsage { requests: 1, ..NestedUsage::default() }),
    ];
    fitting.into_iter().chain(any_state).collect()
}

fn verdicts<T>(replacement: T) -> [Verdict<T>; 5] {
    [
        Verdict::Pass,
        Verdict::Replace(replacement),
        Verdict::retry("again"),
        Verdict::block("blocked"),
        Verdict::end("over"),
    ]
}

fn outcomes_of_call(id: &str) -> [Outcome; 4] {
    let fatal = ToolResult::failed("", "", &ToolError::Fatal("broken".into()));
    [called(id), ended(id), pending(id), Outcome::called(id, fatal)]
}

fn decisions(id: &str) -> [Outcome; 3] {
    let changed = Decision::approved_with_arguments(json!({"n": 1}));
    [Decision::approved(), Decision::denied("no"), changed].map(|decision| decided(id, decision))
}

fn outcomes_of_check(ids: &[&str]) -> Vec<Outcome> {
    let arguments = NewArguments { arguments: json!({}), repairs: Vec::new() };
    let input = verdicts(vec![Message::user("Go on.")])
        .map(|it| CheckVerdict::Input(it.into()))
        .map(Outcome::Checked);
    let results =
        verdicts(Output::new("Done.")).map(|it| CheckVerdict::Results(it.into())).map(Outcome::Checked);
    let answer =
        verdicts(Output::new("Done.")).map(|it| CheckVerdict::Answer(it.into())).map(Outcome::Checked);
    let each = ids.iter().flat_map(|id| verdicts(arguments.clone()).map(|verdict| judged(&[*id], &verdict)));
    let all = verdicts(arguments.clone()).map(|verdict| judged(ids, &verdict));
    input.into_iter().chain(results).chain(answer).chain(all).chain(each).collect()
}

fn configs() -> impl Strategy<Value = RunConfig> {
    let checks = any::<[bool; 4]>().prop_map(|[input, calls, results, answer]| Checks {
        input,
        calls,
        results,
        answer,
    });
    (checks, any::<bool>(), any::<bool>()).prop_map(|(checks, is_limited, compacts)| {
        let RunConfig { limits, limit_action, .. } =
            if is_limited { limited() } else { RunConfig::default() };
        let RunConfig { context, .. } = if compacts { compacting() } else { RunConfig::default() };
        RunConfig { limits, limit_action, context, max_repeated_calls: None, ..with_special_tools(checks) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each transition of a random run is in the diagram.
    #[test]
    fn random_runs_follow_the_diagram(config in configs(), choices in vec((0..8_u8, any::<Index>()), 80)) {
        let mut run = WatchedRun::new(&config);
        for (action, choice) in choices {
            match action {
                0..3 => run.next(),
                3 => match choice.index(3) {
                    0 => run.run.recover(),
                    1 => run.run.set_limits(RunLimits::default()),
                    _ => drop(run.run.enqueue("More?", Delivery::Idle)),
                },
                _ => {
                    let mut outcomes = outcomes(&run.run);
                    run.apply(outcomes.swap_remove(choice.index(outcomes.len())));
                }
            }
        }
        let drawn = drawn_arrows();
        let undrawn: Vec<_> = run.arrows.difference(&drawn).collect();
        prop_assert!(undrawn.is_empty(), "not in the diagram: {undrawn:?}");
    }
}
