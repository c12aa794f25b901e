//! Rules for Rust files. They check names, lengths and included files, reject ignored tests, and
//! reject I/O in `haft-core`.

use super::links::resolve;
use super::{Finding, SourceTree};

/// Names that files and folders must not have, because the names do not describe the subject of the
/// code.
const VAGUE_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "manager", "managers"];

/// The maximum number of lines of a file. Tests are not counted. A longer file usually has two
/// subjects.
const MAX_FILE_LINES: usize = 600;

/// The maximum number of lines of a function. A longer function does not fit on a screen.
const MAX_FUNCTION_LINES: usize = 80;

/// The modules of `std` and `tokio` that access sockets, files or processes. `haft-core` must not
/// use them.
const IO_MODULES: &[&str] =
    &["std::fs", "std::net", "std::process", "tokio::fs", "tokio::net", "tokio::process"];

pub(super) fn check(_packages: &[crate::workspace::Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_matching("", ".rs") {
        findings.extend(vague_file_name(path));
        findings.extend(long_file(path, text));
        findings.extend(long_functions(path, text));
        findings.extend(ignored_tests(path, text));
        findings.extend(unpackaged_includes(path, text));
        if path.starts_with("crates/core/src/") && !is_test_file(path) {
            findings.extend(io_in_core(path, text));
        }
    }
    findings
}

fn vague_file_name(path: &str) -> Option<Finding> {
    let word = path.trim_end_matches(".rs").split('/').find(|word| VAGUE_NAMES.contains(word))?;
    Some(Finding::new(path, 1, format!("`{word}` names no subject: name the file for its one subject")))
}

fn long_file(path: &str, text: &str) -> Option<Finding> {
    if is_test_file(path) {
        return None;
    }
    let lines = without_tests(text).count();
    (lines > MAX_FILE_LINES).then(|| {
        Finding::new(
            path,
            MAX_FILE_LINES,
            format!(
                "{lines} lines; the limit is {MAX_FILE_LINES}: make it a folder with one file per subject"
            ),
        )
    })
}

/// Returns a finding for each function with more than [`MAX_FUNCTION_LINES`] lines. The end of a
/// function is recognized by its indentation, because the source is formatted by rustfmt.
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
            let message =
                format!("a function of {length} lines; the limit is {MAX_FUNCTION_LINES}: extract its steps");
            (length > MAX_FUNCTION_LINES).then(|| Finding::new(path, start + 1, message))
        })
        .collect()
}

fn begins_function(line: &str) -> bool {
    let is_qualifier = |word: &&str| ["pub", "const", "async"].contains(word) || word.starts_with("pub(");
    line.split_whitespace().find(|word| !is_qualifier(word)) == Some("fn") && !line.ends_with(['}', ';'])
}

/// Returns `true` if `line` ends a function whose first line has this `indentation`. The line is
/// the closing brace of the body, or the end of a signature without a body.
fn ends_function(line: &str, indentation: usize) -> bool {
    let text = line.trim_start();
    line.len() - text.len() == indentation && (text == "}" || text.starts_with(')') && text.ends_with(';'))
}

fn ignored_tests(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#[ignore") {
            findings.push(Finding::new(path, index + 1, "an ignored test does not run: fix it or delete it"));
        }
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        if comment
            .and_then(fence_words)
            .is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore"))
        {
            findings.push(Finding::new(
                path,
                index + 1,
                "an ignored doctest is not compiled: remove `ignore`, or use `no_run`",
            ));
        }
    }
    findings
}

/// Returns a finding for each `include!` of a file outside the folder of the crate. The file would
/// be missing in the published package.
fn unpackaged_includes(path: &str, text: &str) -> Vec<Finding> {
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
                format!("`{target}` is not packaged with this crate: include a file below `{folder}`");
            Finding::new(path, index + 1, message)
        })
        .collect()
}

/// Returns the path in the first `include_str!`, `include_bytes!` or `include!` of `line`. Returns
/// `None` if there is no such macro.
fn included_file(line: &str) -> Option<&str> {
    let (_, call) = ["include_str!(\"", "include_bytes!(\"", "include!(\""]
        .iter()
        .find_map(|name| line.split_once(name))?;
    call.split('"').next()
}

fn io_in_core(path: &str, text: &str) -> Vec<Finding> {
    let code = without_tests(text).enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(index, line)| {
        let module = IO_MODULES.iter().find(|module| line.contains(**module))?;
        let message =
            format!("haft-core opens no socket, file or process: `{module}` belongs in another crate");
        Some(Finding::new(path, index + 1, message))
    })
    .collect()
}

/// Returns the info string if `comment` starts a code block, or `None` if it does not.
fn fence_words(comment: &str) -> Option<&str> {
    comment.strip_prefix("```")
}

/// Returns `true` if `path` is the path of a file that contains only tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.starts_with("tests/") || path.contains("/tests/")
}

/// Returns the lines of `text` before its module `tests`.
pub(super) fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with("mod tests {"))
}
