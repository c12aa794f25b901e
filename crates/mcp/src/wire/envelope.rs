use std::{borrow::Cow, fmt};

use rmcp::model::RequestId;
use serde::{
    Deserialize, Deserializer as _,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A message before its parts are read: they may be nested as deep as they like.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    pub(crate) jsonrpc: Option<IgnoredAny>,
    pub(crate) id: Option<RequestId>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// Finds the id in a message that is cut, too long, too deep or no proper text. What has an end and no `jsonrpc` is no
/// message.
pub(crate) fn salvage_id(bytes: &[u8]) -> Option<RequestId> {
    let mut id = None;
    // The text ends, or goes wrong, somewhere: what came before is what is wanted.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(IdInto(&mut id));
    id
}

struct IdInto<'a>(&'a mut Option<RequestId>);

impl<'de> Visitor<'de> for IdInto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_message = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "id" {
                *self.0 = map.next_value()?;
            } else {
                is_message |= key == "jsonrpc";
                map.next_value::<IgnoredAny>()?;
            }
        }
        self.0.take_if(|_| !is_message);
        Ok(())
    }
}

/// Finds the id at the end of a message of which the beginning is lost; some servers write it last.
pub(crate) fn salvage_last_id(tail: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(tail);
    let (_, last) = text.rsplit_once("\"id\":")?;
    serde_json::from_str(last.trim_end().strip_suffix('}')?).ok()
}
