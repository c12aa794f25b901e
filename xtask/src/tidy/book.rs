//! Rule: each chapter is in the summary of the book, each decision has a unique number and is in
//! the list of decisions, and each crate is in the README and in ARCHITECTURE.md.

use super::links::resolve;
use super::{Finding, SourceTree, markdown};
use crate::workspace::Package;

const SUMMARY: &str = "docs/src/SUMMARY.md";
const DECISIONS: &str = "docs/adr/README.md";
const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The first words of the two paragraphs that the section of each crate in ARCHITECTURE.md must
/// contain.
const REQUIRED_PARAGRAPHS: &[&str] = &["**Invariant", "**API boundary"];

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = check_index(tree, SUMMARY, "docs/src/");
    findings.extend(check_index(tree, DECISIONS, "docs/adr/"));
    findings.extend(check_decision_numbers(tree));
    let crates = packages.iter().filter(|package| package.folder().starts_with("crates/"));
    for package in crates {
        findings.extend(check_readme(package, tree));
        findings.extend(check_architecture(package, tree));
    }
    findings
}

/// Returns a finding for each page in `folder` that the index page `list` does not link to.
fn check_index(tree: &SourceTree, list: &str, folder: &str) -> Vec<Finding> {
    let links = markdown::links(tree.text(list).unwrap_or_default());
    let listed: Vec<_> = links.iter().filter_map(|link| resolve(list, &link.target)).collect();
    tree.files_matching(folder, ".md")
        .filter(|(path, _)| *path != list && !listed.iter().any(|known| known == path))
        .map(|(path, _)| Finding::new(path, 1, format!("no link leads to this page: add it to `{list}`")))
        .collect()
}

/// Returns a finding for each decision whose file name does not start with a four-digit number, or
/// starts with the number of another decision.
fn check_decision_numbers(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut last = None;
    for (path, _) in tree.files_matching("docs/adr/", ".md").filter(|(path, _)| *path != DECISIONS) {
        let number = path.trim_start_matches("docs/adr/").split('-').next();
        if number.is_none_or(|number| number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()))
        {
            findings.push(Finding::new(
                path,
                1,
                "the name of a decision is four digits and its subject: `0001-subject.md`",
            ));
        } else if number == last {
            findings.push(Finding::new(path, 1, "another decision has this number: use the next one"));
        }
        last = number;
    }
    findings
}

/// Returns a finding if the README does not link to the folder of `package`.
fn check_readme(package: &Package, tree: &SourceTree) -> Option<Finding> {
    let folder = package.folder();
    let page = tree.text(README).unwrap_or_default();
    let is_linked = markdown::links(page).iter().any(|link| link.target.trim_end_matches('/') == folder);
    (!is_linked)
        .then(|| Finding::new(README, 1, format!("no link leads to `{folder}`: add it to the crates")))
}

/// Returns a finding if ARCHITECTURE.md has no section for `package`, or if a paragraph in
/// [`REQUIRED_PARAGRAPHS`] is missing in this section. The heading of a section is the folder of
/// its crate, such as `crates/core`.
fn check_architecture(package: &Package, tree: &SourceTree) -> Option<Finding> {
    let heading = format!("### `{}`", package.folder());
    let page = tree.text(ARCHITECTURE).unwrap_or_default();
    let Some((line, _)) = page.lines().enumerate().find(|(_, line)| *line == heading) else {
        let message = format!("{} is missing: add a section \"{heading}\"", package.name);
        return Some(Finding::new(ARCHITECTURE, 1, message));
    };
    let section: Vec<_> = page.lines().skip(line + 1).take_while(|line| !line.starts_with('#')).collect();
    let missing =
        REQUIRED_PARAGRAPHS.iter().find(|promise| !section.iter().any(|line| line.starts_with(**promise)))?;
    let message = format!("the section of {} has no paragraph {missing}:**", package.name);
    Some(Finding::new(ARCHITECTURE, line + 1, message))
}
