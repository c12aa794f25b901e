//! What is new in a request.

use serde_json::{Map, Value};

const MESSAGES: &str = "messages";

/// The earlier request that this one goes on from, from 1, and what is new.
pub(super) fn news<'v>(earlier: impl Iterator<Item = &'v Value>, request: &Value) -> Option<(usize, Value)> {
    let said = messages(request);
    let goes_on = |before: &Value| {
        let known = messages(before);
        !known.is_empty()
            && known.len() < said.len()
            && said.starts_with(known)
            && keys(before).all(|key| request.get(key).is_some())
    };
    let (number, before) = (1..)
        .zip(earlier)
        .filter(|(_, before)| goes_on(before))
        .max_by_key(|(_, before)| messages(before).len())?;
    let mut new = Map::new();
    for (key, value) in request.as_object().into_iter().flatten() {
        if key == MESSAGES {
            new.insert(key.clone(), said.iter().skip(messages(before).len()).cloned().collect());
        } else if before.get(key) != Some(value) {
            new.insert(key.clone(), value.clone());
        }
    }
    Some((number, Value::Object(new)))
}

/// The whole of a request that goes on from an earlier one.
pub(super) fn after(earlier: &Value, new: Value) -> Value {
    let mut whole = earlier.clone();
    if let (Value::Object(whole), Value::Object(new)) = (&mut whole, new) {
        for (key, value) in new {
            match (whole.get_mut(&key), value) {
                (Some(Value::Array(said)), Value::Array(more)) if key == MESSAGES => said.extend(more),
                (_, value) => drop(whole.insert(key, value)),
            }
        }
    }
    whole
}

fn messages(request: &Value) -> &[Value] {
    request.get(MESSAGES).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn keys(request: &Value) -> impl Iterator<Item = &String> {
    request.as_object().into_iter().flat_map(Map::keys)
}
