//! Which calls of a queue can be made together.

use std::{mem, sync::Arc};

use haft_core::{Timestamp, ToolCall, ToolResult, call::FailureKind};
use serde_json::Value;

use super::{QueuedResults, results::mentioned};
use crate::run::not_run;

/// Calls that need no result but those that are there.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) calls: Vec<ToolCall>,
    /// Those that are never made, since what they need failed.
    pub(crate) failed: Vec<Arc<ToolResult>>,
}

/// Takes the calls that can be made out of those that wait, with results in the places of placeholders.
pub(crate) fn next_round(waiting: &mut Vec<ToolCall>, results: &QueuedResults, now: Timestamp) -> Round {
    let mut round = Round::default();
    let ids: Vec<_> = waiting.iter().map(|call| call.id.clone()).collect();
    for mut call in mem::take(waiting) {
        let needed = mentioned(&call.arguments);
        let lacking = needed.iter().find_map(|id| results.failed(id));
        if let Some(name) = lacking {
            let why = format!("not run: it needs the result of {name}, which failed");
            round.failed.push(not_run(&call, FailureKind::Failed, &why, now));
        } else if needed.iter().any(|id| ids.contains(id)) {
            waiting.push(call);
        } else {
            call.arguments = filled(&call.arguments, results);
            round.calls.push(call);
        }
    }
    if round.calls.is_empty() && round.failed.is_empty() {
        let why = "not run: it needs a result that needs its own";
        round.failed =
            mem::take(waiting).iter().map(|call| not_run(call, FailureKind::Failed, why, now)).collect();
    }
    round
}

fn filled(arguments: &str, results: &QueuedResults) -> String {
    let value: Option<Value> = serde_json::from_str(arguments).ok();
    let value = value.and_then(|value| results.in_value(&value));
    value.map_or_else(|| arguments.to_owned(), |value| value.to_string())
}
