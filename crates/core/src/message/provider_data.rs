use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What only a message's provider understands and wants back as it came, such as encrypted reasoning. Cheap to clone.
///
/// Each adapter keeps its own under its name, and ignores what is another's.
///
/// # Examples
///
/// ```
/// use haft_core::message::AssistantMessage;
/// use serde_json::json;
///
/// let mut said = AssistantMessage::from("Hi");
/// said.provider_data.insert("mine", json!({"signature": "x"}));
/// assert_eq!(said.provider_data.get("mine"), Some(&json!({"signature": "x"})));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderData(Option<Arc<Map<String, Value>>>);

impl ProviderData {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|data| data.is_empty())
    }

    /// What an adapter keeps.
    pub fn get(&self, adapter: &str) -> Option<&Value> {
        self.0.as_ref()?.get(adapter)
    }

    /// Keeps what an adapter will want, in place of what it kept before.
    pub fn insert(&mut self, adapter: impl Into<String>, data: Value) {
        let all = self.0.get_or_insert_default();
        Arc::make_mut(all).insert(adapter.into(), data);
    }
}
