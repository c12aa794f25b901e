//! What keeps a model from going round in circles.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use haft_core::{FailureKind, Message, Outcome, ToolCall, ToolResult, Value};

use super::calls::is;

/// The longest round of calls that is noticed when it begins anew, unless one reply has more of them.
const ROUND: usize = 4;

/// How many times in a row the latest calls are the same: one call, or a round of several such as A, B, A, B. At most
/// one more than `limit`.
pub(super) fn repetitions(messages: &[Arc<Message>], calls: &[ToolCall], limit: u32) -> u32 {
    let earlier = messages.iter().rev().flat_map(|message| message.tool_calls().iter().rev());
    let mut latest = Latest { calls: Box::new(calls.iter().rev().chain(earlier)), known: Vec::new() };
    let rounds = (1..=ROUND).chain([calls.len()]);
    rounds.map(|length| latest.rounds(length, limit.saturating_add(1))).max().unwrap_or(1)
}

/// Calls from the last to the first, found as far as they are compared.
struct Latest<'a> {
    calls: Box<dyn Iterator<Item = &'a ToolCall> + 'a>,
    known: Vec<Known<'a>>,
}

/// A call, and its arguments as JSON when they were looked at.
struct Known<'a> {
    call: &'a ToolCall,
    arguments: OnceCell<Option<Value>>,
}

impl Latest<'_> {
    /// How often in a row the last round of this length was made, counted up to `most`.
    fn rounds(&mut self, length: usize, most: u32) -> u32 {
        for number in 1..most {
            let start = length * number as usize;
            if !(start..start + length).all(|index| self.repeats(index, length)) {
                return number;
            }
        }
        most
    }

    /// Whether the call at this index is the same as the one a round later.
    fn repeats(&mut self, index: usize, length: usize) -> bool {
        while self.known.len() <= index {
            let Some(call) = self.calls.next() else { return false };
            self.known.push(Known { call, arguments: OnceCell::new() });
        }
        let later = index.checked_sub(length).and_then(|later| self.known.get(later));
        self.known.get(index).zip(later).is_some_and(|(call, later)| call.is_same(later))
    }
}

impl Known<'_> {
    /// Whether both ask for the same, however the arguments are written. They are read only where their text differs.
    fn is_same(&self, other: &Self) -> bool {
        self.call.name == other.call.name
            && (self.call.arguments == other.call.arguments
                || self.arguments().is_some_and(|it| Some(it) == other.arguments()))
    }

    fn arguments(&self) -> Option<&Value> {
        self.arguments.get_or_init(|| serde_json::from_str(&self.call.arguments).ok()).as_ref()
    }
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
    results: impl Iterator<Item = &'a ToolResult>,
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
