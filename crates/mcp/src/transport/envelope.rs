use std::{borrow::Cow, fmt};

use rmcp::model::RequestId;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// The bound of the whole numbers that an `f64` holds exactly.
const MAX_FLOAT_ID: f64 = 9_007_199_254_740_992.0;

/// The top-level fields of a JSON-RPC message.
///
/// `params`, `result` and `error` stay unparsed, so the recursion limit of `serde_json` does not
/// apply to their values.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    pub(crate) jsonrpc: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient_id")]
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

/// Parses the `id` of a message. Returns `None` for `null` and for a value of another type.
/// Programs in Lua write the id 1 as `1.0`.
fn lenient_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestId>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(RequestId::String(text.into())),
        Value::Number(number) => {
            let whole = || number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < MAX_FLOAT_ID);
            let whole = || whole().map(|float| float as i64);
            number.as_i64().or_else(whole).map(RequestId::Number)
        }
        _ => None,
    })
}

/// Extracts the `id` from a message that is truncated, too long, too deeply nested or not UTF-8.
///
/// Returns `None` if no `id` is found. Also returns `None` for a complete object without the key
/// `jsonrpc`, because it is not a JSON-RPC message.
pub(crate) fn salvage_id(bytes: &[u8]) -> Option<RequestId> {
    let mut id = None;
    // An error is expected here. The visitor has stored the id before the error occurs.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(IdVisitor(&mut id));
    id
}

/// A visitor that stores the value of `id` before the rest of the object is parsed.
struct IdVisitor<'a>(&'a mut Option<RequestId>);

impl<'de> Visitor<'de> for IdVisitor<'_> {
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

/// Extracts the `id` from `tail`, the end of a message. Returns `None` if `id` is not the last key.
///
/// JSON-RPC does not define the order of keys, so a long `result` may precede `id`.
pub(crate) fn salvage_last_id(tail: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(tail);
    let (_, last) = text.rsplit_once("\"id\":")?;
    serde_json::from_str(last.trim_end().strip_suffix('}')?).ok()
}
