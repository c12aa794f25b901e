//! An index of the placeholders in a transcript.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{Message, ToolCall, ToolResult, Transcript};

use super::{
    QueuedResults,
    results::{ResultsChange, is_placeholder},
    selection::select_calls,
};
use crate::run::{CallSelection, Output, Resolver, call_results};

/// A [`Resolver`] that replaces placeholders with the results of queued calls. A driver passes it
/// to the run in [`Step::resolver`](crate::Step::resolver).
///
/// Use one `QueueResolver` per run. Its index is derived from the transcript and never saved. Each
/// step reads only the new messages.
///
/// # Examples
///
/// ```
/// use haft_core::{Timestamp, toolset::ToolList};
/// use haft_react::{NativeCalls, Step, queue::QueueResolver};
///
/// let (tools, placeholders) = (ToolList::default(), QueueResolver::default());
/// let mut step = Step::new(&tools, &NativeCalls, Timestamp::now());
/// step.resolver = Some(&placeholders);
/// ```
#[derive(Debug, Default)]
pub struct QueueResolver(Mutex<PlaceholderIndex>);

#[derive(Debug, Default)]
struct PlaceholderIndex {
    results: QueuedResults,
    /// Copies of the messages in which placeholders were replaced, by index in the transcript.
    messages: Arc<BTreeMap<usize, Arc<Message>>>,
    /// The indices of the messages with unresolved placeholders. A placeholder is unresolved if its
    /// call has no result yet, or if the result is too long or nested too deeply.
    unresolved: BTreeSet<usize>,
    /// The number of transcript messages read so far.
    read_count: usize,
}

impl QueueResolver {
    /// Creates a resolver for a new run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if `id` has the form of a placeholder. Only the results of calls with these
    /// ids can be inserted, because other ids are not recognized in a text.
    pub fn is_placeholder(id: &str) -> bool {
        is_placeholder(id)
    }

    fn updated_index(&self, transcript: &Transcript) -> MutexGuard<'_, PlaceholderIndex> {
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        index.update(transcript);
        index
    }
}

impl Resolver for QueueResolver {
    fn messages(&self, transcript: &Transcript) -> Arc<BTreeMap<usize, Arc<Message>>> {
        Arc::clone(&self.updated_index(transcript).messages)
    }

    fn output(&self, transcript: &Transcript, mut output: Output) -> Output {
        let index = self.updated_index(transcript);
        let results = &index.results;
        if results.is_empty() {
            return output;
        }
        output.text = results.resolve_text(&output.text).into_owned();
        for value in output.outputs.values_mut().chain(&mut output.value) {
            if let Some(resolved) = results.resolve_value(value) {
                *value = resolved;
            }
        }
        output
    }

    fn result(&self, transcript: &Transcript, result: &ToolResult) -> Option<ToolResult> {
        self.updated_index(transcript).results.resolve_result(result)
    }

    fn select(&self, transcript: &Transcript, waiting: Vec<ToolCall>) -> CallSelection {
        select_calls(waiting, &self.updated_index(transcript).results)
    }
}

impl PlaceholderIndex {
    /// Reads the new messages of `transcript`. Resolves earlier messages again if new results can
    /// change them.
    fn update(&mut self, transcript: &Transcript) {
        let messages = transcript.messages();
        if messages.len() < self.read_count {
            *self = Self::default();
        }
        let had_results = !self.results.is_empty();
        let new_results = self.results.add_recorded(messages.get(self.read_count..).unwrap_or_default());
        if self.results.is_empty() {
            self.read_count = messages.len();
            return;
        }
        let indices = match new_results {
            // No message was resolved before the first result arrived, so all earlier messages are
            // resolved now.
            _ if !had_results => (0..self.read_count).collect(),
            ResultsChange::None => BTreeSet::new(),
            ResultsChange::Added => mem::take(&mut self.unresolved),
            ResultsChange::Changed => (0..self.read_count).collect(),
        };
        self.unresolved.retain(|index| !indices.contains(index));
        for index in indices.into_iter().chain(self.read_count..messages.len()) {
            if let Some(message) = messages.get(index).filter(|message| call_results(message).is_none()) {
                self.resolve(index, message);
            }
        }
        self.read_count = messages.len();
    }

    fn resolve(&mut self, index: usize, message: &Message) {
        let (resolved, is_unresolved) = self.results.resolve_message_status(message);
        if is_unresolved {
            self.unresolved.insert(index);
        }
        let Some(resolved) = resolved else { return };
        // An equal copy is not replaced, because its rendering is already cached.
        if self.messages.get(&index).is_none_or(|known| **known != resolved) {
            Arc::make_mut(&mut self.messages).insert(index, Arc::new(resolved));
        }
    }
}
