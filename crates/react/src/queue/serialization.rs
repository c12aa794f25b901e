//! The JSON format of a saved queue: `{"version": 1, …}`.

use haft_core::ToolCall;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{PendingQueue, QueuedResults, Quota};
use crate::run::OpenCalls;

impl PendingQueue {
    /// The version of the JSON format. Queues with another version are rejected.
    pub const VERSION: u32 = 1;
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedQueue {
    version: u32,
    /// The maximum number of calls in total.
    max_calls: usize,
    /// The number of further calls that [`QueueHandle::push_call`](super::QueueHandle::push_call)
    /// accepts.
    quota: usize,
    waiting: Vec<ToolCall>,
    open: Option<OpenCalls>,
    results: QueuedResults,
}

impl Serialize for PendingQueue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let quota = self.pushed.quota();
        let saved = SavedQueue {
            version: Self::VERSION,
            max_calls: quota.max_calls,
            quota: quota.left(),
            waiting: self.waiting.iter().cloned().chain(self.pushed.calls()).collect(),
            open: self.open.clone(),
            results: self.results.clone(),
        };
        saved.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PendingQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let SavedQueue { version, max_calls, quota, waiting, open, results } =
            SavedQueue::deserialize(deserializer)?;
        if version != Self::VERSION {
            let known = Self::VERSION;
            return Err(D::Error::custom(format!(
                "the format of this queue is not known here, only {known}: read it with the version of haft that wrote it"
            )));
        }
        let quota = Quota::new(max_calls.max(quota), quota);
        Ok(Self { waiting, open, results, ..Self::of(&quota) })
    }
}
