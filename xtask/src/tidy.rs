//! The command `cargo xtask tidy`: checks rules that the compiler does not check.
//!
//! A rule is a function that takes the packages and the files of the repository, and returns
//! findings. Unit tests pass the contents of files directly to a rule, so they need no files on
//! disk.

mod arrows;
mod links;
mod manifests;
mod markdown;
mod samples;
mod sources;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;

use crate::failure::Failure;
use crate::process::announce;
use crate::workspace::{self, Package, Workspace};
pub(crate) use links::resolve;
use tree::SourceTree;

/// A violation of a rule: the file and line, and a message that describes the problem and the
/// remedy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

type Rule = fn(&[Package], &SourceTree) -> Vec<Finding>;

const RULES: &[Rule] = &[arrows::check, links::check, manifests::check, samples::check, sources::check];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`tidy` takes no arguments"));
    }
    let workspace = Workspace::load()?;
    let tree = SourceTree::read(workspace::root())
        .map_err(|error| Failure::message(format!("cannot read the files of the workspace: {error}")))?;
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| rule(&workspace.packages, &tree)).collect();
    findings.sort();
    if findings.is_empty() {
        announce("tidy: no findings");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    Err(Failure::message(format!("tidy: {} findings", findings.len())))
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// Creates a finding in the manifest of `package`, at the first line that starts with `text`.
    /// If there is no such line, the finding is at line 1.
    fn in_manifest(package: &Package, tree: &SourceTree, text: &str, message: impl Into<String>) -> Self {
        let path = format!("{}/Cargo.toml", package.folder());
        let lines = tree.text(&path).unwrap_or_default().lines();
        let line =
            lines.enumerate().find(|(_, line)| line.starts_with(text)).map_or(1, |(index, _)| index + 1);
        Self { path, line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
