//! What changed in a request, for people.

use std::fmt::Write as _;

use serde_json::Value;

use haft_schema::reference::join;

/// How many changes are told; the others are counted.
const TOLD: usize = 8;

/// How much of a value is shown, in characters.
const SHOWN: usize = 160;

/// One place where a request is not the recorded one.
pub(super) struct Difference<'v> {
    pointer: String,
    was: Option<&'v Value>,
    now: Option<&'v Value>,
}

/// Where one value differs from another, as far down as both have it.
pub(super) fn differences<'v>(was: &'v Value, now: &'v Value) -> Vec<Difference<'v>> {
    let mut found = Vec::new();
    compare(Some(was), Some(now), String::new(), &mut found);
    found
}

/// The values come from text, or are sent as such: their depth is bounded.
fn compare<'v>(
    was: Option<&'v Value>,
    now: Option<&'v Value>,
    pointer: String,
    found: &mut Vec<Difference<'v>>,
) {
    match (was, now) {
        _ if was == now => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                compare(before.get(key), after.get(key), join(&pointer, key), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                compare(before.get(index), after.get(index), join(&pointer, &index.to_string()), found);
            }
        }
        _ => found.push(Difference { pointer, was, now }),
    }
}

/// One line for each, and how many there are besides.
pub(super) fn told(differences: &[Difference<'_>]) -> String {
    let mut text = String::new();
    for Difference { pointer, was, now } in differences.iter().take(TOLD) {
        // Writing to a string never fails.
        let _ = write!(text, "\n  {pointer}: was {}, now {}", shown(*was), shown(*now));
    }
    if let Some(more @ 1..) = differences.len().checked_sub(TOLD) {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
