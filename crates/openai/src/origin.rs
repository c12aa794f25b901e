//! The origin of opaque provider data. The data is sent back only to the server that created it.

use std::sync::Arc;

use haft_core::message::AssistantMessage;
use serde_json::Map;
use serde_json::Value;

const ORIGIN_KEY: &str = "from";

/// The address of the server that sent a reply. `None` if the address is unknown, because haft's
/// client did not receive the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin(Option<Arc<str>>);

impl Origin {
    #[cfg(feature = "client")]
    pub(crate) fn new(address: &str) -> Self {
        Self(Some(address.into()))
    }

    /// Adds this origin to `data`, the provider data of a message, under the key `from`.
    pub(crate) fn add_to(&self, mut data: Map<String, Value>) -> Value {
        if let Some(address) = &self.0 {
            data.insert(ORIGIN_KEY.to_owned(), address.as_ref().into());
        }
        data.into()
    }

    /// Returns the provider data that `adapter` stored in `message`. `None` if there is no such
    /// data, or if it came from another server. Data of unknown origin is returned.
    pub(crate) fn data_for<'a>(&self, message: &'a AssistantMessage, adapter: &str) -> Option<&'a Value> {
        let data = message.provider_data.get(adapter)?;
        let from = data.get(ORIGIN_KEY).and_then(Value::as_str);
        let is_foreign = from.zip(self.0.as_deref()).is_some_and(|(from, own)| from != own);
        (!is_foreign).then_some(data)
    }
}
