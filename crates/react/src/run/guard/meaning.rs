use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// What JSON has in common with all that means the same, whatever the order of its keys: what is within it is there as a hash.
#[derive(Hash)]
pub(super) enum Meaning {
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

impl<'de> Deserialize<'de> for Meaning {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MeaningVisitor)
    }
}

struct MeaningVisitor;

impl<'de> Visitor<'de> for MeaningVisitor {
    type Value = Meaning;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Meaning, E> {
        Ok(Meaning::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Meaning, E> {
        Ok(Meaning::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Meaning, E> {
        Ok(Meaning::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Meaning, E> {
        Ok(Meaning::Negative(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Meaning, E> {
        // Added to 0, -0 is 0.
        Ok(Meaning::Float((value + 0.0).to_bits()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Meaning, E> {
        Ok(Meaning::Text(hash(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Meaning, A::Error> {
        let mut all = 0;
        while let Some(item) = list.next_element::<Meaning>()? {
            all = hash((all, item));
        }
        Ok(Meaning::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meaning, A::Error> {
        let mut all = 0_u64;
        while let Some(entry) = map.next_entry::<Meaning, Meaning>()? {
            // A sum is the same in any order.
            all = all.wrapping_add(hash(entry));
        }
        Ok(Meaning::Object(all))
    }
}
