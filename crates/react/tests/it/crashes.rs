//! Processes that die at any point: what was handed out is done at most once, and every call is answered.

use std::collections::{BTreeMap, BTreeSet};

use haft_core::{
    RunInput, Timestamp, ToolCall, ToolError, ToolExt as _, ToolOutput, ToolResult,
    call::{Decision, Pending, PendingCall, PendingKind, Resumed},
    message::AssistantMessage,
    model::{ChatResponse, ModelError},
    tool::ToolPolicy,
    toolset::ToolList,
};
use haft_react::{
    Dialect as _, Effect, NativeCalls, OutputError, Run, RunConfig, Step,
    run::{CallBatch, ContextConfig},
};
use proptest::{
    bool::weighted,
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest},
    sample::Index,
};
use serde_json::json;

use crate::{
    pairing::{assert_paired, assert_request_paired, assert_view_paired},
    tools::plain,
};

/// What a call does: the name of its tool.
type Kind = &'static str;

#[derive(Clone, Debug)]
struct Play {
    replies: Vec<Vec<(&'static str, Kind)>>,
    order: Vec<Index>,
    /// After which events the process dies.
    dies: Vec<bool>,
    /// After which it saves the run, beside every time that an effect is handed out.
    saves: Vec<bool>,
    /// Which answers are taken.
    taken: Vec<bool>,
    /// At which requests the conversation is too long, and which summaries of it fail.
    overflows: Vec<bool>,
    config: RunConfig,
}

fn plays() -> impl Strategy<Value = Play> {
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
    let lives = (vec(any::<Index>(), 40), vec(weighted(0.2), 60), vec(any::<bool>(), 60));
    let models = (replies, vec(any::<bool>(), 0..3), vec(weighted(0.3), 12));
    let config = (any::<bool>(), any::<bool>(), any::<bool>());
    (lives, models, config).prop_map(
        |((order, dies, saves), (replies, taken, overflows), (check_outputs, stops, compaction))| Play {
            replies,
            order,
            dies,
            saves,
            taken,
            overflows,
            config: RunConfig {
                check_outputs,
                stop_on: stops.then(|| "once".to_owned()).into_iter().collect(),
                max_repeated_calls: None,
                max_output_retries: 10,
                context: ContextConfig { compaction, ..ContextConfig::default() },
                ..RunConfig::default()
            },
        },
    )
}

/// What is there whatever becomes of the process.
#[derive(Default)]
struct World {
    /// How often each call had its effect.
    effects: BTreeMap<String, u32>,
    /// What was answered of the calls inside each call.
    inside: BTreeMap<String, BTreeSet<String>>,
}

impl World {
    fn execute(&mut self, batch: &CallBatch, call: &ToolCall) -> Result<ToolResult, Box<Pending>> {
        let answer = batch.resumed.get(&call.id).map(Resumed::decision);
        let pending = match (&*call.name, answer) {
            ("approved", None) => PendingKind::Approval { arguments: json!({}) },
            ("external", None) => PendingKind::External,
            ("nested", answer) => {
                let known = self.inside.entry(call.id.clone()).or_default();
                if let Some(Decision::Nested { decisions: answers }) = answer {
                    known.extend(answers.keys().cloned());
                }
                let left: Vec<_> =
                    inner(call).into_iter().filter(|it| !known.contains(&it.call.id)).collect();
                if left.is_empty() {
                    return Ok(self.effect(call));
                }
                PendingKind::Nested { pending: left }
            }
            _ => return Ok(self.effect(call)),
        };
        Err(Pending::new(pending).into())
    }

    fn effect(&mut self, call: &ToolCall) -> ToolResult {
        *self.effects.entry(call.id.clone()).or_default() += 1;
        match &*call.name {
            "fails" => ToolResult::failed("", "", &ToolError::retry("again")),
            _ => ToolResult::done("", "", ToolOutput::from("done")),
        }
    }
}

fn inner(call: &ToolCall) -> Vec<PendingCall> {
    let pending = Pending::new(PendingKind::External);
    let calls = ["x", "y"].map(|it| ToolCall::new(format!("{}/{it}", call.id), "inner", "{}"));
    calls.map(|call| PendingCall { call, pending: pending.clone() }).into()
}

fn tools() -> ToolList {
    let policy = ToolPolicy { idempotent: true, retries: 1, ..ToolPolicy::default() };
    let again = plain("again", || async {}).with_definition(|it| it.with_policy(policy));
    ToolList::new("test", [again])
}

fn saved(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

/// One life after another of a process that drives a run.
struct Lives<'p> {
    play: &'p Play,
    run: Run,
    /// What a next life begins with.
    kept: String,
    world: World,
    tools: ToolList,
    order: std::slice::Iter<'p, Index>,
    dies: std::slice::Iter<'p, bool>,
    saves: std::slice::Iter<'p, bool>,
    taken: std::slice::Iter<'p, bool>,
    overflows: std::slice::Iter<'p, bool>,
    deaths: u32,
}

impl<'p> Lives<'p> {
    fn new(play: &'p Play) -> Self {
        let run = Run::new(&play.config, RunInput::new("Go.")).unwrap();
        Self {
            play,
            kept: saved(&run),
            run,
            world: World::default(),
            tools: tools(),
            order: play.order.iter(),
            dies: play.dies.iter(),
            saves: play.saves.iter(),
            taken: play.taken.iter(),
            overflows: play.overflows.iter(),
            deaths: 0,
        }
    }

    /// Something happened: maybe it is saved, and maybe the process dies. Whether it lives on.
    fn happened(&mut self) -> bool {
        if self.saves.next().copied().unwrap_or(true) {
            self.kept = saved(&self.run);
        }
        self.lives()
    }

    fn lives(&mut self) -> bool {
        let dies = self.dies.next().copied().unwrap_or_default();
        if dies {
            self.deaths += 1;
            self.run = serde_json::from_str(&self.kept).unwrap();
            self.run.recover(&self.tools);
        }
        !dies
    }

    fn overflows(&mut self) -> bool {
        self.overflows.next().copied().unwrap_or_default()
    }

    fn pick(&mut self, of: usize) -> usize {
        self.order.next().map_or(0, |index| index.index(of))
    }

    /// Drives to the end; whether there was an answer.
    fn drive(&mut self) -> bool {
        let mut replies = self.play.replies.iter();
        for clock in 0..2_000 {
            let step = Step::new(&self.tools, &NativeCalls, Timestamp::from_unix_millis(clock));
            let Ok(effect) = self.run.next(&step) else { return false };
            self.kept = saved(&self.run);
            if !self.lives() {
                continue;
            }
            match effect {
                Effect::Prepare => {}
                Effect::Chat(request) if self.overflows() => {
                    assert_request_paired(&request);
                    let too_long = ModelError::ContextTooLong("too long".to_owned());
                    if self.run.on_chat(Err(too_long)).is_err() {
                        return false;
                    }
                    self.happened();
                }
                Effect::Compact(earlier) => {
                    assert_view_paired(&earlier);
                    let failed = ModelError::EmptyResponse;
                    let summary = if self.overflows() { Err(failed) } else { Ok(ChatResponse::new("Much.")) };
                    self.run.on_compact(summary).unwrap();
                    self.happened();
                }
                Effect::Chat(request) => {
                    assert_request_paired(&request);
                    let reply =
                        replies.next().map_or_else(|| ChatResponse::new("Done."), |calls| calling(calls));
                    self.run.on_chat(Ok(NativeCalls.fold(reply, None))).unwrap();
                    self.happened();
                }
                Effect::Call(batch) => self.make(&batch),
                Effect::Wait(pending) => self.answer(&pending),
                Effect::Check(output) => {
                    let taken = self.taken.next().copied().unwrap_or(true);
                    let verdict = if taken { Ok(*output) } else { Err(OutputError::retry("no")) };
                    self.run.on_check(verdict).unwrap();
                    self.happened();
                }
                Effect::Done(_) => return true,
                other => panic!("{other:?}"),
            }
        }
        panic!("it comes to no end");
    }

    fn make(&mut self, batch: &CallBatch) {
        let mut open = batch.calls.clone();
        while !open.is_empty() {
            let place = self.pick(open.len());
            let call = open.remove(place);
            match self.world.execute(batch, &call) {
                Ok(result) => {
                    self.run.on_result(&call.id, result).unwrap();
                }
                Err(pending) => self.run.on_pending(PendingCall { call, pending: *pending }).unwrap(),
            }
            if !self.happened() {
                return;
            }
        }
    }

    /// Answers some of the calls that wait.
    fn answer(&mut self, pending: &[PendingCall]) {
        let mut leaves: Vec<_> = pending.iter().flat_map(PendingCall::leaves).collect();
        for _ in 0..=self.pick(leaves.len()) {
            let place = self.pick(leaves.len());
            let waits = leaves.remove(place);
            let answer = match &waits.pending.kind {
                PendingKind::Approval { .. } if place > 0 => Decision::denied("no"),
                PendingKind::Approval { .. } => Decision::approved(),
                _ => Decision::output("given"),
            };
            self.run.on_decision(&waits.call.id, answer.clone()).unwrap();
            assert!(self.run.on_decision(&waits.call.id, answer).is_err(), "one answer a call");
            if !self.happened() {
                return;
            }
        }
    }
}

fn calling(calls: &[(&'static str, Kind)]) -> ChatResponse {
    let tool_calls = calls.iter().map(|(id, kind)| ToolCall::new(*id, *kind, "{}")).collect();
    ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A call that is not idempotent is made at most once, whenever the process dies and whatever it had saved, with
    /// answers in parts, calls inside calls, checked answers, summaries, steps that are left out and tools that end the run.
    #[test]
    fn whoever_dies_makes_no_call_twice(play in plays()) {
        let mut lives = Lives::new(&play);
        let answered = lives.drive();
        let names: BTreeMap<_, _> = lives.run.transcript().messages().iter()
            .flat_map(|message| message.tool_calls())
            .map(|call| (call.id.as_str(), call.name.as_str()))
            .collect();
        for (id, times) in &lives.world.effects {
            prop_assert!(names.contains_key(id.as_str()), "the call {id} was made and is not in the conversation");
            prop_assert!(*times == 1 || names[id.as_str()] == "again", "{} {id} was made {times} times", names[id.as_str()]);
            prop_assert!(*times == 1 || lives.deaths > 0);
        }
        if !answered {
            lives.run.cancel();
        }
        assert_paired(lives.run.transcript());
        // The conversation goes on.
        prop_assert!(Run::new(&play.config, RunInput::new("More.").with_history(lives.run.transcript().clone())).is_ok());
    }

    /// Behaviour D38: and whoever is cancelled after that closes every call.
    #[test]
    fn whoever_is_cancelled_closes_every_call(play in plays(), events in 0_usize..30) {
        let mut play = play;
        // The last life ends there.
        play.dies.truncate(events);
        let mut lives = Lives::new(&play);
        let replies: Vec<_> = play.replies.iter().take(events % 4).cloned().collect();
        let shorter = Play { replies, ..play.clone() };
        lives.play = &shorter;
        lives.drive();
        let mut run: Run = serde_json::from_str(&lives.kept).unwrap();
        run.cancel();
        assert_paired(run.transcript());
    }
}
