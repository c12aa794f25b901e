//! How Rust files are named, how long they are, what they reach for, and that none of their tests sleeps.

use super::links::resolve;
use super::{Finding, Tree};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "manager", "managers"];

/// Lines without tests. A longer file has two subjects.
const MAX_LINES: usize = 600;

/// A longer function does not fit on a screen.
const MAX_FUNCTION_LINES: usize = 80;

/// What would let the core open a socket, a file or a process.
const OUTSIDE_WORLD: &[&str] =
    &["std::fs", "std::net", "std::process", "tokio::fs", "tokio::net", "tokio::process"];

pub(super) fn check(_packages: &[crate::workspace::Package], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files("", ".rs") {
        findings.extend(empty_name(path));
        findings.extend(too_long(path, text));
        findings.extend(long_functions(path, text));
        findings.extend(sleeping_tests(path, text));
        findings.extend(unpackaged(path, text));
        if path.starts_with("crates/core/src/") && !is_test_file(path) {
            findings.extend(core_reaches_out(path, text));
        }
    }
    findings
}

fn empty_name(path: &str) -> Option<Finding> {
    let word = path.trim_end_matches(".rs").split('/').find(|word| EMPTY_NAMES.contains(word))?;
    Some(Finding::new(
        path,
        1,
        format!("`{word}` says nothing about what is inside; name the file for its one subject"),
    ))
}

fn too_long(path: &str, text: &str) -> Option<Finding> {
    if is_test_file(path) {
        return None;
    }
    let lines = without_tests(text).count();
    (lines > MAX_LINES).then(|| {
        Finding::new(
            path,
            MAX_LINES,
            format!("{lines} lines; {MAX_LINES} are the most: make it a folder of one subject a file"),
        )
    })
}

/// Functions are found by the indentation that rustfmt gives them.
fn long_functions(path: &str, text: &str) -> Vec<Finding> {
    if is_test_file(path) {
        return Vec::new();
    }
    let lines: Vec<_> = without_tests(text).collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| begins_function(line));
    starts
        .filter_map(|(start, first)| {
            let indentation = first.len() - first.trim_start().len();
            let rest = lines.get(start..)?;
            let length = 1 + rest.iter().position(|line| ends_function(line, indentation))?;
            let message = format!(
                "a function of {length} lines; {MAX_FUNCTION_LINES} are the most: give its steps names"
            );
            (length > MAX_FUNCTION_LINES).then(|| Finding::new(path, start + 1, message))
        })
        .collect()
}

fn begins_function(line: &str) -> bool {
    let is_qualifier = |word: &&str| ["pub", "const", "async"].contains(word) || word.starts_with("pub(");
    line.split_whitespace().find(|word| !is_qualifier(word)) == Some("fn") && !line.ends_with(['}', ';'])
}

/// The closing brace of a body, or the end of a signature without one.
fn ends_function(line: &str, indentation: usize) -> bool {
    let text = line.trim_start();
    line.len() - text.len() == indentation && (text == "}" || text.starts_with(')') && text.ends_with(';'))
}

fn sleeping_tests(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#[ignore") {
            findings.push(Finding::new(
                path,
                index + 1,
                "an ignored test tests nothing; mend it or delete it",
            ));
        }
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        if comment
            .and_then(fence_words)
            .is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore"))
        {
            findings.push(Finding::new(
                path,
                index + 1,
                "an ignored doctest tests nothing; let it run, or compile it with `no_run`",
            ));
        }
    }
    findings
}

/// A file that a crate includes from outside its folder is there in the repository, and not in the registry.
fn unpackaged(path: &str, text: &str) -> Vec<Finding> {
    let Some((folder, _)) = path.strip_prefix("crates/").and_then(|inside| inside.split_once('/')) else {
        return Vec::new();
    };
    let folder = format!("crates/{folder}/");
    let included = text.lines().enumerate().filter_map(|(index, line)| Some((index, included_file(line)?)));
    included
        .filter_map(|(index, file)| Some((index, resolve(path, file)?)))
        .filter(|(_, target)| !target.starts_with(&folder))
        .map(|(index, target)| {
            let message =
                format!("`{target}` is not packaged with this crate; include a file below `{folder}`");
            Finding::new(path, index + 1, message)
        })
        .collect()
}

/// The name that `include_str!` and its like are given.
fn included_file(line: &str) -> Option<&str> {
    let (_, call) = ["include_str!(\"", "include_bytes!(\"", "include!(\""]
        .iter()
        .find_map(|name| line.split_once(name))?;
    call.split('"').next()
}

fn core_reaches_out(path: &str, text: &str) -> Vec<Finding> {
    let code = without_tests(text).enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(index, line)| {
        let what = OUTSIDE_WORLD.iter().find(|what| line.contains(**what))?;
        let message =
            format!("haft-core opens no socket, file or process: `{what}` belongs in another crate");
        Some(Finding::new(path, index + 1, message))
    })
    .collect()
}

/// What follows the three backticks that open a code block.
fn fence_words(comment: &str) -> Option<&str> {
    comment.strip_prefix("```")
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.starts_with("tests/") || path.contains("/tests/")
}

/// The lines before a module of tests in the same file.
fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with("mod tests {"))
}
