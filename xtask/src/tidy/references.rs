//! Rule: the files, decisions and documents that comments and Markdown pages mention exist in the
//! repository.

#[cfg(test)]
mod tests;

use super::comments::{CommentLine, prose_lines};
use super::{Finding, SourceTree};
use crate::workspace::Package;

/// The extensions of the files to check.
const EXTENSIONS: &[&str] = &[".rs", ".toml", ".yml", ".md"];

/// The extensions by which a word is recognized as the name of a file in the repository.
const FILE_EXTENSIONS: &[&str] = &[".rs", ".md"];

/// Placeholders for arbitrary names, as in `foo.rs`. File names with these words are not checked.
const PLACEHOLDER_WORDS: &[&str] = &["foo", "path", "PATH", "NAME"];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in EXTENSIONS.iter().flat_map(|extension| tree.files_matching("", extension)) {
        for line in prose_lines(path, text) {
            let messages = missing_files(&line, tree).into_iter();
            let messages =
                messages.chain(missing_decisions(&line, tree)).chain(missing_documents(&line, tree));
            findings.extend(messages.map(|message| Finding::new(path, line.number, message)));
        }
    }
    findings
}

/// Returns a message for each file name in `line` that matches no file in `tree`. A file name is a
/// path from the root of the repository, or the end of a path, such as `tidy/links.rs`.
fn missing_files(line: &CommentLine<'_>, tree: &SourceTree) -> Vec<String> {
    let words = line.text.split(|char: char| !char.is_alphanumeric() && !"_-./:".contains(char));
    let names = words.map(|word| word.split("::").next().unwrap_or(word).trim_end_matches(['.', ':']));
    names
        .filter(|name| {
            FILE_EXTENSIONS
                .iter()
                .any(|ending| name.strip_suffix(ending).is_some_and(|stem| !stem.is_empty()))
        })
        .filter(|name| !name.contains(':') && !name.starts_with('.') && !name.starts_with('/'))
        .filter(|name| !name.split(['/', '.']).any(|part| PLACEHOLDER_WORDS.contains(&part)))
        .filter(|name| !exists(name, tree))
        .map(|name| format!("`{name}` is not in the repository"))
        .collect()
}

/// Returns `true` if `tree` contains a file whose path is `name` or ends with `/` and `name`. A
/// Markdown page in an unknown folder is accepted too, because it belongs to another repository.
fn exists(name: &str, tree: &SourceTree) -> bool {
    let end = format!("/{name}");
    let folder = name.split_once('/').map(|(folder, _)| folder);
    let is_foreign = name.ends_with(".md") && folder.is_some_and(|folder| !tree.contains(folder));
    is_foreign || tree.contains(name) || tree.files_matching("", name).any(|(file, _)| file.ends_with(&end))
}

/// Returns a message for each reference in `line`, such as `ADR 0004`, to a decision that has no
/// file in `docs/adr`.
fn missing_decisions(line: &CommentLine<'_>, tree: &SourceTree) -> Vec<String> {
    let numbers = line.text.split("ADR ").skip(1).filter_map(|rest| rest.get(..4));
    numbers
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|number| tree.files_matching(&format!("docs/adr/{number}-"), ".md").next().is_none())
        .map(|number| format!("ADR {number} is not in docs/adr"))
        .collect()
}

/// Returns a message for each citation in `line` of a document that is not in the repository. A
/// citation is a name in capital letters, followed by a code such as `B12` or `§3`.
fn missing_documents(line: &CommentLine<'_>, tree: &SourceTree) -> Vec<String> {
    let words: Vec<_> = line.text.split_whitespace().collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    pairs
        .filter(|(name, code)| is_document(name) && is_clause_number(code))
        .filter(|(name, _)| !tree.contains(&format!("{name}.md")))
        .map(|(name, code)| format!("`{name} {code}` cites a document that is not in the repository"))
        .collect()
}

fn is_document(word: &str) -> bool {
    word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_clause_number(word: &str) -> bool {
    let word = word.trim_end_matches(|char: char| char.is_ascii_punctuation());
    let digits = word.strip_prefix('§').or_else(|| word.strip_prefix(|char: char| char.is_ascii_uppercase()));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
