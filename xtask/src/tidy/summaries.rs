//! Rule: the summary of a doc comment opens with a noun or a verb, not with a relative or
//! interrogative word.

use super::comments::{Comment, CommentKind, comments, split_words};
use super::{Finding, SourceTree};
use crate::workspace::Package;

/// The words that must not open a summary. Most of them turn it into a subordinate clause.
const OPENERS: &[&str] =
    &["what", "whether", "how", "who", "whom", "whose", "which", "that", "of", "one", "such", "where", "why"];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let files = tree.files_matching("", ".rs");
    files
        .flat_map(|(path, text)| {
            comments(path, text).iter().filter_map(|it| check_opener(path, it)).collect::<Vec<_>>()
        })
        .collect()
}

fn check_opener(path: &str, comment: &Comment<'_>) -> Option<Finding> {
    let line = comment.lines.first().filter(|_| comment.kind != CommentKind::Plain)?;
    let first = line.text.split(char::is_whitespace).next().filter(|word| !word.starts_with('`'))?;
    let first = split_words(first).next()?;
    OPENERS.contains(&first.as_str()).then(|| {
        let message = format!(
            "the summary opens with `{first}`: begin with a noun (\"An LRU cache of …\") or a verb (\"Returns `true` if …\")"
        );
        Finding::new(path, line.number, message)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;

    #[test]
    fn summary_opens_with_a_noun_or_a_verb() {
        let text = [
            "//! How it works.",
            "",
            "/// Whether it is there.",
            "/// Of two lines.",
            "fn a() {}",
            "// What a plain comment opens with is free.",
            "/// `what` is code. Which is fine.",
            "fn b() {}",
            "/// One.",
            "fn c() {}",
            "/// Once.",
            "fn d() {}",
        ]
        .join("\n");
        tests::check(
            super::check,
            &[],
            [("crates/a/src/a.rs", text.as_str())],
            &expect![[r#"
                crates/a/src/a.rs:1: the summary opens with `how`: begin with a noun ("An LRU cache of …") or a verb ("Returns `true` if …")
                crates/a/src/a.rs:3: the summary opens with `whether`: begin with a noun ("An LRU cache of …") or a verb ("Returns `true` if …")
                crates/a/src/a.rs:9: the summary opens with `one`: begin with a noun ("An LRU cache of …") or a verb ("Returns `true` if …")
            "#]],
        );
    }
}
