use std::time::Duration;

use haft_core::{Toolset, toolset::ListContext};
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
    let mut known = None;
    loop {
        ticks.tick().await;
        if is_closed() {
            return;
        }
        let current = tools.list(cx).await.snapshot_id();
        if known.replace(current).is_some_and(|known| known != current) && !notify().await {
            return;
        }
    }
}
