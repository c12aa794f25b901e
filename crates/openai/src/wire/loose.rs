use std::fmt;

use haft_core::Value;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer, value::SeqAccessDeserializer},
};

/// A field that should be text, and comes as null, a number, an object or a list from some servers.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Loose {
    /// Null, or not there.
    #[default]
    Absent,
    Text(String),
    Json(Value),
}

impl Loose {
    /// The text, or the JSON as text; `None` for null.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text),
            Self::Json(value) => Some(value.to_string()),
        }
    }

    /// The text, where it is one and there is some of it.
    #[cfg(feature = "client")]
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The whole number, also where it comes as `2.0` or as `"2"`.
    pub(crate) fn to_number(&self) -> Option<i64> {
        match self {
            Self::Absent => None,
            Self::Text(text) => text.trim().parse().ok(),
            Self::Json(Value::Number(number)) => {
                // The text of a float that is a whole number is one of an integer.
                number.as_i64().or_else(|| number.as_f64()?.to_string().parse().ok())
            }
            Self::Json(_) => None,
        }
    }

    /// The text if there is some of it: servers send `""` for what they leave out.
    pub(crate) fn into_filled(self) -> Option<String> {
        self.into_text().filter(|text| !text.is_empty())
    }
}

impl From<Value> for Loose {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            Value::String(text) => Self::Text(text),
            other => Self::Json(other),
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Loose, E> {
        Ok(Loose::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Absent)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Loose, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Loose, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Loose, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Loose, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Loose::Json)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Loose, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(Loose::Json)
    }
}
