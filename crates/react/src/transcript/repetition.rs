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
    content::Content,
    message::MessageBody,
    tool::FailedAttempts,
};

/// The maximum length of a detected cycle of calls. For example, the calls A, B, A, B repeat a
/// cycle of length 2. If the last reply contains more calls than this maximum, a cycle as long as
/// the reply is also detected.
const MAX_CYCLE_CALLS: usize = 4;

/// All calls that the model has made in a run, in order. The history is derived from the transcript
/// and never saved.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallHistory {
    calls: Vec<PastCall>,
    /// The ids of the last calls, which have no results yet, with their indices in `calls`.
    open: Vec<(String, usize)>,
    /// The number of messages of the run whose calls are already in the history.
    messages_read: usize,
}

/// The fingerprints of a call and its result.
#[derive(Clone, Debug)]
struct PastCall {
    /// Two calls have the same fingerprint if their names and their arguments (as JSON) are equal.
    call: u64,
    /// `None` if the call has no result yet.
    result: Option<u64>,
    /// `true` if the policy of the tool permits any number of equal calls.
    is_repeatable: bool,
}

impl PastCall {
    /// Returns `true` if `later` repeats this call: it is the same call, and its result is equal or
    /// not known yet.
    fn is_repeated_by(&self, later: &Self) -> bool {
        let has_equal_result = later.result.is_none() || self.result.is_none() || self.result == later.result;
        self.call == later.call && has_equal_result && !later.is_repeatable
    }
}

/// All histories are equal: a history is a cache, and must not affect the equality of runs.
impl PartialEq for CallHistory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CallHistory {
    /// Adds the calls and results in new messages to this history. `messages` are all messages of
    /// the run so far. `is_repeatable` returns `true` for the name of a tool whose policy permits
    /// any number of equal calls.
    pub(crate) fn update(&mut self, messages: &[Arc<Message>], is_repeatable: impl Fn(&str) -> bool) {
        for message in messages.get(self.messages_read..).unwrap_or_default() {
            for call in message.tool_calls() {
                self.open.push((call.id.clone(), self.calls.len()));
                let is_repeatable = is_repeatable(&call.name);
                self.calls.push(PastCall { call: call_fingerprint(call), result: None, is_repeatable });
            }
            let MessageBody::Tool(result) = message.body() else { continue };
            let Some(place) = self.open.iter().position(|(id, _)| *id == result.call_id) else { continue };
            let (_, index) = self.open.remove(place);
            if let Some(call) = self.calls.get_mut(index) {
                call.result = Some(result_fingerprint(result));
            }
        }
        self.messages_read = messages.len();
    }

    /// Returns `true` if `result` differs from the last known result of an equal `call`.
    pub(crate) fn is_new_result(&self, call: &ToolCall, result: &ToolResult) -> bool {
        let fingerprint = call_fingerprint(call);
        let earlier = self.calls.iter().rev().filter(|it| it.call == fingerprint).find_map(|it| it.result);
        earlier.is_some_and(|earlier| earlier != result_fingerprint(result))
    }

    /// Returns the number of times that the last call, or the last cycle of calls, was made in a
    /// row with equal results. For example, the result is 2 for the calls A, B, A, B. Stops
    /// counting at `limit` + 1. `latest` is the number of calls in the last reply.
    pub(crate) fn repetitions(&self, latest: usize, limit: u32) -> u32 {
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

    /// Returns `true` if the call at `index` is repeated `length` positions later. Indices
    /// count backwards from the last call.
    fn is_repeated(&self, index: usize, length: usize) -> bool {
        let call = |index| self.calls.iter().rev().nth(index);
        let later = index.checked_sub(length).and_then(call);
        call(index).zip(later).is_some_and(|(call, later)| call.is_repeated_by(later))
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

/// Computes the fingerprint of `result` without its warnings and without the notes that this module
/// adds to failures.
fn result_fingerprint(result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &result.outcome {
        Outcome::Done(output) => {
            0_u8.hash(&mut hasher);
            for piece in &output.content {
                match piece {
                    // A truncated text can contain the id of its call.
                    Content::Text { text } if !result.call_id.is_empty() => {
                        text.split(&result.call_id).for_each(|part| part.hash(&mut hasher));
                    }
                    Content::Json { value } => canonical::hash_json(value, &mut hasher),
                    other => serde_json::to_string(other).unwrap_or_default().hash(&mut hasher),
                }
            }
            if let Some(structured) = &output.structured {
                canonical::hash_json(structured, &mut hasher);
            }
        }
        Outcome::Failed(failure) => {
            1_u8.hash(&mut hasher);
            let message = failure.message.as_str();
            let end = [REPETITION_NOTE, RETRIES_NOTE].iter().filter_map(|note| message.find(note)).min();
            message.get(..end.unwrap_or(message.len())).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The start of the note about a repetition in a failure.
const REPETITION_NOTE: &str = "\nthis is the same call as before, ";
/// The note about an exhausted retry budget in a failure.
const RETRIES_NOTE: &str = "\nThere are no more tries: go on without it.";

/// Adds a warning to `result`, the result of a call that the model has made `times` times in a row.
pub(crate) fn warn_of_repetition(result: &mut ToolResult, times: u32) {
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
pub(crate) fn limit_retries(result: &mut ToolResult, used: u32, budget: u32) {
    if used >= budget
        && let Outcome::Failed(failure) = &mut result.outcome
        && failure.kind == FailureKind::Retry
    {
        failure.kind = FailureKind::Failed;
        failure.message.push_str(RETRIES_NOTE);
    }
}

/// Updates `attempts`, the failed attempts of each tool since its last success, from the `results`
/// of one reply. A reply adds at most 1 per tool. If a tool succeeded and requested no retry, its
/// attempts are removed.
pub(crate) fn count_attempts<'a>(
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
