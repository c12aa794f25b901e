//! Comparison of a public API with its snapshot.

use std::collections::BTreeMap;

/// Describes the lines that were removed from `old` or added in `new`, two versions of the snapshot
/// `file`. Returns `None` if there are none. The order of the lines is ignored.
pub(super) fn difference(file: &str, old: &str, new: &str) -> Option<String> {
    let (removed, added) = (missing(old, new), missing(new, old));
    if removed.is_empty() && added.is_empty() {
        return None;
    }
    let removed = removed.iter().map(|line| format!("-{line}\n"));
    let added = added.iter().map(|line| format!("+{line}\n"));
    Some(format!("{file}:\n{}", removed.chain(added).collect::<String>()))
}

/// Returns the lines of `text` that are not in `other`. If `text` repeats a line, `other` must
/// repeat it as often.
pub(super) fn missing<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
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

/// Returns the value of `format_version`, the last field of rustdoc's JSON. `None` if the field is
/// missing.
pub(super) fn format_version(json: &str) -> Option<u64> {
    let (_, rest) = json.rsplit_once("\"format_version\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
