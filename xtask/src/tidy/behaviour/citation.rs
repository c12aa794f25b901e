//! Citations of promises in Rust files: `Behaviour B12`, `Behaviour B13, B15 and T1`.

use super::Finding;
use crate::tidy::comments::{Comment, Kind, comments, without_code_spans};

const WORD: &str = "Behaviour ";

/// A promise that a test cites.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) id: String,
    /// The path and the name, `path.rs::name`, or the path alone for the documentation of a file.
    pub(super) test: String,
    pub(super) path: String,
    pub(super) line: usize,
}

/// The citations in a file. A citation that documents no test is a finding.
pub(super) fn citations(path: &str, text: &str) -> Vec<Result<Citation, Finding>> {
    let lines: Vec<_> = text.lines().collect();
    let mut citations = Vec::new();
    for comment in comments(path, text) {
        let Some(line) = comment.lines.first().map(|line| line.number) else { continue };
        let code = lines.get(comment.end.saturating_sub(1)..).unwrap_or_default();
        let test = documented_test(path, &comment, code);
        for id in cited_ids(&prose_of(&comment)) {
            citations.push(match &test {
                Some(test) => Ok(Citation { id, test: test.clone(), path: path.to_owned(), line }),
                None => Err(Finding::new(
                    path,
                    line,
                    format!("{id} is cited here and this documents no test: move the citation to a test"),
                )),
            });
        }
    }
    citations
}

fn prose_of(comment: &Comment<'_>) -> String {
    let lines: Vec<_> = without_code_spans(&comment.lines).into_iter().map(|(_, text)| text).collect();
    lines.join(" ")
}

/// The test that a comment documents.
fn documented_test(path: &str, comment: &Comment<'_>, code: &[&str]) -> Option<String> {
    match comment.kind {
        Kind::Plain => None,
        Kind::Module => Some(path.to_owned()),
        Kind::Item => {
            let attributes = code.iter().take_while(|line| line.trim_start().starts_with("#["));
            let is_test = attributes.clone().any(|line| line.contains("test"));
            let declaration = code.get(attributes.count()..)?.first()?;
            let (_, name) = declaration.split_once("fn ")?;
            let name = name.split(['(', '<']).next().filter(|_| is_test)?;
            Some(format!("{path}::{name}"))
        }
    }
}

/// The ids after each `Behaviour`, separated by commas or "and", with or without a remark in
/// parentheses: `Behaviour F56 (stdio), F41`.
pub(super) fn cited_ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for list in text.split(WORD).skip(1) {
        let mut rest = list;
        while let Some((id, after)) = leading_id(rest) {
            ids.push(id.to_owned());
            rest = match after.strip_prefix(" (").and_then(|remark| remark.split_once(')')) {
                Some((_, after)) => after,
                None => after,
            };
            let next = [", and ", ", ", " and "].iter().find_map(|separator| rest.strip_prefix(separator));
            let Some(next) = next else { break };
            rest = next;
        }
    }
    ids
}

/// A capital letter and a number, and the text after them.
pub(super) fn leading_id(text: &str) -> Option<(&str, &str)> {
    let digits = text.strip_prefix(|char: char| char.is_ascii_uppercase())?;
    let rest = digits.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_id = rest.len() < digits.len() && !rest.starts_with(|char: char| char.is_alphanumeric());
    is_id.then(|| text.split_at(text.len() - rest.len()))
}
