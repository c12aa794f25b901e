//! The origin of opaque provider data. The data is sent back only to the server that created it.

use std::sync::Arc;

use haft_core::message::AssistantMessage;
use serde_json::{Map, Value};

const ORIGIN_KEY: &str = "from";

/// The server that creates and receives provider data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An unknown server, because the program has its own client. Data of all servers is included.
    #[default]
    Unknown,
    /// The server at an address.
    #[cfg(feature = "client")]
    Server(Arc<str>),
    /// A client whose types cannot represent provider data. No data is included.
    #[cfg(feature = "async-openai")]
    Unsupported,
}

impl Origin {
    /// Adds this origin to `data`, the provider data of a message, under the key `from`.
    pub(crate) fn add_to(&self, mut data: Map<String, Value>) -> Value {
        #[cfg(feature = "client")]
        if let Self::Server(address) = self {
            data.insert(ORIGIN_KEY.to_owned(), address.as_ref().into());
        }
        data.into()
    }

    /// Returns the provider data that `adapter` stored in `message`. `None` if there is no such
    /// data, if it came from another server, or if this client cannot send it. Data without an
    /// address is returned.
    pub(crate) fn data_for<'a>(&self, message: &'a AssistantMessage, adapter: &str) -> Option<&'a Value> {
        let data = message.provider_data.get(adapter)?;
        let from = data.get(ORIGIN_KEY).and_then(Value::as_str);
        let is_accepted = match self {
            Self::Unknown => true,
            #[cfg(feature = "client")]
            Self::Server(own) => from.is_none_or(|from| from == own.as_ref()),
            #[cfg(feature = "async-openai")]
            Self::Unsupported => false,
        };
        is_accepted.then_some(data)
    }
}
