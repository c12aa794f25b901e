use haft_core::usage::Usage;
use serde_json::Value;

/// The token counts of a reply. The API sends them at the start, and cumulative ones at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplyUsage {
    counts: Option<[u64; 6]>,
    /// The usage of the paused replies that this reply continues.
    pub(super) before: Option<Usage>,
}

impl ReplyUsage {
    /// Adds `usage`, a usage object. The larger of each count is kept, because some gateways send
    /// zeros at the end.
    pub(super) fn add(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let count = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        let hosted = usage.get("server_tool_use").and_then(Value::as_object);
        let now = [
            count("/input_tokens"),
            count("/cache_creation_input_tokens"),
            count("/cache_read_input_tokens"),
            count("/output_tokens"),
            count("/output_tokens_details/thinking_tokens"),
            hosted.into_iter().flat_map(|counts| counts.values()).filter_map(Value::as_u64).sum(),
        ];
        let mut counts = self.counts.unwrap_or_default();
        for (count, now) in counts.iter_mut().zip(now) {
            *count = now.max(*count);
        }
        self.counts = Some(counts);
    }

    /// Returns the usage. Unlike the API, haft counts cached and written tokens as input tokens.
    pub(super) fn total(&self) -> Option<Usage> {
        let own = self.counts.map(|[input, written, cached, output, reasoning, hosted]| Usage {
            cached_input_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: reasoning,
            hosted_tool_requests: hosted,
            ..Usage::one_request(input.saturating_add(written).saturating_add(cached), output)
        });
        match (self.before, own) {
            (Some(before), own) => Some(before + own.unwrap_or(Usage::one_request(0, 0))),
            (None, own) => own,
        }
    }
}
