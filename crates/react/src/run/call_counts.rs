//! The number of calls and failed attempts per tool.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{ToolResult, toolset::ToolList};

use super::{CallBatch, Run};
use crate::open_calls::is_counted;

impl Run {
    /// Adds the failed attempts of the called tools to `batch`.
    pub(super) fn add_failed_attempts(&self, batch: &mut CallBatch) {
        if !self.head.failed_attempts.is_empty() {
            let called = batch.calls.iter().filter_map(|call| {
                let failed = self.head.failed_attempts.get(&call.name)?;
                Some((call.name.clone(), *failed))
            });
            batch.failed_attempts = called.collect();
        }
    }

    /// Returns the number of calls to each tool with a maximum, and the number of open calls to each
    /// tool.
    pub(super) fn limited_calls(&self) -> BTreeMap<String, u32> {
        let mut calls = self.head.limited_calls.clone();
        if let Some(batch) = self.head.state.batch() {
            for name in batch.calls.unfinished().map(|call| &call.name) {
                *calls.entry(name.clone()).or_default() += 1;
            }
            count_calls(batch.calls.results(), &mut calls);
        }
        calls
    }

    /// Denies the calls in `batch`, a part of the current batch of the run, beyond the [maximum
    /// number](haft_core::tool::ToolPolicy::max_calls) of calls to a tool. A resumed call is
    /// permitted, because it was counted before its suspension.
    pub(super) fn deny_calls_beyond_maximum(&mut self, batch: &mut CallBatch, tools: &ToolList) {
        let mut permitted = BTreeMap::new();
        for call in &batch.calls {
            let tool = tools.get(&call.name).filter(|_| !batch.resumed.contains_key(&call.id));
            let Some(maximum) = tool.and_then(|tool| tool.definition().policy().max_calls) else { continue };
            let finished = *self.head.limited_calls.entry(call.name.clone()).or_default();
            let open = self.head.state.batch().map_or(0, |open| open.calls.count_started(&call.name));
            let new = permitted.entry(call.name.as_str()).or_insert(0_u32);
            if finished.saturating_add(open).saturating_add(*new) < maximum {
                *new += 1;
            } else {
                batch.denied.insert(call.id.clone(), denial(maximum));
            }
        }
    }
}

/// Returns the reason for the denial of a call to a tool with at most `maximum` calls.
pub(super) fn denial(maximum: u32) -> String {
    let calls = if maximum == 1 { "1 call".to_owned() } else { format!("{maximum} calls") };
    format!("at most {calls} of this tool per run, and none is left: go on with what you have")
}

/// Adds the [counted](is_counted) calls among `results` to `calls`, the number of calls to each
/// tool with a maximum.
pub(super) fn count_calls<'a>(
    results: impl Iterator<Item = &'a Arc<ToolResult>>,
    calls: &mut BTreeMap<String, u32>,
) {
    if calls.is_empty() {
        return;
    }
    for result in results.filter(|result| is_counted(result)) {
        if let Some(count) = calls.get_mut(&result.name) {
            *count = count.saturating_add(1);
        }
    }
}
