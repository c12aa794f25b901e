//! Selection of the queued calls that can be executed now.

use haft_core::{ToolCall, schema::JsonText};

use super::{QueuedResults, results::placeholders_in};

/// Queued calls, divided into calls to execute now, calls to delay, and calls that can never be
/// executed.
#[derive(Default)]
pub(super) struct CallSelection {
    /// The calls to execute now. Results have replaced the placeholders in their arguments.
    pub(super) ready: Vec<ToolCall>,
    /// The calls that need the results of other calls first.
    pub(super) waiting: Vec<ToolCall>,
    /// The calls that can never be executed, each with the reason as text.
    pub(super) failed: Vec<(ToolCall, String)>,
}

impl CallSelection {
    /// Divides `calls`.
    ///
    /// - A call fails if it needs the result of a failed call.
    /// - A call waits if it needs the result of another call in `calls`.
    /// - All other calls are ready. The placeholders in their arguments are replaced with
    ///   `results`.
    ///
    /// If all calls would wait, they depend on a cycle of calls that need each other's results, so
    /// all of them fail.
    pub(super) fn new(calls: Vec<ToolCall>, results: &QueuedResults) -> Self {
        let mut selection = Self::default();
        let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
        for mut call in calls {
            let needed = placeholders_in(&call.arguments);
            if let Some(name) = needed.iter().find_map(|id| results.failed_tool(id)) {
                let reason = format!("not run: it needs the result of {name}, which failed");
                selection.failed.push((call, reason));
            } else if needed.iter().any(|id| ids.contains(id)) {
                selection.waiting.push(call);
            } else {
                let resolved = call.arguments.value().ok().and_then(|value| results.resolve_value(value));
                call.arguments = resolved.map_or(call.arguments, JsonText::from);
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
}
