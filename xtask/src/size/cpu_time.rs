//! Measures the CPU time of child processes.

use std::fs;

/// The number of clock ticks per second in `/proc/self/stat` (`USER_HZ`). It is 100 on every host
/// architecture of Rust.
const TICKS_PER_SECOND: f64 = 100.0;

/// A clock for the CPU time (user and system) of child processes that have exited, including the
/// time of their own children.
pub(super) struct CpuClock {
    start: Option<u64>,
}

impl CpuClock {
    pub(super) fn start() -> Self {
        Self { start: children_ticks() }
    }

    /// Returns the CPU time that child processes have used since this clock was started, in
    /// minutes. Returns `None` on a system without `/proc`.
    #[expect(clippy::cast_precision_loss, reason = "a build takes less than 2^53 ticks")]
    pub(super) fn minutes(&self) -> Option<f64> {
        let ticks = children_ticks()?.checked_sub(self.start?)?;
        Some(ticks as f64 / TICKS_PER_SECOND / 60.0)
    }
}

fn children_ticks() -> Option<u64> {
    parse_child_ticks(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `stat`, the content of `/proc/self/stat`. Returns the sum of its fields `cutime` and
/// `cstime` (numbers 16 and 17 in proc(5)), in clock ticks. Returns `None` if a field is missing.
pub(super) fn parse_child_ticks(stat: &str) -> Option<u64> {
    // Field 2, the name of the program, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    user.checked_add(system)
}
