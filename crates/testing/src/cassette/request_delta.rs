//! Stores a recorded request as its differences from an earlier request.
//!
//! A cassette of full requests grows with the square of the number of steps, because each request
//! repeats the conversation. With 50 steps, ten tools and results of 1 kB, the differences take 106
//! kB, and full requests take 2.1 MB.

use serde_json::{Map, Value};

const MESSAGES_KEY: &str = "messages";

/// Finds the longest request in `earlier` (by number of messages) that `request` continues. A
/// request continues an earlier request if it starts with the same messages, adds at least one
/// message, and has all members of the earlier request.
///
/// Returns the number (from 1) of the earlier request, and an object with the added messages and
/// the members that are new or changed. `None` if `request` continues no earlier request.
pub(super) fn find_delta<'v>(
    earlier: impl Iterator<Item = &'v Value>,
    request: &Value,
) -> Option<(usize, Value)> {
    let current = messages(request);
    let is_prefix = |before: &Value| {
        let known = messages(before);
        !known.is_empty()
            && known.len() < current.len()
            && current.starts_with(known)
            && keys(before).all(|key| request.get(key).is_some())
    };
    let (number, before) = (1..)
        .zip(earlier)
        .filter(|(_, before)| is_prefix(before))
        .max_by_key(|(_, before)| messages(before).len())?;
    let mut new = Map::new();
    for (key, value) in request.as_object().into_iter().flatten() {
        if key == MESSAGES_KEY {
            new.insert(key.clone(), current.iter().skip(messages(before).len()).cloned().collect());
        } else if before.get(key) != Some(value) {
            new.insert(key.clone(), value.clone());
        }
    }
    Some((number, Value::Object(new)))
}

/// Restores a complete request from `earlier`, the request that it continues, and `new`, the object
/// returned by [`find_delta`].
pub(super) fn apply_delta(earlier: &Value, new: Value) -> Value {
    let mut whole = earlier.clone();
    if let (Value::Object(whole), Value::Object(new)) = (&mut whole, new) {
        for (key, value) in new {
            match (whole.get_mut(&key), value) {
                (Some(Value::Array(messages)), Value::Array(more)) if key == MESSAGES_KEY => {
                    messages.extend(more);
                }
                (_, value) => drop(whole.insert(key, value)),
            }
        }
    }
    whole
}

fn messages(request: &Value) -> &[Value] {
    request.get(MESSAGES_KEY).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn keys(request: &Value) -> impl Iterator<Item = &String> {
    request.as_object().into_iter().flat_map(Map::keys)
}
