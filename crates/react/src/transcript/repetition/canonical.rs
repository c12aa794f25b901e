//! Hashing of JSON values.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Writes the JSON `value` to `hasher`. The order of keys does not affect the hash, and `0.0` and
/// `-0.0` have the same hash.
pub(super) fn hash_json(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(value) => (1_u8, value).hash(hasher),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => (2_u8, number).hash(hasher),
            (_, Some(number), _) => (3_u8, number).hash(hasher),
            // The addition turns `-0.0` into `0.0`.
            (_, _, number) => (4_u8, number.map(|number| (number + 0.0).to_bits())).hash(hasher),
        },
        Value::String(text) => (5_u8, text).hash(hasher),
        Value::Array(items) => {
            (6_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_json(item, hasher));
        }
        Value::Object(entries) => {
            (7_u8, entries.len()).hash(hasher);
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                key.hash(hasher);
                hash_json(value, hasher);
            }
        }
    }
}
