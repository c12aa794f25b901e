//! `cargo xtask tidy`: what the compiler does not check.
//!
//! A rule is a function from the packages and the files to its findings, so that its tests need no disk.

mod arrows;
mod book;
mod layers;
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
use tree::Tree;

/// One thing that is wrong, where it is, and what would be right.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

type Rule = fn(&[Package], &Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    arrows::check,
    layers::check,
    manifests::check,
    sources::check,
    links::check,
    samples::check,
    book::check,
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`tidy` takes no arguments"));
    }
    let workspace = Workspace::load()?;
    let tree = Tree::read(workspace::root())
        .map_err(|error| Failure::message(format!("cannot read the files of the workspace: {error}")))?;
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| rule(&workspace.packages, &tree)).collect();
    findings.sort();
    if findings.is_empty() {
        announce("tidy: nothing to say");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    Err(Failure::message(format!("tidy: {} to mend", findings.len())))
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// Points at the line of a package's manifest that holds `text`, or at the first one.
    fn in_manifest(package: &Package, tree: &Tree, text: &str, message: impl Into<String>) -> Self {
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
