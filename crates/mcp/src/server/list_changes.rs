use std::time::Duration;

use haft_core::{
    Toolset,
    toolset::{ListContext, ToolList},
};
use tokio::time::{MissedTickBehavior, interval};

/// The time between two comparisons of the tool list. A listing without a change returns the same
/// snapshot, so a comparison is cheap.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Calls `notify` after each change of `tools`. Returns when `notify` returns `false`, or when
/// `is_closed` returns `true`.
pub(super) async fn notify_changes<Sent: Future<Output = bool>>(
    tools: &Toolset,
    cx: &ListContext,
    is_closed: impl Fn() -> bool,
    notify: impl Fn() -> Sent,
) {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known: Option<ToolList> = None;
    loop {
        ticks.tick().await;
        if is_closed() {
            return;
        }
        let current = tools.list(cx).await;
        let has_changed = known.as_ref().is_some_and(|known| !has_same_tools(known, &current));
        known = Some(current);
        if has_changed && !notify().await {
            return;
        }
    }
}

/// Returns `true` if both lists have equal definitions. An evicted cache of a toolset creates
/// another snapshot with equal definitions.
fn has_same_tools(one: &ToolList, other: &ToolList) -> bool {
    let definitions =
        |list: &ToolList| list.tools().iter().map(|tool| tool.definition().clone()).collect::<Vec<_>>();
    one.snapshot_id() == other.snapshot_id() || definitions(one) == definitions(other)
}

#[cfg(test)]
mod tests {
    use haft_core::{tool_fn, toolset::ToolList};
    use serde_json::{Map, Value};

    use super::has_same_tools;

    fn list(description: &str) -> ToolList {
        let tool = tool_fn("a", description, |_: Map<String, Value>| async { "done" });
        ToolList::new("test", [tool])
    }

    #[test]
    fn new_snapshot_with_equal_definitions_is_no_change() {
        assert_ne!(list("x").snapshot_id(), list("x").snapshot_id());
        assert!(has_same_tools(&list("x"), &list("x")));
        assert!(!has_same_tools(&list("x"), &list("y")));
    }
}
