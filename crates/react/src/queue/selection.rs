//! Selection of the queued calls that can be executed now.

use haft_core::{ToolCall, schema::JsonText};

use super::{QueuedResults, results::placeholders_in};
use crate::run::CallSelection;

/// Splits `calls` into failed, waiting and ready calls.
///
/// - A call fails if it needs the result of a failed call.
/// - A call waits if it needs the result of another call in `calls`.
/// - All other calls are ready. The placeholders in their arguments are replaced with `results`.
///
/// If all calls would wait, they depend on a cycle of calls that need each other's results, so all
/// of them fail.
pub(super) fn select_calls(calls: Vec<ToolCall>, results: &QueuedResults) -> CallSelection {
    let mut selection = CallSelection::default();
    let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    for mut call in calls {
        let needed = placeholders_in(&call.arguments);
        if let Some(name) = needed.iter().find_map(|id| results.failed_tool(id)) {
            let reason = format!("not run: it needs the result of {name}, which failed");
            selection.failed.push((call, reason));
        } else if needed.iter().any(|id| ids.contains(id)) {
            selection.waiting.push(call);
        } else {
            call.arguments = resolve_arguments(&call.arguments, results);
            selection.ready.push(call);
        }
    }
    if selection.ready.is_empty() && selection.failed.is_empty() {
        let reason = "not run: it needs a result that needs its own";
        let waiting = std::mem::take(&mut selection.waiting);
        selection.failed = waiting.into_iter().map(|call| (call, reason.to_owned())).collect();
    }
    selection
}

fn resolve_arguments(arguments: &JsonText, results: &QueuedResults) -> JsonText {
    let value = arguments.value().ok().and_then(|value| results.resolve_value(value));
    value.map_or_else(|| arguments.clone(), JsonText::from)
}
