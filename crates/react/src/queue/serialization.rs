//! The JSON format of a saved queue: `{"version": 1, …}`.

use std::sync::Arc;

use haft_core::ToolCall;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{PendingQueue, PushedCalls, QueuedResults, Quota};
use crate::open_calls::OpenCalls;

impl PendingQueue {
    /// The version of the JSON format. Queues with another version are rejected.
    pub const VERSION: u32 = 1;
}

#[derive(Serialize, Deserialize)]
struct SavedQueue {
    version: u32,
    /// The maximum number of calls in total.
    #[serde(default)]
    max_calls: usize,
    /// The number of further calls that [`QueueHandle::push_call`](super::QueueHandle::push_call)
    /// accepts.
    #[serde(default)]
    quota: usize,
    #[serde(default)]
    waiting: Vec<ToolCall>,
    #[serde(default)]
    open: Option<OpenCalls>,
    #[serde(default)]
    results: QueuedResults,
}

impl Serialize for PendingQueue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (max_calls, quota) = self.pushed.quota();
        let form = SavedQueue {
            version: Self::VERSION,
            max_calls,
            quota,
            waiting: self.waiting.iter().cloned().chain(self.pushed.calls()).collect(),
            open: self.open.clone(),
            results: self.results.clone(),
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PendingQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = serde_json::Value::deserialize(deserializer)?;
        let version = form.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(Self::VERSION.into()) {
            let known = Self::VERSION;
            let text = format!(
                "the format of this queue is not known here, only {known}: read it with the version of haft that wrote it"
            );
            return Err(D::Error::custom(text));
        }
        let SavedQueue { max_calls, quota, waiting, open, results, .. } =
            SavedQueue::deserialize(form).map_err(D::Error::custom)?;
        let quota = Quota::new(max_calls.max(quota), quota);
        Ok(Self { pushed: Arc::new(PushedCalls::new(&quota)), waiting, open, results })
    }
}
