//! The origin of opaque provider data. A known server does not receive data from other servers.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::AssistantMessage;

const ORIGIN_KEY: &str = "from";

/// The server that creates and receives provider data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// An unknown server, because the program has its own client. Data from all servers is
    /// included.
    #[default]
    Unknown,
    /// The server at an address.
    Server(Arc<str>),
    /// A client whose types cannot represent provider data. No data is included.
    Unsupported,
}

impl Origin {
    /// Returns `data`, the provider data of a message, as JSON. If the server is known, its address
    /// is added under the key `from`.
    pub fn add_to(&self, mut data: Map<String, Value>) -> Value {
        if let Self::Server(address) = self {
            data.insert(ORIGIN_KEY.to_owned(), address.as_ref().into());
        }
        data.into()
    }

    /// Returns the provider data that `adapter` stored in `message`. `None` if there is no such
    /// data, if this origin is `Unsupported`, or if it is a `Server` and the data contains the
    /// address of another server.
    pub fn data_for<'a>(&self, message: &'a AssistantMessage, adapter: &str) -> Option<&'a Value> {
        let data = message.provider_data.get(adapter)?;
        let from = data.get(ORIGIN_KEY).and_then(Value::as_str);
        let is_accepted = match self {
            Self::Unknown => true,
            Self::Server(own) => from.is_none_or(|from| from == own.as_ref()),
            Self::Unsupported => false,
        };
        is_accepted.then_some(data)
    }
}
