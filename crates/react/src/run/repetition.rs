//! Detection of repeated calls, and enforcement of retry budgets.

mod canonical;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use haft_core::{
    Message, ToolCall, ToolResult,
    call::{FailureKind, Outcome},
    tool::FailedAttempts,
};

/// The maximum length of a detected cycle of calls. For example, the calls A, B, A, B repeat a
/// cycle of length 2. If the last reply contains more calls than this maximum, a cycle as long as
/// the reply is also detected.
const MAX_CYCLE_CALLS: usize = 4;

/// The fingerprints of all calls that the model has made in a run, in order. Two calls have the
/// same fingerprint if their names and their arguments (as JSON) are equal. The history is derived
/// from the transcript and never saved.
#[derive(Clone, Debug, Default)]
pub(super) struct CallHistory {
    fingerprints: Vec<u64>,
    /// The number of messages of the run whose calls are already in the history.
    messages_read: usize,
}

/// All histories are equal: a history is a cache, and must not affect the equality of runs.
impl PartialEq for CallHistory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CallHistory {
    /// Adds the calls in new messages to this history. `messages` are all messages of the run so
    /// far.
    pub(super) fn update(&mut self, messages: &[Arc<Message>]) {
        let new = messages.get(self.messages_read..).unwrap_or_default();
        self.fingerprints.extend(new.iter().flat_map(|message| message.tool_calls()).map(call_fingerprint));
        self.messages_read = messages.len();
    }

    /// Returns the number of times that the last call, or the last cycle of calls, was made in a
    /// row. For example, the result is 2 for the calls A, B, A, B. Stops counting at `limit` + 1.
    /// `latest` is the number of calls in the last reply.
    pub(super) fn repetitions(&self, latest: usize, limit: u32) -> u32 {
        let lengths = (1..=MAX_CYCLE_CALLS).chain([latest]);
        lengths.map(|length| self.count_cycles(length, limit.saturating_add(1))).max().unwrap_or(1)
    }

    /// Returns the number of times that the last `length` calls were made in a row. Stops counting
    /// at `most`.
    fn count_cycles(&self, length: usize, most: u32) -> u32 {
        for number in 1..most {
            let start = length * number as usize;
            if !(start..start + length).all(|index| self.is_repeated(index, length)) {
                return number;
            }
        }
        most
    }

    /// Returns `true` if the call at `index` equals the call `length` positions later. Indices
    /// count backwards from the last call.
    fn is_repeated(&self, index: usize, length: usize) -> bool {
        let fingerprint = |index| self.fingerprints.iter().rev().nth(index);
        let later = index.checked_sub(length).and_then(fingerprint);
        fingerprint(index).is_some_and(|it| Some(it) == later)
    }
}

/// Computes the fingerprint of `call`. Arguments that are not valid JSON are hashed as text.
fn call_fingerprint(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    match call.arguments.value() {
        Ok(value) => canonical::hash_json(value, &mut hasher),
        Err(_) => call.arguments.hash(&mut hasher),
    }
    hasher.finish()
}

/// Adds a warning to `result`, the result of a call that the model has made `times` times in a row.
pub(super) fn warn_of_repetition(result: &mut ToolResult, times: u32) {
    let text = format!(
        "this is the same call as before, {times} times in a row, and it will not be made again: use what it \
         returned, or do something else"
    );
    match &mut result.outcome {
        Outcome::Done(_) => result.warnings.push(text),
        // The warnings of a failed result are not sent to the model, but its message is.
        Outcome::Failed(failure) => failure.message = format!("{}\n{text}", failure.message),
    }
}

/// Turns a retry request in `result` into a final failure if the retry budget of the tool is
/// exhausted. `used` is the number of consecutive retries that the tool has already requested.
pub(super) fn limit_retries(result: &mut ToolResult, used: u32, budget: u32) {
    if used >= budget
        && let Outcome::Failed(failure) = &mut result.outcome
        && failure.kind == FailureKind::Retry
    {
        failure.kind = FailureKind::Failed;
        failure.message = format!("{}\nThere are no more tries: go on without it.", failure.message);
    }
}

/// Updates `attempts`, the failed attempts of each tool since its last success, from the `results`
/// of one reply. A reply adds at most 1 per tool. If a tool succeeded and requested no retry, its
/// attempts are removed.
pub(super) fn count_attempts<'a>(
    results: impl Iterator<Item = &'a Arc<ToolResult>>,
    attempts: &mut BTreeMap<String, FailedAttempts>,
) {
    let mut replies = BTreeMap::new();
    for result in results {
        let reply = replies.entry(&result.name).or_insert(ReplyAttempts::default());
        match result.failure().map(|failure| failure.kind) {
            None => reply.has_success = true,
            Some(FailureKind::Retry) => reply.has_retry = true,
            Some(
                FailureKind::InvalidArguments
                | FailureKind::Failed
                | FailureKind::TimedOut
                | FailureKind::Unconfirmed,
            ) => reply.has_failure = true,
            Some(_) => {}
        }
    }
    for (tool, reply) in replies {
        if reply.has_success && !reply.has_retry {
            attempts.remove(tool);
        } else if reply.has_retry || reply.has_failure {
            let failed = attempts.entry(tool.clone()).or_default();
            failed.total += 1;
            failed.retries += u32::from(reply.has_retry);
        }
    }
}

/// The outcomes of the calls to a tool in one reply.
#[derive(Default)]
struct ReplyAttempts {
    has_success: bool,
    has_retry: bool,
    has_failure: bool,
}
