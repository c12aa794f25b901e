use std::fs;

use super::{NPM_PACKAGES, PYTHON_PACKAGES, PYTHON_SDK_V1};
use crate::workspace;

/// The table of the book has the versions that are installed.
#[test]
fn book_lists_the_tested_versions() {
    let chapter = fs::read_to_string(workspace::root().join("docs/src/mcp-servers.md")).unwrap_or_default();
    let npm = NPM_PACKAGES.iter().filter_map(|package| package.rsplit_once('@'));
    let python =
        PYTHON_PACKAGES.iter().chain([&PYTHON_SDK_V1]).filter_map(|package| package.split_once("=="));
    for (name, version) in npm.chain(python) {
        let is_listed =
            |row: &str| row.starts_with(&format!("| `{name}`")) && row.contains(&format!("| {version} |"));
        assert!(chapter.lines().any(is_listed), "no row for {name} {version}");
    }
}
