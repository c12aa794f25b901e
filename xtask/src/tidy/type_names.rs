//! Rule: the name of a public type is unique in the workspace.

use std::collections::BTreeMap;

use super::{Finding, SourceTree, sources};
use crate::workspace::Package;

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// The location of a declaration: the path of its file, and its line number.
type Location<'a> = (&'a str, usize);

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<Location<'_>>> = BTreeMap::new();
    for (path, text) in tree.files_matching("crates/", ".rs") {
        if path.split('/').nth(2) != Some("src") || sources::is_test_file(path) {
            continue;
        }
        for (index, line) in sources::without_tests(text).enumerate() {
            if let Some(name) = declared_type(line) {
                types.entry(name).or_default().push((path, index + 1));
            }
        }
    }
    types.iter().flat_map(|(name, places)| duplicates(name, places)).collect()
}

fn duplicates(name: &str, places: &[Location<'_>]) -> Vec<Finding> {
    let findings = places.iter().filter_map(|place| {
        let (other, line) = places.iter().find(|other| *other != place)?;
        let message = format!("`{name}` is also a public type at {other}:{line}: rename one of the two");
        Some(Finding::new(place.0, place.1, message))
    });
    findings.collect()
}

/// Returns the name of the public type that `line` declares. Returns `None` if it declares none. A
/// re-export (`pub use`) is not a declaration.
fn declared_type(line: &str) -> Option<&str> {
    let (keyword, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    KEYWORDS.contains(&keyword).then(|| rest.get(..end))?
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;

    #[test]
    fn two_public_types_have_two_names() {
        let tree = [
            ("crates/a/src/a.rs", "pub struct Error;\npub(crate) struct Private;\npub fn f() {}\n"),
            ("crates/a/src/lib.rs", "pub use a::Error;\npub use b::Other;\n"),
            ("crates/b/src/b/tests.rs", "pub struct Error;\n"),
            ("crates/b/src/b.rs", "#[derive(Debug)]\npub enum Error<T> {}\nstruct Private;\nmod tests {\n"),
            ("crates/b/tests/it/main.rs", "pub struct Error;\n"),
        ];
        tests::check(
            super::check,
            &[],
            tree,
            &expect![[r#"
            crates/a/src/a.rs:1: `Error` is also a public type at crates/b/src/b.rs:2: rename one of the two
            crates/b/src/b.rs:2: `Error` is also a public type at crates/a/src/a.rs:1: rename one of the two
        "#]],
        );
    }
}
