//! Detection of repeated calls, and retry budgets.

mod canonical;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use haft_core::{
    Message, ToolCall, ToolResult,
    call::{FailureKind, Outcome},
};

/// Maximum length of a detected cycle of calls, unless one reply has more calls.
const ROUND: usize = 4;

/// The fingerprints of all calls of a run, in order. Two calls have the same fingerprint if name
/// and arguments are equal as JSON. Derived from the transcript, never saved.
#[derive(Clone, Debug, Default)]
pub(super) struct CallHistory {
    fingerprints: Vec<u64>,
    /// Number of read messages of the run.
    read: usize,
}

/// A cache does not affect equality.
impl PartialEq for CallHistory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CallHistory {
    /// Reads the new messages of the run.
    pub(super) fn update(&mut self, messages: &[Arc<Message>]) {
        let new = messages.get(self.read..).unwrap_or_default();
        self.fingerprints.extend(new.iter().flat_map(|message| message.tool_calls()).map(call_fingerprint));
        self.read = messages.len();
    }

    /// Number of times in a row that the last calls are the same: one call, or a cycle such as A,
    /// B, A, B. At most one more than `limit`. The last reply has `latest` calls.
    pub(super) fn repetitions(&self, latest: usize, limit: u32) -> u32 {
        let rounds = (1..=ROUND).chain([latest]);
        rounds.map(|length| self.rounds(length, limit.saturating_add(1))).max().unwrap_or(1)
    }

    /// Number of times in a row that the last cycle of this length was made, at most `most`.
    fn rounds(&self, length: usize, most: u32) -> u32 {
        for number in 1..most {
            let start = length * number as usize;
            if !(start..start + length).all(|index| self.repeats(index, length)) {
                return number;
            }
        }
        most
    }

    /// Returns `true` if the call at this index, counted from the last one, equals the one a cycle
    /// later.
    fn repeats(&self, index: usize, length: usize) -> bool {
        let fingerprint = |index| self.fingerprints.iter().rev().nth(index);
        let later = index.checked_sub(length).and_then(fingerprint);
        fingerprint(index).is_some_and(|it| Some(it) == later)
    }
}

/// The fingerprint of a call. Arguments that are not valid JSON are compared as text.
fn call_fingerprint(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    match call.arguments.value() {
        Ok(value) => canonical::write(value, &mut hasher),
        Err(_) => call.arguments.hash(&mut hasher),
    }
    hasher.finish()
}

/// Warns the model that it repeats a call.
pub(super) fn warn_of_repetition(result: &mut ToolResult, times: u32) {
    let text = format!(
        "this is the same call as before, {times} times in a row, and it will not be made again: use what it \
         returned, or do something else"
    );
    match &mut result.outcome {
        Outcome::Done(_) => result.warnings.push(text),
        // Warnings of a failure are not sent to the model.
        Outcome::Failed(failure) => failure.message = format!("{}\n{text}", failure.message),
    }
}

/// Turns a retry that exceeds the tool's budget into a failure.
pub(super) fn limit_retries(result: &mut ToolResult, used: u32, budget: u32) {
    if used >= budget
        && let Outcome::Failed(failure) = &mut result.outcome
        && failure.kind == FailureKind::Retry
    {
        failure.kind = FailureKind::Failed;
        failure.message = format!("{}\nThere are no more tries: go on without it.", failure.message);
    }
}

/// Counts the retries that the results of one reply request, at most one per tool. A success resets
/// the count of its tool.
pub(super) fn count_retries<'a>(
    results: impl Iterator<Item = &'a Arc<ToolResult>>,
    retries: &mut BTreeMap<String, u32>,
) {
    let mut requests = BTreeMap::new();
    for result in results {
        let retry = requests.entry(&result.name).or_insert(None);
        match &result.outcome {
            Outcome::Done(_) => *retry = retry.or(Some(false)),
            Outcome::Failed(failure) if failure.kind == FailureKind::Retry => *retry = Some(true),
            Outcome::Failed(_) => {}
        }
    }
    for (tool, retry) in requests {
        match retry {
            Some(true) => *retries.entry(tool.clone()).or_default() += 1,
            Some(false) => drop(retries.remove(tool)),
            None => {}
        }
    }
}
