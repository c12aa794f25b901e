//! What keeps a model from going round in circles.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use haft_core::{FailureKind, Message, Outcome, ToolCall, ToolResult, Value, schema::canonical};

use super::calls::is;

/// How many replies in a row asked for these calls, this one included; `before` is the number for the last ones.
pub(super) fn identical_calls(messages: &[Arc<Message>], calls: &[ToolCall], before: u32) -> u32 {
    let last = messages.iter().rev().map(|message| message.tool_calls()).find(|calls| !calls.is_empty());
    let same = |(a, b): (&ToolCall, &ToolCall)| a.name == b.name && arguments(a) == arguments(b);
    match last {
        Some(last) if last.len() == calls.len() && last.iter().zip(calls).all(same) => {
            before.saturating_add(1)
        }
        _ => 1,
    }
}

/// Arguments in a form in which equal ones are equal text.
fn arguments(call: &ToolCall) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(value) => canonical(&value).into(),
        Err(_) => call.arguments.as_str().into(),
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

/// Counts a tool's wish for another try; beyond its budget the wish is a failure.
pub(super) fn count_retry(result: &mut ToolResult, budget: u32, retries: &mut BTreeMap<String, u32>) {
    if !is(result, FailureKind::Retry) {
        return;
    }
    let count = retries.entry(result.name.clone()).or_default();
    *count = count.saturating_add(1);
    if *count > budget
        && let Outcome::Failed(failure) = &mut result.outcome
    {
        failure.kind = FailureKind::Failed;
        failure.message = format!("{}\nThere are no more tries: go on without it.", failure.message);
    }
}
