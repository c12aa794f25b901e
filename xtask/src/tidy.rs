//! The command `cargo xtask tidy`: checks rules that the compiler does not check.
//!
//! A rule is a function that takes the packages and the files of the repository, and returns
//! findings. Unit tests pass the contents of files directly to a rule, so they need no files on
//! disk.

mod arrows;
mod book;
mod comment_width;
mod comments;
mod crate_root;
mod exceptions;
mod function_index;
mod known_pains;
mod layers;
mod layout;
mod links;
mod manifests;
mod markdown;
mod module_tables;
mod references;
mod samples;
mod sources;
mod summaries;
#[cfg(test)]
mod tests;
mod tree;
mod type_names;
mod words;

use std::{fmt, fs};

use crate::failure::Failure;
use crate::process::announce;
use crate::workspace::{self, Package, Workspace};
use exceptions::Exception;
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

/// All rules, with their names in `exceptions.txt`.
const RULES: &[(&str, Rule)] = &[
    ("arrows", arrows::check),
    ("book", book::check),
    ("comment_width", comment_width::check),
    ("crate_root", crate_root::check),
    ("function_index", function_index::check),
    ("known_pains", known_pains::check),
    ("layers", layers::check),
    ("layout", layout::check),
    ("links", links::check),
    ("manifests", manifests::check),
    ("module_tables", module_tables::check),
    ("references", references::check),
    ("samples", samples::check),
    ("sources", sources::check),
    ("summaries", summaries::check),
    ("type_names", type_names::check),
    ("words", words::check),
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_fix = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--fix"] => true,
        _ => return Err(Failure::usage("`tidy` takes `--fix` or nothing")),
    };
    let workspace = Workspace::load()?;
    let tree = read_tree()?;
    let (mut findings, unused) = run_rules(&workspace.packages, &tree);
    if is_fix {
        write(exceptions::EXCEPTIONS_FILE, &exceptions::remove_exceptions(exceptions_of(&tree), &unused))?;
    } else {
        findings.extend(unused.iter().map(Exception::unused_finding));
    }
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

/// Runs all rules. Returns the findings that are not hidden by `exceptions.txt`, and the unused
/// exceptions in this file.
fn run_rules<'a>(packages: &[Package], tree: &'a SourceTree) -> (Vec<Finding>, Vec<Exception<'a>>) {
    let mut findings = Vec::new();
    let mut unused = exceptions::parse(exceptions_of(tree));
    let exceptions = unused.clone();
    for (name, rule) in RULES {
        for finding in rule(packages, tree) {
            unused.retain(|exception| !exception.hides(name, &finding));
            if !exceptions.iter().any(|exception| exception.hides(name, &finding)) {
                findings.push(finding);
            }
        }
    }
    (findings, unused)
}

fn exceptions_of(tree: &SourceTree) -> &str {
    tree.text(exceptions::EXCEPTIONS_FILE).unwrap_or_default()
}

fn read_tree() -> Result<SourceTree, Failure> {
    SourceTree::read(workspace::root())
        .map_err(|error| Failure::message(format!("cannot read the files of the workspace: {error}")))
}

fn write(path: &str, text: &str) -> Result<(), Failure> {
    fs::write(workspace::root().join(path), text)
        .map_err(|error| Failure::message(format!("cannot write {path}: {error}")))
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
