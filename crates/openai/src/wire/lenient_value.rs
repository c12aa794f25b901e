use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer, value::SeqAccessDeserializer,
    },
};
use serde_json::{Number, Value};

/// The value of a field whose type differs between servers. OpenAI sends a string in most of these
/// fields. Other servers may send null, a number or a list instead.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum LenientValue {
    /// The field is null or missing.
    #[default]
    Absent,
    Text(String),
    Number(Number),
    /// Any other JSON value. It is boxed to keep the type small, because a reply has many fields of
    /// this type.
    Json(Box<Value>),
}

impl LenientValue {
    /// Returns the string, or any other JSON value as JSON text. `None` if the field is null or
    /// missing.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
            Self::Json(value) => Some(value.to_string()),
        }
    }

    /// Returns the string. `None` if the string is empty, or if the value is not a string.
    #[cfg(feature = "client")]
    pub(crate) fn as_non_empty_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Returns the value as an integer. `2.0` and `"2"` are also accepted. `None` for any other
    /// value.
    pub(crate) fn to_number(&self) -> Option<i64> {
        match self {
            Self::Text(text) => text.trim().parse().ok(),
            Self::Number(number) => {
                // Formatting `2.0_f64` gives `2`, which parses as an integer.
                number.as_i64().or_else(|| number.as_f64()?.to_string().parse().ok())
            }
            Self::Absent | Self::Json(_) => None,
        }
    }

    /// Like [`into_text`](Self::into_text), but returns `None` for an empty string, because servers
    /// send `""` in place of a missing value.
    pub(crate) fn into_non_empty(self) -> Option<String> {
        self.into_text().filter(|text| !text.is_empty())
    }
}

impl From<Value> for LenientValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            Value::String(text) => Self::Text(text),
            Value::Number(number) => Self::Number(number),
            other => Self::Json(Box::new(other)),
        }
    }
}

impl<'de> Deserialize<'de> for LenientValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientValueVisitor)
    }
}

struct LenientValueVisitor;

impl<'de> Visitor<'de> for LenientValueVisitor {
    type Value = LenientValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<LenientValue, E> {
        Ok(LenientValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<LenientValue, E> {
        Ok(LenientValue::Text(text))
    }

    fn visit_unit<E>(self) -> Result<LenientValue, E> {
        Ok(LenientValue::Absent)
    }

    fn visit_bool<E>(self, value: bool) -> Result<LenientValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<LenientValue, E> {
        Ok(LenientValue::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<LenientValue, E> {
        Ok(LenientValue::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<LenientValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LenientValue, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(LenientValue::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<LenientValue, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(LenientValue::from)
    }
}

/// The value of an optional object field. A value of any other type is read as `None`.
#[derive(Debug)]
pub(crate) struct LenientObject<T>(Option<Box<T>>);

impl<T> LenientObject<T> {
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        self.0.take()
    }
}

impl<T> Default for LenientObject<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LenientObject<T> {
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
