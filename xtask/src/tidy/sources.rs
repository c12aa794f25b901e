//! Rules for Rust files: the length of a file, ignored tests, and included files.

use super::links::resolve;
use super::{Finding, SourceTree};
use crate::workspace::Package;

/// The maximum number of lines of a file. Tests are not counted. A longer file usually has two
/// subjects.
const MAX_FILE_LINES: usize = 600;

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files_matching("", ".rs") {
        findings.extend(long_file(path, text));
        findings.extend(ignored_tests(path, text));
        findings.extend(unpackaged_includes(path, text));
    }
    findings
}

fn long_file(path: &str, text: &str) -> Option<Finding> {
    let is_test_file = path.ends_with("/tests.rs") || path.starts_with("tests/") || path.contains("/tests/");
    let lines = text.lines().take_while(|line| !line.starts_with("mod tests {")).count();
    (!is_test_file && lines > MAX_FILE_LINES).then(|| {
        let message = format!(
            "{lines} lines; the limit is {MAX_FILE_LINES}: make it a folder with one file per subject"
        );
        Finding::new(path, MAX_FILE_LINES, message)
    })
}

fn ignored_tests(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#[ignore") {
            findings.push(Finding::new(path, index + 1, "an ignored test does not run: fix it or delete it"));
        }
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let fence = comment.and_then(|comment| comment.trim_start().strip_prefix("```"));
        if fence.is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore")) {
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
/// be missing in the published package, and `cargo package --no-verify` does not notice it.
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
