use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Opaque data from a provider, such as encrypted reasoning. It is stored in the assistant message
/// and sent back unchanged in later requests to the same provider. Cheap to clone.
///
/// Each provider adapter stores its data under its own name and ignores the data of other adapters.
///
/// # Examples
///
/// ```
/// use haft_message::message::AssistantMessage;
/// use serde_json::json;
///
/// let mut reply = AssistantMessage::from("Hi");
/// reply.provider_data.insert("my-adapter", json!({"signature": "x"}));
/// assert_eq!(reply.provider_data.get("my-adapter"), Some(&json!({"signature": "x"})));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderData(Option<Arc<Map<String, Value>>>);

impl ProviderData {
    /// Returns `true` if no adapter has stored any data.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|data| data.is_empty())
    }

    /// Returns the data stored by the adapter named `adapter`, or `None` if the adapter has stored
    /// nothing.
    pub fn get(&self, adapter: &str) -> Option<&Value> {
        self.0.as_ref()?.get(adapter)
    }

    /// Stores `data` under the name `adapter`. Earlier data of the same adapter is replaced.
    pub fn insert(&mut self, adapter: impl Into<String>, data: Value) {
        let all = self.0.get_or_insert_default();
        Arc::make_mut(all).insert(adapter.into(), data);
    }
}
