//! Human-readable differences between two model requests.

use std::fmt::Write as _;

use serde_json::Value;

use haft_schema::reference::join_pointer;

/// The maximum number of differences that an error message lists. Further differences are only
/// counted.
const MAX_DIFFERENCES: usize = 8;

/// The maximum number of characters of a JSON value in an error message. Longer values are
/// truncated.
const MAX_VALUE_CHARS: usize = 160;

/// A difference between two requests at a JSON pointer: the value in the recorded request (`was`)
/// and the value in the actual request (`now`). A field is `None` if its request has no value at
/// the pointer.
pub(super) struct Difference<'v> {
    pointer: String,
    was: Option<&'v Value>,
    now: Option<&'v Value>,
}

/// Returns the differences between the recorded request `was` and the actual request `now`. Both
/// are canonical JSON.
pub(super) fn find_differences<'v>(was: &'v Value, now: &'v Value) -> Vec<Difference<'v>> {
    let mut found = Vec::new();
    collect_differences(Some(was), Some(now), String::new(), &mut found);
    found
}

/// Adds the differences between `was` and `now`, the values at `pointer` in the two requests, to
/// `found`. The recursion is bounded, because the nesting depth of a request is limited.
fn collect_differences<'v>(
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
                collect_differences(before.get(key), after.get(key), join_pointer(&pointer, key), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                collect_differences(
                    before.get(index),
                    after.get(index),
                    join_pointer(&pointer, &index.to_string()),
                    found,
                );
            }
        }
        _ => found.push(Difference { pointer, was, now }),
    }
}

/// Formats the first [`MAX_DIFFERENCES`] differences, one line each, and the number of further
/// differences.
pub(super) fn describe_differences(differences: &[Difference<'_>]) -> String {
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
