//! Parses the citations of promises in Rust files. A promise is an entry of `docs/behaviour.md`,
//! and a citation has the form `Behaviour B12: a sentence.` or `Behaviour B13, B15 and T1: a
//! sentence.`

use super::Finding;
use crate::tidy::comments::{Comment, CommentKind, comments, without_code_spans};

const CITATION_WORD: &str = "Behaviour";

/// A reference to a promise in `docs/behaviour.md`, from the documentation of a test or of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) id: String,
    /// The test that cites the promise, as `path.rs::name`, or only the path if the documentation
    /// of the file cites it.
    pub(super) test: String,
    pub(super) path: String,
    pub(super) line: usize,
}

/// The ids of promises that a comment cites with one sentence, for example `Behaviour B12 and B13:
/// a sentence.`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CitationList {
    pub(super) ids: Vec<String>,
    /// `true` if a colon and a sentence follow the ids.
    pub(super) has_sentence: bool,
}

/// Returns the citations in `text`, the content of the Rust file at `path`. Returns a finding for a
/// citation outside the documentation of a test or file, and for a citation without a sentence.
pub(super) fn citations(path: &str, text: &str) -> Vec<Result<Citation, Finding>> {
    let lines: Vec<_> = text.lines().collect();
    let mut citations = Vec::new();
    for comment in comments(path, text) {
        let Some(line) = comment.lines.first().map(|line| line.number) else { continue };
        let code = lines.get(comment.end.saturating_sub(1)..).unwrap_or_default();
        let test = documented_test(path, &comment, code);
        for list in citation_lists(&prose_of(&comment)) {
            let Some(test) = &test else {
                let message = "is cited here and this documents no test: move the citation to a test";
                let findings = list.ids.iter().map(|id| Finding::new(path, line, format!("{id} {message}")));
                citations.extend(findings.map(Err));
                continue;
            };
            if !list.has_sentence {
                citations.push(Err(without_sentence(path, line, test, &list.ids)));
            }
            let citation = |id| Citation { id, test: test.clone(), path: path.to_owned(), line };
            citations.extend(list.ids.into_iter().map(citation).map(Ok));
        }
    }
    citations
}

fn without_sentence(path: &str, line: usize, test: &str, ids: &[String]) -> Finding {
    let ids = ids.join(", ");
    let message =
        format!("`{test}` cites {ids} without a sentence: write `{CITATION_WORD} {ids}: a sentence.`");
    Finding::new(path, line, message)
}

fn prose_of(comment: &Comment<'_>) -> String {
    let lines: Vec<_> = without_code_spans(&comment.lines).into_iter().map(|(_, text)| text).collect();
    lines.join(" ")
}

/// Returns the test that `comment` documents, as `path.rs::name`. If `comment` is the documentation
/// of the file, returns `path`. Returns `None` for any other comment. `code` contains the lines
/// after the comment.
fn documented_test(path: &str, comment: &Comment<'_>, code: &[&str]) -> Option<String> {
    match comment.kind {
        CommentKind::Plain => None,
        CommentKind::Module => Some(path.to_owned()),
        CommentKind::Item => {
            let attributes = code.iter().take_while(|line| line.trim_start().starts_with("#["));
            let is_test = attributes.clone().any(|line| line.contains("test"));
            let declaration = code.get(attributes.count()..)?.first()?;
            let (_, name) = declaration.split_once("fn ")?;
            let name = name.split(['(', '<']).next().filter(|_| is_test)?;
            Some(format!("{path}::{name}"))
        }
    }
}

/// Returns the lists of promise ids in `prose`, the text of a comment.
pub(super) fn citation_lists(prose: &str) -> Vec<CitationList> {
    let mut lists = Vec::new();
    let mut rest = prose;
    while let Some((_, list)) = rest.split_once(CITATION_WORD) {
        let (ids, after) = leading_ids(list);
        if !ids.is_empty() {
            lists.push(CitationList { ids, has_sentence: starts_with_sentence(after) });
        }
        rest = after;
    }
    lists
}

/// Splits `text`, the text after `Behaviour`, into the ids at its start and the rest. The ids are
/// separated by commas or by "and". An id may be followed by a remark in parentheses, as in ` F56
/// (stdio), F41`.
fn leading_ids(text: &str) -> (Vec<String>, &str) {
    let mut ids = Vec::new();
    let mut rest = text;
    let mut next = without_plural(text).strip_prefix(' ');
    while let Some((id, after)) = next.and_then(leading_id) {
        ids.push(id.to_owned());
        rest = match after.strip_prefix(" (").and_then(|remark| remark.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
        next = [", and ", ", ", " and "].iter().find_map(|separator| rest.strip_prefix(separator));
        // The word `Behaviour` may be repeated, as in `Behaviour T5, Behaviour B19: a sentence.`
        next = next.map(|next| match next.strip_prefix(CITATION_WORD) {
            Some(list) => without_plural(list).trim_start(),
            None => next,
        });
    }
    (ids, rest)
}

fn without_plural(list: &str) -> &str {
    list.strip_prefix('s').unwrap_or(list)
}

/// Returns `true` if `after_ids`, the text that follows the ids, starts with a colon and a
/// sentence.
fn starts_with_sentence(after_ids: &str) -> bool {
    let Some(text) = after_ids.strip_prefix(": ").map(str::trim) else { return false };
    let is_sentence = text.ends_with('.') || text.contains(". ");
    is_sentence && text.contains(char::is_alphabetic) && !text.starts_with(CITATION_WORD)
}

/// Splits `text` into an id at its start (a capital letter and a number) and the rest. Returns
/// `None` if it does not start with an id.
pub(super) fn leading_id(text: &str) -> Option<(&str, &str)> {
    let digits = text.strip_prefix(|char: char| char.is_ascii_uppercase())?;
    let rest = digits.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_id = rest.len() < digits.len() && !rest.starts_with(|char: char| char.is_alphanumeric());
    is_id.then(|| text.split_at(text.len() - rest.len()))
}
