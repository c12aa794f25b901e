//! What holds for every order of events.

use std::{cell::Cell, collections::HashSet};

use haft_core::{
    Message, RunInput, Schema, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    message::{AssistantMessage, View},
    model::{ChatRequest, ChatResponse, FinishReason, ModelError},
    toolset::ToolList,
    usage::Usage,
};
use haft_react::{
    Dialect, Effect, NativeCalls, OutputStrategy, Run, RunConfig, Step, TextReact,
    queue::{Placeholders, QueuedResults},
    run::{CallBatch, ContextConfig, When, is_enqueued, is_hint},
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
    sample::Index,
};
use serde_json::json;

use crate::pairing::{assert_paired, assert_request_paired};

/// The calls of one reply: few ids, so that they collide.
type Calls = Vec<(&'static str, bool)>;

/// What a model says when it is asked.
#[derive(Clone, Debug)]
enum Said {
    Calls(Calls),
    Prose,
    TooLong,
}

#[derive(Clone, Debug)]
struct Play {
    replies: Vec<Said>,
    /// Which of the open calls is answered next.
    order: Vec<Index>,
    config: RunConfig,
    /// Whether the model is spoken to in plain text.
    in_text: bool,
    earlier: Transcript,
    /// Which summaries are whole.
    summaries: Vec<bool>,
    /// Which calls push another one, round and round, before they end.
    pushes: Vec<bool>,
    /// The messages that are enqueued after the events, in a cycle.
    messages: Vec<Option<When>>,
}

fn calls() -> impl Strategy<Value = Calls> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_1"), Just("call_2")];
    vec((id, any::<bool>()), 1..5)
}

/// Plays in which nothing is too much.
fn plays() -> impl Strategy<Value = Play> {
    (vec(calls(), 0..4), vec(any::<Index>(), 16)).prop_map(|(replies, order)| Play {
        replies: replies.into_iter().map(Said::Calls).collect(),
        order,
        config: RunConfig { max_repeated_calls: None, ..RunConfig::default() },
        in_text: false,
        earlier: Transcript::new(),
        summaries: Vec::new(),
        pushes: Vec::new(),
        messages: Vec::new(),
    })
}

/// Plays in which tools push calls, also from calls that were pushed.
fn pushing_plays() -> impl Strategy<Value = Play> {
    (plays(), vec(any::<bool>(), 1..4)).prop_map(|(play, pushes)| Play { pushes, ..play })
}

/// Plays in which messages are enqueued at any time, also while calls are under way.
fn enqueuing_plays() -> impl Strategy<Value = Play> {
    let when = prop_oneof![Just(When::NextRequest), Just(When::Idle)];
    let messages = vec(option::of(when), 1..6);
    (pushing_plays(), messages).prop_map(|(play, messages)| Play { messages, ..play })
}

/// Plays in which there is too much for the model, which is shown less, and asked for outputs at the end.
fn long_plays() -> impl Strategy<Value = Play> {
    let said =
        prop_oneof![4 => calls().prop_map(Said::Calls), 1 => Just(Said::Prose), 3 => Just(Said::TooLong)];
    let context = (option::of(1_usize..4), option::of(Just(10)), 0_u32..4, any::<bool>());
    let context = context.prop_map(|(latest, tokens, omissions, compaction)| ContextConfig {
        latest,
        tokens,
        omissions,
        compaction,
    });
    let setting = (context, any::<bool>(), any::<bool>(), any::<bool>());
    (plays(), vec(said, 0..10), setting, vec(any::<bool>(), 0..4)).prop_map(
        |(play, replies, (context, extracts, in_text, follows), summaries)| {
            let outputs = Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
            let output_strategy = OutputStrategy::Extraction;
            let config = RunConfig { context, output_strategy, max_output_retries: 20, ..play.config };
            let config = RunConfig { outputs: extracts.then_some(outputs), ..config };
            let earlier = if follows { earlier() } else { Transcript::new() };
            Play { replies, config, in_text, earlier, summaries, ..play }
        },
    )
}

fn earlier() -> Transcript {
    let call = ToolCall::new("a", "tool", "goes well");
    let asks = AssistantMessage { tool_calls: vec![call.clone()], ..AssistantMessage::default() };
    let now = Timestamp::default();
    let result =
        Message::tool(ToolResult { call_id: "a".to_owned(), name: "tool".to_owned(), ..result(&call, now) });
    let said = [Message::user("Begin."), Message::assistant(asks), result, Message::assistant("Begun.")];
    said.into_iter().chain([Message::user("And?"), Message::assistant("Yes.")]).collect()
}

impl Play {
    fn dialect(&self) -> &'static dyn Dialect {
        if self.in_text { &TextReact } else { &NativeCalls }
    }

    fn reply(&self, said: Option<&Said>, run: &Run) -> Result<ChatResponse, ModelError> {
        let reply = match said {
            Some(Said::TooLong) => return Err(ModelError::ContextTooLong("too much".to_owned())),
            Some(Said::Calls(calls)) if self.in_text => {
                let fails = calls.iter().any(|(_, fails)| *fails);
                ChatResponse::new(format!("Thought: So.\nAction: tool\nArguments: {{\"fails\": {fails}}}"))
            }
            Some(Said::Calls(calls)) => calling(calls),
            Some(Said::Prose) => ChatResponse::new("Hm."),
            None if run.outputs().is_some() && self.in_text => {
                ChatResponse::new("Thought: So.\nAction: finish\nArguments: {\"sum\": 1}")
            }
            None if run.outputs().is_some() => {
                let tool_calls = vec![ToolCall::new("f", "finish", r#"{"sum":1}"#)];
                ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
            }
            None if self.in_text => ChatResponse::new("Answer: Done."),
            None => ChatResponse::new("Done."),
        };
        Ok(ChatResponse { usage: Usage::of_request(20, 0), ..reply })
    }
}

/// A run that is played, until so many events have happened. `between` is done to it after each.
struct Stage<'p, F> {
    play: &'p Play,
    order: std::slice::Iter<'p, Index>,
    events: usize,
    clock: i64,
    /// How many calls were pushed.
    pushed: usize,
    /// The calls that were made.
    made: HashSet<String>,
    /// Number of messages that were enqueued.
    enqueued: usize,
    between: F,
}

/// Maximum number of messages that are enqueued in one play.
const ENQUEUED: usize = 6;

/// How many calls are pushed in one play.
const PUSHED: usize = 8;

impl<F: Fn(Run) -> Run> Stage<'_, F> {
    /// Whether the play goes on.
    fn happens(&mut self, run: &mut Run) -> bool {
        self.clock += 1;
        let clock = usize::try_from(self.clock).unwrap();
        let when = self.play.messages.get(clock % self.play.messages.len().max(1)).copied().flatten();
        if let Some(when) = when.filter(|_| self.enqueued < ENQUEUED) {
            run.enqueue(format!("{when:?} {}", self.enqueued), when).unwrap();
            self.enqueued += 1;
        }
        *run = (self.between)(run.clone());
        self.events.checked_sub(1).map(|left| self.events = left).is_some()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.clock)
    }

    /// Pushes a call as a tool does, which may need the result of the one before.
    fn push(&mut self, run: &mut Run) {
        let clock = usize::try_from(self.clock).unwrap();
        let pushes = &self.play.pushes;
        if self.pushed == PUSHED || pushes.is_empty() || !pushes[clock % pushes.len()] {
            return;
        }
        let id = |number: usize| format!("pending_{number:032x}");
        let arguments = match self.pushed.checked_sub(1) {
            Some(before) if clock.is_multiple_of(2) => format!(r#"{{"text":"{}"}}"#, id(before)),
            _ => "fails".to_owned(),
        };
        run.add_calls([ToolCall::new(id(self.pushed), "tool", arguments)]).unwrap();
        self.pushed += 1;
    }

    fn make(&mut self, run: &mut Run, batch: CallBatch) -> bool {
        let mut open = batch.calls;
        while !open.is_empty() {
            let place = self.order.next().map_or(0, |index| index.index(open.len()));
            let call = open.remove(place);
            self.push(run);
            assert!(self.made.insert(call.id.clone()), "{call:?} is made twice");
            run.on_result(&call.id, result(&call, self.now())).unwrap();
            assert!(run.on_result(&call.id, result(&call, self.now())).is_err(), "one result a call");
            if !self.happens(run) {
                return false;
            }
            // After a crash nobody makes the others: what became of them is in the run.
            let under_way = run.interrupted();
            open.retain(|call| under_way.contains(call));
        }
        true
    }
}

/// Plays to the end, or until so many events have happened. `between` is done to the run after each.
fn perform(play: &Play, events: usize, between: impl Fn(Run) -> Run) -> Run {
    let mut run = Run::new(&play.config, RunInput::new("Go.").with_history(play.earlier.clone())).unwrap();
    let (mut replies, mut summaries) = (play.replies.iter(), play.summaries.iter());
    let made = HashSet::new();
    let order = play.order.iter();
    let mut stage = Stage { play, order, events, clock: 0, pushed: 0, made, enqueued: 0, between };
    let (tools, placeholders) = (ToolList::default(), Placeholders::new());
    while stage.happens(&mut run) {
        let dialect = stage.play.dialect();
        let mut step = Step::new(&tools, dialect, stage.now());
        step.resolver = Some(&placeholders);
        match run.next(&step).unwrap() {
            Effect::Prepare => {}
            Effect::Chat(request) => {
                assert_shown(play, &run, &request);
                let reply = play.reply(replies.next(), &run);
                let reply = reply.map(|reply| dialect.fold(reply, run.outputs()));
                if let Err(error) = run.on_chat(reply) {
                    assert!(error.to_string().contains("too much"), "{error}");
                    return run;
                }
            }
            Effect::Compact(part) => {
                assert_summarised(&run, &part);
                let finish_reason = match summaries.next() {
                    Some(true) => FinishReason::Stop,
                    _ => FinishReason::Length,
                };
                run.on_compact(Ok(ChatResponse { finish_reason, ..ChatResponse::new("Sums.") })).unwrap();
            }
            Effect::Call(batch) => {
                if !stage.make(&mut run, batch) {
                    return run;
                }
            }
            Effect::Done(_) => return run,
            other => panic!("{other:?}"),
        }
    }
    run
}

/// What is shown is what a provider takes, with the question, the last observation and the last summary alone.
#[track_caller]
fn assert_shown(play: &Play, run: &Run, request: &ChatRequest) {
    assert_request_paired(request);
    let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
    assert!(texts.iter().any(|text| text.contains("Go.")), "the question is not shown: {texts:?}");
    let is_summarised = run.transcript().messages().iter().any(|message| is_summary(message));
    let summaries = texts.iter().filter(|text| text.starts_with("Summary of")).count();
    assert_eq!(summaries, usize::from(is_summarised), "{texts:?}");
    if !play.in_text {
        let own = run.transcript().messages().iter().skip(play.earlier.len());
        let last = own.rev().find(|message| !message.tool_calls().is_empty());
        assert!(last.is_none_or(|last| request.messages.iter().any(|shown| shown == last)), "{texts:?}");
    }
}

#[track_caller]
fn assert_summarised(run: &Run, part: &View) {
    let messages: Vec<_> = part.iter().map(|message| (**message).clone()).collect();
    assert_request_paired(&ChatRequest::new(messages.clone()));
    let latest = run.transcript().messages().iter().rfind(|message| is_summary(message));
    let told: Vec<_> = messages.iter().filter(|message| is_summary(message)).collect();
    assert_eq!(told, latest.map(|message| &**message).into_iter().collect::<Vec<_>>());
}

fn is_summary(message: &Message) -> bool {
    message.text().starts_with("Summary of")
}

fn calling(calls: &Calls) -> ChatResponse {
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

    /// Any interleaving of results leaves every call answered once, in call order.
    #[test]
    fn every_call_has_one_result_in_call_order(play in plays()) {
        let run = perform(&play, usize::MAX, |run| run);
        assert_paired(run.transcript());
        let calls = |said: &Said| if let Said::Calls(calls) = said { calls.len() } else { 0 };
        let calls: usize = play.replies.iter().map(calls).sum();
        prop_assert_eq!(run.transcript().len(), 1 + play.replies.len() + calls + 1);
    }

    /// Behaviour D38: cancelled at any point, every call has its result.
    #[test]
    fn cancelled_anywhere_every_call_is_closed(play in plays(), events in 0_usize..30) {
        let mut run = perform(&play, events, |run| run);
        run.cancel();
        assert_paired(run.transcript());
    }

    /// Behaviour D39: saved and loaded between any two steps, a run comes to the same end.
    #[test]
    fn saved_anywhere_the_outcome_is_the_same(play in plays(), events in 0_usize..30) {
        prop_assert_eq!(perform(&play, events, |run| run), perform(&play, events, through_json));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same with overflows, summaries, views of the latest and extractions: whatever is shown is shown whole, and the next
    /// run of the conversation can begin.
    #[test]
    fn what_is_shown_is_shown_whole(play in long_plays(), events in 0_usize..40) {
        for events in [events, usize::MAX] {
            let mut run = perform(&play, events, |run| run);
            run.cancel();
            assert_paired(run.transcript());
            let next = Play { replies: vec![Said::TooLong], earlier: run.transcript().clone(), ..play.clone() };
            let next = perform(&next, usize::MAX, |run| run);
            assert_paired(next.transcript());
            prop_assert!(next.transcript().messages().starts_with(run.transcript().messages()));
        }
    }

    #[test]
    fn saved_anywhere_the_same_is_shown(play in long_plays(), events in 0_usize..40) {
        prop_assert_eq!(perform(&play, events, |run| run), perform(&play, events, through_json));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Behaviour D37: whatever is pushed has one result, cancelled at any point or not, and no reply seems to have asked for it.
    #[test]
    fn every_pushed_call_is_told_of_once(play in pushing_plays(), events in 0_usize..40) {
        for events in [events, usize::MAX] {
            let mut run = perform(&play, events, |run| run);
            run.cancel();
            assert_paired(run.transcript());
            let messages = run.transcript().messages();
            let notes = messages.iter().filter(|message| is_hint(message)).map(|note| note.text()).collect::<String>();
            let told: Vec<_> = notes.matches("\npending_").collect();
            prop_assert_eq!(told.len(), run_pushed(&run));
            prop_assert_eq!(QueuedResults::of(run.transcript()).iter().count(), told.len());
        }
    }

    #[test]
    fn saved_anywhere_the_queue_is_the_same(play in pushing_plays(), events in 0_usize..40) {
        prop_assert_eq!(perform(&play, events, |run| run), perform(&play, events, through_json));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Behaviour D38 and Behaviour D1: the process is lost between any two steps, and another goes on from what was saved: no call is
    /// made twice, and each has one result.
    #[test]
    fn after_a_crash_anywhere_no_call_is_made_twice(play in pushing_plays(), crashes in vec(0_usize..40, 0..4)) {
        let clock = Cell::new(0);
        let run = perform(&play, usize::MAX, |run| {
            clock.set(clock.get() + 1);
            if !crashes.contains(&clock.get()) {
                return run;
            }
            let mut run = through_json(run);
            run.recover(&ToolList::default());
            run
        });
        assert_paired(run.transcript());
        prop_assert!(run.interrupted().is_empty());
        let told = QueuedResults::of(run.transcript()).iter().count();
        prop_assert_eq!(told, run_pushed(&run));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Messages enqueued at any time are delivered once and in order, never between calls and their results. A finished run
    /// has delivered all of them; a cancelled one keeps the others.
    #[test]
    fn enqueued_messages_are_delivered_once_and_in_order(play in enqueuing_plays(), events in 0_usize..40) {
        for events in [events, usize::MAX] {
            let mut run = perform(&play, events, |run| run);
            prop_assert!(events < usize::MAX || run.undelivered().count() == 0);
            run.cancel();
            assert_paired(run.transcript());
            let delivered = run.transcript().messages().iter().filter(|message| is_enqueued(message));
            let mut texts: Vec<_> = delivered.map(|message| message.text()).collect();
            for when in ["NextRequest", "Idle"] {
                let numbers = texts.iter().filter_map(|text| text.strip_prefix(when)?.trim().parse::<usize>().ok());
                prop_assert!(numbers.is_sorted(), "{:?}", texts);
            }
            texts.extend(run.undelivered().map(|(message, _)| message.text()));
            let all: HashSet<_> = texts.iter().collect();
            prop_assert_eq!(all.len(), texts.len());
            let numbers = texts.iter().filter_map(|text| text.split(' ').next_back()?.parse::<usize>().ok());
            prop_assert_eq!(numbers.max().map_or(0, |last| last + 1), texts.len());
        }
    }

    #[test]
    fn saved_anywhere_the_same_messages_are_delivered(play in enqueuing_plays(), events in 0_usize..40) {
        prop_assert_eq!(perform(&play, events, |run| run), perform(&play, events, through_json));
    }
}

fn run_pushed(run: &Run) -> usize {
    let pushed = serde_json::to_value(run).unwrap()["head"]["added_total"].as_u64();
    usize::try_from(pushed.unwrap_or_default()).unwrap()
}
