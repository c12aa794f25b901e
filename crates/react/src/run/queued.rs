//! Calls that tools push from code that cannot wait for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use haft_core::{
    Message, ToolCall, ToolResult, Transcript,
    agent::{AgentErrorKind, AgentStep, RunAnswer},
    call::FailureKind,
    limits,
    toolset::ToolList,
};

use super::{OpenCalls, Output, Phase, Run, RunError, queued_in};
use crate::queue::{Learned, QueuedResults, Round, is_placeholder, next_round};

impl Run {
    /// Tells of calls that a tool has [pushed](crate::QueueHandle::push): they are handed out when the calls of the reply are done, before
    /// the next request, and the model is shown their results in the places of their placeholders.
    ///
    /// To be told before the result of the call that pushed them, if it went well: what is saved then has both. A driver of its own
    /// makes a [`PendingQueue`](crate::PendingQueue) for each call, gives its handle to the call as
    /// [state](haft_core::pipeline::Batch::states), and tells of [its calls](crate::PendingQueue::into_calls) here.
    ///
    /// # Errors
    ///
    /// Fails, and takes none of the calls, when the run is over, when there are too many, and when the id of one is no placeholder or was
    /// used before.
    pub fn on_queued(&mut self, calls: impl IntoIterator<Item = ToolCall>) -> Result<(), RunError> {
        let calls: Vec<_> = calls.into_iter().collect();
        if calls.is_empty() {
            return Ok(());
        }
        if let Phase::Answered { .. } | Phase::Cancelled = self.head.phase {
            return Err(RunError::Over);
        }
        if calls.len() > self.queue_room() {
            return Err(RunError::QueueFull(limits::QUEUED_CALLS));
        }
        self.placed.keep_up(&self.transcript);
        let mut ids: BTreeSet<_> = self.head.queued.iter().map(|call| call.id.as_str()).collect();
        if let Phase::Calling { calls, queued: true } = &self.head.phase {
            ids.extend(calls.ids());
        }
        let is_new = |id| self.placed.results.get(id).is_none();
        let refused =
            calls.iter().find(|it| !is_placeholder(&it.id) || !is_new(&it.id) || !ids.insert(&it.id));
        if let Some(refused) = refused {
            return Err(RunError::NoPlaceholder(refused.id.clone()));
        }
        self.head.pushed += calls.len();
        self.head.queued.extend(calls);
        Ok(())
    }

    /// How many more calls tools may push in this run.
    pub(crate) fn queue_room(&self) -> usize {
        limits::QUEUED_CALLS.saturating_sub(self.head.pushed)
    }

    /// Opens the calls of the queue that can be made next, if there are any.
    pub(super) fn open_queued(&mut self) -> Result<(), AgentErrorKind> {
        self.placed.keep_up(&self.transcript);
        let Round { calls, failed } = next_round(&mut self.head.queued, &self.placed.results, self.head.now);
        self.note(failed);
        if calls.is_empty() {
            return Ok(());
        }
        self.begin_calls(calls, true)
    }

    /// Gives the calls of the queue that were never handed out a result that says why.
    pub(super) fn close_queue(&mut self, kind: FailureKind, why: &str) {
        let open = OpenCalls::new(mem::take(&mut self.head.queued));
        let closed: Vec<_> = open.close(kind, why, self.head.now).collect();
        self.note(closed);
    }

    /// Puts results of the queue into the transcript, behind what is there.
    pub(super) fn note(&mut self, results: Vec<Arc<ToolResult>>) {
        let mut note = QueuedResults::default();
        note.extend(results);
        if let Some(note) = note.note() {
            self.push(note);
        }
    }

    /// The same with the results of the queue in their places.
    pub(super) fn filled(&mut self, mut output: Output) -> Output {
        self.placed.keep_up(&self.transcript);
        let results = &self.placed.results;
        if results.is_empty() {
            return output;
        }
        output.text = results.in_text(&output.text).into_owned();
        for value in output.outputs.values_mut() {
            if let Some(filled) = results.in_value(value) {
                *value = filled;
            }
        }
        output
    }

    /// An answer with the results in their places.
    pub(super) fn shown_answer(&mut self, mut answer: RunAnswer) -> RunAnswer {
        let RunAnswer { text, outputs, stop_reason, .. } = answer;
        let Output { text, outputs, .. } = self.filled(Output { text, outputs, stop_reason });
        (answer.text, answer.outputs) = (text, outputs);
        let results = &self.placed.results;
        if !results.is_empty() {
            let shown = answer.steps.iter().map(|step| {
                let result = results.in_result(&step.result).unwrap_or_else(|| step.result.clone());
                AgentStep { result, ..step.clone() }
            });
            answer.steps = shown.collect();
        }
        answer
    }
}

/// Whether a call whose outcome nobody knows can be made again.
pub(crate) fn may_go_again(tools: &ToolList, call: &ToolCall) -> bool {
    tools.get(&call.name).is_some_and(|tool| tool.definition().policy().idempotent)
}

/// What is shown in the place of messages with placeholders. Derived from the transcript, never saved.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    pub(super) results: QueuedResults,
    pub(super) messages: Arc<BTreeMap<usize, Arc<Message>>>,
    /// Those of them, or of messages that are shown as they are, with places that have no result yet.
    open: BTreeSet<usize>,
    /// How many messages of the transcript were looked at.
    read: usize,
}

/// Two runs are equal whatever was looked at.
impl PartialEq for Placed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Placed {
    /// Looks at what is new in the transcript, and again at what was said before where that may be another now.
    pub(super) fn keep_up(&mut self, transcript: &Transcript) {
        let messages = transcript.messages();
        let learned = self.results.learn(messages.get(self.read..).unwrap_or_default());
        let again = match learned {
            Learned::Nothing => BTreeSet::new(),
            Learned::New => mem::take(&mut self.open),
            Learned::Others => (0..self.read).collect(),
        };
        self.open.retain(|place| !again.contains(place));
        for place in again.into_iter().chain(self.read..messages.len()) {
            if let Some(message) = messages.get(place).filter(|message| queued_in(message).is_none()) {
                self.show(place, message);
            }
        }
        self.read = messages.len();
    }

    fn show(&mut self, place: usize, message: &Message) {
        let (shown, is_open) = self.results.message(message);
        if is_open {
            self.open.insert(place);
        }
        let Some(shown) = shown else { return };
        // What is shown already keeps its rendering.
        if self.messages.get(&place).is_none_or(|known| **known != shown) {
            Arc::make_mut(&mut self.messages).insert(place, Arc::new(shown));
        }
    }
}
