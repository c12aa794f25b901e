use std::{fmt, mem::take};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor, value::SeqAccessDeserializer},
};

use super::WireCall;

/// The `tool_calls` of a message. Null, `""` and `{}` are read as an empty list.
#[derive(Debug, Default)]
pub(crate) struct WireCalls(Vec<WireCall>);

impl WireCalls {
    pub(super) fn take(&mut self) -> Vec<WireCall> {
        take(&mut self.0)
    }
}

impl<'de> Deserialize<'de> for WireCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<WireCall>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of calls")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<WireCall>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_unit<E>(self) -> Result<Vec<WireCall>, E> {
        Ok(Vec::new())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<WireCall>, E> {
        if text.is_empty() { Ok(Vec::new()) } else { Err(E::invalid_type(Unexpected::Str(text), &self)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<WireCall>, A::Error> {
        match map.next_entry::<IgnoredAny, IgnoredAny>()? {
            None => Ok(Vec::new()),
            Some(_) => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}
