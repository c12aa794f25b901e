//! Rule: each promise in `docs/behaviour.md` lists exactly the tests that cite it.
//!
//! A test cites a promise in its documentation: `/// Behaviour B12: a plain sentence.` If the
//! documentation of a file (`//!`) cites a promise, the path of the file is listed. A citation
//! without a sentence is a finding.

mod citation;
mod document;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, SourceTree};
use crate::workspace::Package;
use citation::{Citation, citations};
use document::{Entry, entries};

pub(super) const DOCUMENT: &str = "docs/behaviour.md";

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let entries = entries(tree.text(DOCUMENT).unwrap_or_default());
    let (citations, mut findings) = citations_of(tree);
    findings.extend(check_duplicates(&entries));
    findings.extend(entries.iter().flat_map(|entry| check_entry(entry, &citations, tree)));
    findings.extend(citations.iter().filter_map(|citation| check_citation(citation, &entries)));
    findings
}

/// Returns the text of `docs/behaviour.md` with an updated list below each promise: the tests that
/// cite the promise. Returns `None` if the document does not exist.
pub(super) fn updated_document(tree: &SourceTree) -> Option<String> {
    let (citations, _) = citations_of(tree);
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for citation in citations {
        tests.entry(citation.id).or_default().insert(citation.test);
    }
    Some(document::replace_tests(tree.text(DOCUMENT)?, &tests))
}

fn citations_of(tree: &SourceTree) -> (Vec<Citation>, Vec<Finding>) {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for (path, text) in tree.files_matching("", ".rs") {
        for citation in citations(path, text) {
            match citation {
                Ok(citation) => all.push(citation),
                Err(finding) => findings.push(finding),
            }
        }
    }
    (all, findings)
}

fn check_duplicates(entries: &[Entry]) -> Vec<Finding> {
    let mut ids = BTreeSet::new();
    let repeated = entries.iter().filter(|entry| !ids.insert(&entry.id));
    repeated
        .map(|entry| Finding::new(DOCUMENT, entry.line, format!("{} is in the document twice", entry.id)))
        .collect()
}

fn check_entry(entry: &Entry, citations: &[Citation], tree: &SourceTree) -> Vec<Finding> {
    let Entry { id, line, is_planned, tests, .. } = entry;
    if *is_planned {
        let message = || format!("{id} is planned and lists tests: move it to the section of its subject");
        return tests.first().map(|_| Finding::new(DOCUMENT, *line, message())).into_iter().collect();
    }
    if tests.is_empty() {
        let message = format!(
            "{id} has no test: cite it in one (`/// Behaviour {id}: a sentence.`), or move it to \"Planned\""
        );
        return vec![Finding::new(DOCUMENT, *line, message)];
    }
    let broken = tests.iter().filter_map(|(line, test)| {
        let problem = find_problem(id, test, citations, tree)?;
        Some(Finding::new(DOCUMENT, *line, format!("{id} lists `{test}`: {problem}")))
    });
    broken.collect()
}

fn find_problem(id: &str, test: &str, citations: &[Citation], tree: &SourceTree) -> Option<String> {
    if citations.iter().any(|citation| citation.id == id && citation.test == test) {
        return None;
    }
    let (path, name) = test.split_once("::").map_or((test, None), |(path, name)| (path, Some(name)));
    let Some(text) = tree.text(path) else { return Some("there is no such file".to_owned()) };
    let is_there = name.is_none_or(|name| text.contains(&format!("fn {name}(")));
    Some(match (is_there, name) {
        (false, Some(name)) => format!("no function `{name}` is in this file"),
        (_, Some(_)) => format!("its documentation does not cite `Behaviour {id}`"),
        (_, None) => format!("the documentation of the file does not cite `Behaviour {id}`"),
    })
}

fn check_citation(citation: &Citation, entries: &[Entry]) -> Option<Finding> {
    let Citation { id, test, path, line } = citation;
    let finding = |message: String| Some(Finding::new(path, *line, message));
    let Some(entry) = entries.iter().find(|entry| entry.id == *id) else {
        return finding(format!("`{test}` cites {id}, which is not in {DOCUMENT}"));
    };
    if entry.is_planned {
        return finding(format!("`{test}` cites {id}, which {DOCUMENT} lists as planned: move the entry"));
    }
    if entry.tests.iter().all(|(_, listed)| listed != test) {
        return finding(format!(
            "`{test}` cites {id}, and {DOCUMENT} does not list it there: run `cargo xtask tidy --fix`"
        ));
    }
    None
}
