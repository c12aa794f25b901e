//! Rule: comments and Markdown pages do not use words such as `told` or `nobody`. These words treat
//! a program as a speaker, or leave the subject of a sentence unnamed.

use super::comments::{prose_lines, split_words, without_code_spans};
use super::{Finding, SourceTree};
use crate::workspace::Package;

/// The rejected words, each with advice on a replacement.
const WORDS: &[(&str, &str)] = &[
    ("told", "a program sends, returns or reports"),
    ("heard", "a program receives or reads"),
    ("heed", "a program applies or follows"),
    ("heeds", "a program applies or follows"),
    ("heeded", "a program applies or follows"),
    ("lend", "write passes or borrows"),
    ("lends", "write passes or borrows"),
    ("lent", "write passed or borrowed"),
    ("whoever", "name the role: the caller, the host, the user"),
    ("nobody", "name the role: no caller, no user"),
    ("somebody", "name the role: the caller, the host, the user"),
];

/// The extensions of the files to check.
const EXTENSIONS: &[&str] = &[".rs", ".toml", ".yml", ".md"];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let files = EXTENSIONS.iter().flat_map(|extension| tree.files_matching("", extension));
    files.flat_map(|(path, text)| forbidden_words(path, text)).collect()
}

fn forbidden_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in without_code_spans(&prose_lines(path, text)) {
        for word in split_words(&line) {
            if let Some((word, replacement)) = WORDS.iter().find(|(forbidden, _)| *forbidden == word) {
                findings.push(Finding::new(path, number, format!("`{word}`: {replacement}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;

    #[test]
    fn words_of_speech_are_found_outside_of_code() {
        let tree = [
            ("README.md", "The model is told, and nobody asks.\n\n`told` is a word.\n```text\nTold.\n```\n"),
            ("Cargo.toml", "told = 1\n# Lent to all.\n"),
            ("crates/a/src/a.rs", "// Heed it.\nlet told = \"told\";\n// The lender is heeding.\n"),
        ];
        tests::check(
            super::check,
            &[],
            tree,
            &expect![[r#"
            Cargo.toml:2: `lent`: write passed or borrowed
            README.md:1: `nobody`: name the role: no caller, no user
            README.md:1: `told`: a program sends, returns or reports
            crates/a/src/a.rs:1: `heed`: a program applies or follows
        "#]],
        );
    }
}
