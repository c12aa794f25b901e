//! Compares a public API with its snapshot.

use std::collections::BTreeMap;

/// Describes the removed and the added lines between `old` and `new`, two versions of the snapshot
/// `file`. Returns `None` if both have the same lines, in any order.
pub(super) fn difference(file: &str, old: &str, new: &str) -> Option<String> {
    let (removed, added) = (missing_lines(old, new), missing_lines(new, old));
    if removed.is_empty() && added.is_empty() {
        return None;
    }
    let removed = removed.iter().map(|line| format!("-{line}\n"));
    let added = added.iter().map(|line| format!("+{line}\n"));
    Some(format!("{file}:\n{}", removed.chain(added).collect::<String>()))
}

/// Returns the lines of `text` that are missing in `other`. If a line is repeated in `text`, it
/// must be repeated as often in `other`.
pub(super) fn missing_lines<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut counts = BTreeMap::<_, usize>::new();
    for line in other.lines() {
        *counts.entry(line).or_default() += 1;
    }
    let mut missing: Vec<_> = text.lines().collect();
    missing.retain(|line| match counts.get_mut(line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    missing
}

/// Returns the value of `format_version`, the last field in the JSON of rustdoc. Returns `None` if
/// there is no such field.
pub(super) fn format_version(json: &str) -> Option<u64> {
    let (_, rest) = json.rsplit_once("\"format_version\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
