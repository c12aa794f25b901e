//! Hashes of JSON values.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// A canonical form of a JSON value for hashing: key order does not matter, nested values are
/// replaced by their hash.
#[derive(Hash)]
pub(super) enum CanonicalHash {
    Null,
    Bool(bool),
    Whole(u64),
    Negative(i64),
    Float(u64),
    Text(u64),
    List(u64),
    Object(u64),
}

pub(super) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<'de> Deserialize<'de> for CanonicalHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CanonicalVisitor)
    }
}

struct CanonicalVisitor;

impl<'de> Visitor<'de> for CanonicalVisitor {
    type Value = CanonicalHash;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<CanonicalHash, E> {
        Ok(CanonicalHash::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<CanonicalHash, E> {
        Ok(CanonicalHash::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<CanonicalHash, E> {
        Ok(CanonicalHash::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<CanonicalHash, E> {
        Ok(CanonicalHash::Negative(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<CanonicalHash, E> {
        // `-0.0 + 0.0` is `0.0`.
        Ok(CanonicalHash::Float((value + 0.0).to_bits()))
    }

    fn visit_str<E>(self, text: &str) -> Result<CanonicalHash, E> {
        Ok(CanonicalHash::Text(hash(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CanonicalHash, A::Error> {
        let mut all = 0;
        while let Some(item) = list.next_element::<CanonicalHash>()? {
            all = hash((all, item));
        }
        Ok(CanonicalHash::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CanonicalHash, A::Error> {
        let mut all = 0_u64;
        while let Some(entry) = map.next_entry::<CanonicalHash, CanonicalHash>()? {
            // A sum does not depend on the order.
            all = all.wrapping_add(hash(entry));
        }
        Ok(CanonicalHash::Object(all))
    }
}
