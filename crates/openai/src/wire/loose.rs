use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer, value::SeqAccessDeserializer,
    },
};
use serde_json::Number;
use serde_json::Value;

/// A field that should be text, and comes as null, a number, an object or a list from some servers.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Loose {
    /// Null, or not there.
    #[default]
    Absent,
    Text(String),
    Number(Number),
    /// Anything else. Rare, and kept elsewhere: a reply has many fields, which are moved often.
    Json(Box<Value>),
}

impl Loose {
    /// The text, or the JSON as text; `None` for null.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
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
            Self::Text(text) => text.trim().parse().ok(),
            Self::Number(number) => {
                // The text of a float that is a whole number is one of an integer.
                number.as_i64().or_else(|| number.as_f64()?.to_string().parse().ok())
            }
            Self::Absent | Self::Json(_) => None,
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
            Value::Number(number) => Self::Number(number),
            other => Self::Json(Box::new(other)),
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
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Loose, E> {
        Ok(Loose::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Loose, E> {
        Ok(Loose::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Loose, E> {
        Ok(Value::from(value).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Loose::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Loose, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(Loose::from)
    }
}

/// An object, read as it comes; whatever else stands in its place is none.
#[derive(Debug)]
pub(crate) struct Object<T>(Option<Box<T>>);

impl<T> Object<T> {
    /// Whether there is one.
    #[cfg(feature = "client")]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        self.0.take()
    }
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Option<Box<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<Box<T>>, A::Error> {
        Box::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Box<T>>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<Box<T>>, E> {
        Ok(None)
    }
}
