//! Hashes of JSON values.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde_json::Value;

pub(super) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The hash of a JSON value. Values that differ only in the order of keys have the same hash, and
/// so have `0.0` and `-0.0`.
pub(super) fn canonical(value: &Value) -> u64 {
    match value {
        Value::Null => hash(0_u8),
        Value::Bool(value) => hash((1_u8, value)),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => hash((2_u8, number)),
            (_, Some(number), _) => hash((3_u8, number)),
            // `-0.0 + 0.0` is `0.0`.
            (_, _, number) => hash((4_u8, number.map(|number| (number + 0.0).to_bits()))),
        },
        Value::String(text) => hash((5_u8, text)),
        Value::Array(items) => hash((6_u8, items.iter().fold(0, |all, item| hash((all, canonical(item)))))),
        // A sum does not depend on the order.
        Value::Object(entries) => hash((
            7_u8,
            entries.iter().fold(0_u64, |all, (key, value)| all.wrapping_add(hash((key, canonical(value))))),
        )),
    }
}
