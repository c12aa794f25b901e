//! Property tests of runs with random replies, random orders of results, crashes and enqueued
//! messages.

use std::{cell::Cell, collections::HashSet};

use haft_core::{
    Message, RunInput, Schema, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    message::{AssistantMessage, TranscriptView},
    model::{ChatRequest, ChatResponse, FinishReason, ModelError},
    usage::Usage,
};
use haft_react::{
    Dialect, Effect, NativeCalls, Outcome, OutputStrategy, Run, RunConfig, TextReact,
    run::{CallBatch, ContextConfig, Delivery, PreparedRequest},
    transcript::is_enqueued,
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
    sample::Index,
};
use serde_json::json;

use crate::{
    effects::request,
    pairing::{assert_paired, assert_request_paired},
};

/// The calls in one reply: the id of each call, and `true` if the call fails. The scenarios use
/// only a few ids, so ids are often repeated.
type Calls = Vec<(&'static str, bool)>;

/// A reply from the model in a scenario.
#[derive(Clone, Debug)]
enum Reply {
    Calls(Calls),
    Text,
    TooLong,
}

#[derive(Clone, Debug)]
struct Scenario {
    replies: Vec<Reply>,
    /// Random choices of the open call whose result arrives next.
    order: Vec<Index>,
    config: RunConfig,
    /// `true` if the run uses the text dialect instead of native calls.
    uses_text_dialect: bool,
    earlier: Transcript,
    /// For each summary, `true` if the model completes it, or `false` if the summary is truncated.
    summaries: Vec<bool>,
    /// For each event, the delivery mode of a message that is enqueued after the event, or `None`
    /// if no message is enqueued. The list repeats from its start.
    messages: Vec<Option<Delivery>>,
}

fn calls() -> impl Strategy<Value = Calls> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_1"), Just("call_2")];
    vec((id, any::<bool>()), 1..5)
}

/// Generates scenarios without context overflows.
fn scenarios() -> impl Strategy<Value = Scenario> {
    (vec(calls(), 0..4), vec(any::<Index>(), 16)).prop_map(|(replies, order)| Scenario {
        replies: replies.into_iter().map(Reply::Calls).collect(),
        order,
        config: RunConfig { max_repeated_calls: None, ..RunConfig::default() },
        uses_text_dialect: false,
        earlier: Transcript::new(),
        summaries: Vec::new(),
        messages: Vec::new(),
    })
}

/// Generates scenarios in which messages are enqueued at any time, including while calls are in
/// progress.
fn enqueuing_scenarios() -> impl Strategy<Value = Scenario> {
    let when = prop_oneof![Just(Delivery::NextRequest), Just(Delivery::Idle)];
    let messages = vec(option::of(when), 1..6);
    (scenarios(), messages).prop_map(|(scenario, messages)| Scenario { messages, ..scenario })
}

/// Generates scenarios with context overflows, omitted messages, summaries and extracted outputs.
fn long_scenarios() -> impl Strategy<Value = Scenario> {
    let reply =
        prop_oneof![4 => calls().prop_map(Reply::Calls), 1 => Just(Reply::Text), 3 => Just(Reply::TooLong)];
    let context = (option::of(1_usize..4), option::of(Just(10)), 0_u32..4, any::<bool>());
    let context = context.prop_map(|(latest, tokens, omissions, compaction)| ContextConfig {
        latest,
        tokens,
        omissions,
        compaction,
    });
    let setting = (context, any::<bool>(), any::<bool>(), any::<bool>());
    (scenarios(), vec(reply, 0..10), setting, vec(any::<bool>(), 0..4)).prop_map(
        |(scenario, replies, (context, extracts, in_text, has_earlier), summaries)| {
            let outputs = Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
            let output_strategy = OutputStrategy::Extraction;
            let config = RunConfig { context, output_strategy, max_output_retries: 20, ..scenario.config };
            let config = RunConfig { outputs: extracts.then_some(outputs), ..config };
            let earlier = if has_earlier { earlier() } else { Transcript::new() };
            Scenario { replies, config, uses_text_dialect: in_text, earlier, summaries, ..scenario }
        },
    )
}

fn earlier() -> Transcript {
    let call = ToolCall::new("a", "tool", "goes well");
    let with_call = AssistantMessage { tool_calls: vec![call.clone()], ..AssistantMessage::default() };
    let now = Timestamp::default();
    let result =
        Message::tool(ToolResult { call_id: "a".to_owned(), name: "tool".to_owned(), ..result(&call, now) });
    let first_turn =
        [Message::user("Begin."), Message::assistant(with_call), result, Message::assistant("Begun.")];
    first_turn.into_iter().chain([Message::user("And?"), Message::assistant("Yes.")]).collect()
}

impl Scenario {
    fn dialect(&self) -> &'static dyn Dialect {
        if self.uses_text_dialect { &TextReact } else { &NativeCalls }
    }

    fn reply(&self, scripted: Option<&Reply>, run: &Run) -> Result<ChatResponse, ModelError> {
        let reply = match scripted {
            Some(Reply::TooLong) => return Err(ModelError::ContextTooLong("too much".to_owned())),
            Some(Reply::Calls(calls)) if self.uses_text_dialect => {
                let fails = calls.iter().any(|(_, fails)| *fails);
                ChatResponse::new(format!("Thought: So.\nAction: tool\nArguments: {{\"fails\": {fails}}}"))
            }
            Some(Reply::Calls(calls)) => reply_with_calls(calls),
            Some(Reply::Text) => ChatResponse::new("Hm."),
            None if run.answer_schema().is_some() && self.uses_text_dialect => {
                ChatResponse::new("Thought: So.\nAction: finish\nArguments: {\"sum\": 1}")
            }
            None if run.answer_schema().is_some() => {
                let tool_calls = vec![ToolCall::new("f", "finish", r#"{"sum":1}"#)];
                ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
            }
            None if self.uses_text_dialect => ChatResponse::new("Answer: Done."),
            None => ChatResponse::new("Done."),
        };
        Ok(ChatResponse { usage: Usage::one_request(20, 0), ..reply })
    }
}

/// A driver that runs a scenario and stops after `events` events. After each event, the driver
/// replaces the run with the return value of `between`, which for example saves and loads the run.
struct Driver<'p, F> {
    scenario: &'p Scenario,
    order: std::slice::Iter<'p, Index>,
    events: usize,
    clock: i64,
    /// The ids of the calls that were executed so far.
    executed: HashSet<String>,
    /// The number of messages that were enqueued so far.
    enqueued: usize,
    between: F,
}

/// The maximum number of enqueued messages per scenario.
const MAX_ENQUEUED: usize = 6;

impl<F: Fn(Run) -> Run> Driver<'_, F> {
    /// Counts an event, enqueues the message that the scenario has for the event, and applies
    /// `between` to the run. Returns `false` if the driver has reached its last event.
    fn record_event(&mut self, run: &mut Run) -> bool {
        self.clock += 1;
        let clock = usize::try_from(self.clock).unwrap();
        let when = self.scenario.messages.get(clock % self.scenario.messages.len().max(1)).copied().flatten();
        if let Some(when) = when.filter(|_| self.enqueued < MAX_ENQUEUED) {
            run.enqueue(format!("{when:?} {}", self.enqueued), when).unwrap();
            self.enqueued += 1;
        }
        *run = (self.between)(run.clone());
        self.events.checked_sub(1).map(|left| self.events = left).is_some()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.clock)
    }

    fn execute_calls(&mut self, run: &mut Run, batch: CallBatch) -> bool {
        let mut open = batch.calls;
        while !open.is_empty() {
            let place = self.order.next().map_or(0, |index| index.index(open.len()));
            let call = open.remove(place).call;
            assert!(self.executed.insert(call.id.clone()), "{call:?} runs twice");
            let called = |now| Outcome::called(call.id.clone(), result(&call, now));
            run.apply(called(self.now()), self.now()).unwrap();
            assert!(run.apply(called(self.now()), self.now()).is_err(), "a second result must be rejected");
            if !self.record_event(run) {
                return false;
            }
            // If `between` has simulated a crash, the recovered run already has results for some of
            // these calls. Execute only calls that are still in progress.
            let interrupted = run.interrupted_calls();
            open.retain(|ready| interrupted.contains(&ready.call));
        }
        true
    }
}

/// Runs a scenario to its end, or until `events` events have happened. Applies `between` to the run
/// after each event, and returns the run.
fn drive(scenario: &Scenario, events: usize, between: impl Fn(Run) -> Run) -> Run {
    let mut run =
        Run::new(&scenario.config, RunInput::new("Go.").with_history(scenario.earlier.clone())).unwrap();
    let (mut replies, mut summaries) = (scenario.replies.iter(), scenario.summaries.iter());
    let executed = HashSet::new();
    let order = scenario.order.iter();
    let mut driver = Driver { scenario, order, events, clock: 0, executed, enqueued: 0, between };
    while driver.record_event(&mut run) {
        let (dialect, now) = (driver.scenario.dialect(), driver.now());
        match run.next(now).unwrap() {
            Effect::Prepare => {
                let is_before_extraction = run.config().outputs.is_some() && run.answer_schema().is_none();
                let has_bare_finish = is_before_extraction && dialect.reserved_name(None).is_some();
                run.apply(
                    Outcome::Prepared(PreparedRequest { has_bare_finish, ..PreparedRequest::default() }),
                    now,
                )
                .unwrap();
            }
            Effect::Chat => {
                assert_view(scenario, &run, &request(&run, dialect));
                let outcome = match scenario.reply(replies.next(), &run) {
                    Ok(reply) => Outcome::replied(dialect.parse_reply(reply, run.answer_schema())),
                    Err(error) => Outcome::Replied(Err(error)),
                };
                if let Err(error) = run.apply(outcome, now) {
                    assert!(error.to_string().contains("too much"), "{error}");
                    return run;
                }
            }
            Effect::Compact(part) => {
                assert_summary_input(&run, &part);
                let finish_reason = match summaries.next() {
                    Some(true) => FinishReason::Stop,
                    _ => FinishReason::Length,
                };
                let summary = ChatResponse { finish_reason, ..ChatResponse::new("Sums.") };
                run.apply(Outcome::Compacted(Ok(Box::new(summary))), now).unwrap();
            }
            Effect::Call(batch) => {
                if !driver.execute_calls(&mut run, batch) {
                    return run;
                }
            }
            Effect::Done(_) => return run,
            other => panic!("{other:?}"),
        }
    }
    run
}

/// Asserts that a model request contains paired calls and the question, and exactly one summary if
/// the conversation was summarized. With native calls, the request must also contain the last step.
#[track_caller]
fn assert_view(scenario: &Scenario, run: &Run, request: &ChatRequest) {
    assert_request_paired(request);
    let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
    assert!(texts.iter().any(|text| text.contains("Go.")), "the question is missing: {texts:?}");
    let is_summarised = run.transcript().messages().iter().any(|message| is_summary(message));
    let summaries = texts.iter().filter(|text| text.starts_with("Summary of")).count();
    assert_eq!(summaries, usize::from(is_summarised), "{texts:?}");
    if !scenario.uses_text_dialect {
        let own = run.transcript().messages().iter().skip(scenario.earlier.len());
        let last = own.rev().find(|message| !message.tool_calls().is_empty());
        assert!(last.is_none_or(|last| request.messages.iter().any(|shown| shown == last)), "{texts:?}");
    }
}

#[track_caller]
fn assert_summary_input(run: &Run, part: &TranscriptView) {
    let messages: Vec<_> = part.iter().map(|message| (**message).clone()).collect();
    assert_request_paired(&ChatRequest::new(messages.clone()));
    let latest = run.transcript().messages().iter().rfind(|message| is_summary(message));
    let summaries: Vec<_> = messages.iter().filter(|message| is_summary(message)).collect();
    assert_eq!(summaries, latest.map(|message| &**message).into_iter().collect::<Vec<_>>());
}

fn is_summary(message: &Message) -> bool {
    message.text().starts_with("Summary of")
}

fn reply_with_calls(calls: &Calls) -> ChatResponse {
    let arguments = |fails: bool| if fails { "fails" } else { "goes well" };
    let tool_calls = calls.iter().map(|(id, fails)| ToolCall::new(*id, "tool", arguments(*fails))).collect();
    ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
}

fn result(call: &ToolCall, now: Timestamp) -> ToolResult {
    let result = match &*call.arguments {
        "fails" => ToolResult::failed("whatever", "whatever", &ToolError::failed("it did")),
        _ => ToolResult::done("whatever", "whatever", ToolOutput::from(call.id.as_str())),
    };
    ToolResult { started_at: now, ..result }
}

fn through_json(run: Run) -> Run {
    let saved = serde_json::to_string(&run).unwrap();
    let loaded: Run = serde_json::from_str(&saved).unwrap();
    assert_eq!(loaded, run);
    loaded
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any order of results, each call must have exactly one result, and the results must be in
    /// call order.
    #[test]
    fn every_call_has_one_result_in_call_order(scenario in scenarios()) {
        let run = drive(&scenario, usize::MAX, |run| run);
        assert_paired(run.transcript());
        let calls = |reply: &Reply| if let Reply::Calls(calls) = reply { calls.len() } else { 0 };
        let calls: usize = scenario.replies.iter().map(calls).sum();
        prop_assert_eq!(run.transcript().len(), 1 + scenario.replies.len() + calls + 1);
    }

    /// A run can be cancelled after any event. Every call then has a result.
    #[test]
    fn cancellation_after_any_event_closes_every_call(scenario in scenarios(), events in 0_usize..30) {
        let mut run = drive(&scenario, events, |run| run);
        run.cancel();
        assert_paired(run.transcript());
    }

    /// Saving and loading a run after every event does not change its final state.
    #[test]
    fn saving_after_any_event_does_not_change_the_outcome(scenario in scenarios(), events in 0_usize..30) {
        prop_assert_eq!(drive(&scenario, events, |run| run), drive(&scenario, events, through_json));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Calls and results must stay paired despite context overflows, summaries, limited views and
    /// extractions. The conversation can then continue with another run.
    #[test]
    fn calls_and_results_stay_paired_in_every_view(scenario in long_scenarios(), events in 0_usize..40) {
        for events in [events, usize::MAX] {
            let mut run = drive(&scenario, events, |run| run);
            run.cancel();
            assert_paired(run.transcript());
            let next = Scenario { replies: vec![Reply::TooLong], earlier: run.transcript().clone(), ..scenario.clone() };
            let next = drive(&next, usize::MAX, |run| run);
            assert_paired(next.transcript());
            prop_assert!(next.transcript().messages().starts_with(run.transcript().messages()));
        }
    }

    #[test]
    fn saving_after_any_event_does_not_change_the_views(scenario in long_scenarios(), events in 0_usize..40) {
        prop_assert_eq!(drive(&scenario, events, |run| run), drive(&scenario, events, through_json));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// After crashes between any two steps, no call has run twice, and each call has one result.
    #[test]
    fn crash_between_any_steps_repeats_no_call(scenario in scenarios(), crashes in vec(0_usize..40, 0..4)) {
        let clock = Cell::new(0);
        let run = drive(&scenario, usize::MAX, |run| {
            clock.set(clock.get() + 1);
            if !crashes.contains(&clock.get()) {
                return run;
            }
            let mut run = through_json(run);
            run.recover();
            run
        });
        assert_paired(run.transcript());
        prop_assert!(run.interrupted_calls().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Messages can be enqueued at any time. They must be delivered once, in order, and never
    /// between calls and their results. A finished run has delivered all messages, and a cancelled
    /// run keeps the undelivered messages.
    #[test]
    fn enqueued_messages_are_delivered_once_and_in_order(scenario in enqueuing_scenarios(), events in 0_usize..40) {
        for events in [events, usize::MAX] {
            let mut run = drive(&scenario, events, |run| run);
            prop_assert!(events < usize::MAX || run.undelivered_messages().count() == 0);
            run.cancel();
            assert_paired(run.transcript());
            let delivered = run.transcript().messages().iter().filter(|message| is_enqueued(message));
            let mut texts: Vec<_> = delivered.map(|message| message.text()).collect();
            for when in ["NextRequest", "Idle"] {
                let numbers = texts.iter().filter_map(|text| text.strip_prefix(when)?.trim().parse::<usize>().ok());
                prop_assert!(numbers.is_sorted(), "{:?}", texts);
            }
            texts.extend(run.undelivered_messages().map(|(message, _)| message.text()));
            let all: HashSet<_> = texts.iter().collect();
            prop_assert_eq!(all.len(), texts.len());
            let numbers = texts.iter().filter_map(|text| text.split(' ').next_back()?.parse::<usize>().ok());
            prop_assert_eq!(numbers.max().map_or(0, |last| last + 1), texts.len());
        }
    }

    #[test]
    fn saving_after_any_event_does_not_change_the_messages(scenario in enqueuing_scenarios(), events in 0_usize..40) {
        prop_assert_eq!(drive(&scenario, events, |run| run), drive(&scenario, events, through_json));
    }
}
