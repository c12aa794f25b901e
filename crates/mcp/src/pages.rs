//! The pages of a list.

use haft_core::text::{truncate, without_hidden_chars};
use serde_json::Value;

/// The maximum length of a cursor that is quoted, in bytes.
const MAX_EXCERPT_BYTES: usize = 60;

/// Returns the cursor of the page after `page`, the result of a request for a list. Returns `None`
/// for the last page. Before revision 2026-07-28, an empty cursor is the end of the list: servers
/// send it in place of no cursor. `is_used` returns `true` for the cursor of an earlier page.
///
/// # Errors
///
/// Returns a description of the fault if the cursor is repeated, or if it is not a string. The list
/// then ends after `page`.
pub(crate) fn next_cursor(
    page: &Value,
    has_empty_cursors: bool,
    is_used: impl Fn(&str) -> bool,
) -> Result<Option<&str>, String> {
    match page.get("nextCursor") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(cursor)) if cursor.is_empty() && !has_empty_cursors => Ok(None),
        Some(Value::String(cursor)) if is_used(cursor) => {
            let cursor = without_hidden_chars(cursor);
            Err(format!("the cursor {:?} is repeated", truncate(&cursor, MAX_EXCERPT_BYTES)))
        }
        Some(Value::String(cursor)) => Ok(Some(cursor)),
        Some(_) => Err("`nextCursor` is not a string".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::next_cursor;

    #[test]
    fn cursor_ends_or_continues_the_list() {
        let repeated = Err("the cursor \"used\" is repeated".to_owned());
        let other = Err("`nextCursor` is not a string".to_owned());
        for (page, before, from_2026) in [
            (json!({}), Ok(None), Ok(None)),
            (json!({"nextCursor": null}), Ok(None), Ok(None)),
            (json!({"nextCursor": ""}), Ok(None), Ok(Some(""))),
            (json!({"nextCursor": "2"}), Ok(Some("2")), Ok(Some("2"))),
            (json!({"nextCursor": "used"}), repeated.clone(), repeated.clone()),
            (json!({"nextCursor": 2}), other.clone(), other.clone()),
            (json!({"nextCursor": {"page": 2}}), other.clone(), other),
        ] {
            for (has_empty_cursors, expected) in [(false, before), (true, from_2026)] {
                assert_eq!(next_cursor(&page, has_empty_cursors, |it| it == "used"), expected, "{page}");
            }
        }
    }
}
