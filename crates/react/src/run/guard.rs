//! What keeps a model from going round in circles.

mod meaning;

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    call::{FailureKind, Outcome},
};

use super::calls::is;
use meaning::{Meaning, hash};

/// The longest round of calls that is noticed when it begins anew, unless one reply has more of them.
const ROUND: usize = 4;

/// The calls of a run, from the first to the last, each as a mark that it shares with those that ask for the same, however their
/// arguments are written. Derived from the transcript, never saved.
#[derive(Clone, Debug, Default)]
pub(super) struct CallsMade {
    marks: Vec<u64>,
    /// How many messages of the run were looked at.
    read: usize,
}

/// Two runs are equal whatever was looked at.
impl PartialEq for CallsMade {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CallsMade {
    /// Looks at what is new among the messages of the run.
    pub(super) fn keep_up(&mut self, messages: &[Arc<Message>]) {
        let new = messages.get(self.read..).unwrap_or_default();
        self.marks.extend(new.iter().flat_map(|message| message.tool_calls()).map(mark));
        self.read = messages.len();
    }

    /// How many times in a row the last calls are the same: one call, or a round of several such as A, B, A, B. At most one more
    /// than `limit`. The last reply has `latest` calls.
    pub(super) fn repetitions(&self, latest: usize, limit: u32) -> u32 {
        let rounds = (1..=ROUND).chain([latest]);
        rounds.map(|length| self.rounds(length, limit.saturating_add(1))).max().unwrap_or(1)
    }

    /// How often in a row the last round of this length was made, counted up to `most`.
    fn rounds(&self, length: usize, most: u32) -> u32 {
        for number in 1..most {
            let start = length * number as usize;
            if !(start..start + length).all(|index| self.repeats(index, length)) {
                return number;
            }
        }
        most
    }

    /// Whether the call at this index, counted from the last one, is the same as the one a round later.
    fn repeats(&self, index: usize, length: usize) -> bool {
        let mark = |index| self.marks.iter().rev().nth(index);
        let later = index.checked_sub(length).and_then(mark);
        mark(index).is_some_and(|mark| Some(mark) == later)
    }
}

/// What a call has in common with those that ask for the same. Arguments that are no JSON are what is written.
fn mark(call: &ToolCall) -> u64 {
    let arguments = serde_json::from_str::<Meaning>(&call.arguments).map_err(|_no_json| &call.arguments);
    hash((&call.name, arguments))
}

/// Tells the model that it repeats itself.
pub(super) fn tell_of_repetition(result: &mut ToolResult, times: u32) {
    let text = format!(
        "this is the same call as before, {times} times in a row, and it will not be made again: use what it \
         returned, or do something else"
    );
    match &mut result.outcome {
        Outcome::Done(_) => result.warnings.push(text),
        // A model reads no warnings of a failure.
        Outcome::Failed(failure) => failure.message = format!("{}\n{text}", failure.message),
    }
}

/// Holds a tool's wish for another try against its budget; beyond it the wish is a failure.
pub(super) fn bound_retry(result: &mut ToolResult, used: u32, budget: u32) {
    if used >= budget
        && is(result, FailureKind::Retry)
        && let Outcome::Failed(failure) = &mut result.outcome
    {
        failure.kind = FailureKind::Failed;
        failure.message = format!("{}\nThere are no more tries: go on without it.", failure.message);
    }
}

/// Counts the wishes of the results of one reply, one for each tool. A tool that did its work has its whole budget again.
pub(super) fn count_retries<'a>(
    results: impl Iterator<Item = &'a Arc<ToolResult>>,
    retries: &mut BTreeMap<String, u32>,
) {
    let mut wishes = BTreeMap::new();
    for result in results {
        let wish = wishes.entry(&result.name).or_insert(None);
        match &result.outcome {
            Outcome::Done(_) => *wish = wish.or(Some(false)),
            Outcome::Failed(failure) if failure.kind == FailureKind::Retry => *wish = Some(true),
            Outcome::Failed(_) => {}
        }
    }
    for (tool, wish) in wishes {
        match wish {
            Some(true) => *retries.entry(tool.clone()).or_default() += 1,
            Some(false) => drop(retries.remove(tool)),
            None => {}
        }
    }
}
