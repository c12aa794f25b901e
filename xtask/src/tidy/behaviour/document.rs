//! Parses `docs/behaviour.md`. The document has a list item for each promise. The tests of the
//! promise are listed below the item.
//!
//! ```text
//! - **B12.** Invalid arguments are reported with all violations.
//!   - `crates/core/tests/it/pipeline.rs::invalid_arguments_are_explained`
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::citation::leading_id;

const PLANNED_HEADING: &str = "## Planned";
const TEST_PREFIX: &str = "  - `";

/// A promise in `docs/behaviour.md`, with the tests listed below it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) line: usize,
    /// `true` if the promise is in the section "Planned".
    pub(super) is_planned: bool,
    /// The tests listed below the promise, each with its line number.
    pub(super) tests: Vec<(usize, String)>,
}

pub(super) fn entries(page: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut is_planned = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("## ") {
            is_planned = line == PLANNED_HEADING;
        } else if let Some(id) = entry_id(line) {
            entries.push(Entry { id: id.to_owned(), line: index + 1, is_planned, tests: Vec::new() });
        } else if let Some(entry) = entries.last_mut()
            && let Some(test) = line.strip_prefix(TEST_PREFIX)
        {
            entry.tests.push((index + 1, test.trim_end_matches('`').to_owned()));
        }
    }
    entries
}

/// Returns `page` with updated lists of tests. `tests` maps the id of a promise to the tests that
/// cite it. Planned promises get no list.
pub(super) fn replace_tests(page: &str, tests: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut text = String::new();
    let mut is_planned = false;
    let mut lines = page.lines().filter(|line| !line.starts_with(TEST_PREFIX)).peekable();
    let mut current = None;
    while let Some(line) = lines.next() {
        is_planned = if line.starts_with("## ") { line == PLANNED_HEADING } else { is_planned };
        current = entry_id(line).or(current);
        text.push_str(line);
        text.push('\n');
        let is_continued = lines.peek().is_some_and(|next| next.starts_with("  "));
        if let Some(id) = current.take_if(|_| !is_continued).filter(|_| !is_planned) {
            for test in tests.get(id).into_iter().flatten() {
                text.push_str(&format!("{TEST_PREFIX}{test}`\n"));
            }
        }
    }
    text
}

/// Returns the id in a list item such as `- **B12.** …`. Returns `None` if `line` is not the start
/// of a promise.
fn entry_id(line: &str) -> Option<&str> {
    let (id, rest) = leading_id(line.strip_prefix("- **")?)?;
    rest.starts_with(".**").then_some(id)
}
