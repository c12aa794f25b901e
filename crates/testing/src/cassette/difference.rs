//! Readable differences between two requests.

use std::fmt::Write as _;

use serde_json::Value;

use haft_schema::reference::join;

/// Maximum number of differences in an error message. Further differences are only counted.
const MAX_DIFFERENCES: usize = 8;

/// Maximum length of a value in a description, in characters.
const MAX_VALUE_CHARS: usize = 160;

/// A difference between a recorded request (`was`) and the actual request (`now`).
pub(super) struct Difference<'v> {
    pointer: String,
    was: Option<&'v Value>,
    now: Option<&'v Value>,
}

/// Returns the differences between two requests as JSON.
pub(super) fn differences<'v>(was: &'v Value, now: &'v Value) -> Vec<Difference<'v>> {
    let mut found = Vec::new();
    compare(Some(was), Some(now), String::new(), &mut found);
    found
}

/// Adds the differences below `pointer` to `found`. Recursion is safe: the canonical JSON of a
/// request has a bounded depth.
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

/// Formats the first [`MAX_DIFFERENCES`] differences, one line each.
pub(super) fn describe(differences: &[Difference<'_>]) -> String {
    let mut text = String::new();
    for Difference { pointer, was, now } in differences.iter().take(MAX_DIFFERENCES) {
        // Writing to a `String` never fails.
        let _ = write!(text, "\n  {pointer}: was {}, now {}", abbreviate(*was), abbreviate(*now));
    }
    if let Some(more @ 1..) = differences.len().checked_sub(MAX_DIFFERENCES) {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}

fn abbreviate(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
