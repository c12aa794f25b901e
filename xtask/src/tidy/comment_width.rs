//! Rule: a line of a comment has at most 100 columns. rustfmt does not wrap comments.

use super::comments::prose_lines;
use super::{Finding, SourceTree};
use crate::workspace::Package;

const MAX_COLUMNS: usize = 100;

/// The extensions of the files to check. Markdown pages are not included, because a viewer wraps
/// their lines.
const EXTENSIONS: &[&str] = &[".rs", ".toml", ".yml"];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let files = EXTENSIONS.iter().flat_map(|extension| tree.files_matching("", extension));
    files.flat_map(|(path, text)| wide_lines(path, text)).collect()
}

fn wide_lines(path: &str, text: &str) -> Vec<Finding> {
    let wide = prose_lines(path, text).into_iter().filter(|line| line.width > MAX_COLUMNS);
    wide.map(|line| {
        let message = format!("a comment of {} columns; the limit is {MAX_COLUMNS}: wrap it", line.width);
        Finding::new(path, line.number, message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;

    #[test]
    fn comment_ends_at_column_100() {
        let fits = format!("    // {}\n", "ä".repeat(93));
        let wide = format!("{fits}    // {}\n", "ä".repeat(94));
        let code = format!("/// ```\n/// {}\n/// ```\n", "x".repeat(100));
        let hash = format!("# {}\n", "x".repeat(99));
        let tree = [
            ("crates/a/src/a.rs", wide.as_str()),
            ("crates/a/src/b.rs", code.as_str()),
            ("deny.toml", hash.as_str()),
            ("README.md", hash.as_str()),
        ];
        tests::check(
            super::check,
            &[],
            tree,
            &expect![[r#"
            crates/a/src/a.rs:2: a comment of 101 columns; the limit is 100: wrap it
            deny.toml:1: a comment of 101 columns; the limit is 100: wrap it
        "#]],
        );
    }
}
