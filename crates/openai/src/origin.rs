//! Whose reply a message is: what only its server understands is told to no other.

use std::sync::Arc;

use haft_core::message::AssistantMessage;
use serde_json::Map;
use serde_json::Value;

const FROM: &str = "from";

/// The server that a reply is from; nobody knows for one that came through a client of somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin(Option<Arc<str>>);

impl Origin {
    #[cfg(feature = "client")]
    pub(crate) fn new(address: &str) -> Self {
        Self(Some(address.into()))
    }

    /// What is kept of a reply, with whom it is from.
    pub(crate) fn mark(&self, mut data: Map<String, Value>) -> Value {
        if let Some(address) = &self.0 {
            data.insert(FROM.to_owned(), address.as_ref().into());
        }
        data.into()
    }

    /// What an adapter kept beside a message, unless it is from another server.
    pub(crate) fn own<'a>(&self, message: &'a AssistantMessage, adapter: &str) -> Option<&'a Value> {
        let data = message.provider_data.get(adapter)?;
        let from = data.get(FROM).and_then(Value::as_str);
        let is_foreign = from.zip(self.0.as_deref()).is_some_and(|(from, own)| from != own);
        (!is_foreign).then_some(data)
    }
}
