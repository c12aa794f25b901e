//! Rule: the links in Markdown pages lead to existing files and headings, and the indexes of the
//! book and of the decisions link to each of their pages.

use super::{Finding, SourceTree, markdown};
use crate::workspace::Package;

/// The index pages, each with the folder whose pages it lists. mdBook does not render a chapter
/// that is not in the summary.
const INDEXES: [(&str, &str); 2] =
    [("docs/src/SUMMARY.md", "docs/src/"), ("docs/adr/README.md", "docs/adr/")];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings: Vec<_> =
        INDEXES.iter().flat_map(|(index, folder)| unlisted_pages(tree, index, folder)).collect();
    for (path, page) in tree.files_matching("", ".md") {
        for link in markdown::links(page) {
            let dead =
                dead_file(path, &link.target, tree).or_else(|| dead_anchor(path, page, &link.target, tree));
            if let Some(target) = dead {
                let message = format!("the link `{}` leads to {target}, which does not exist", link.target);
                findings.push(Finding::new(path, link.line, message));
            }
        }
    }
    findings
}

/// Returns a finding for each page in `folder` that the page `index` does not link to.
fn unlisted_pages(tree: &SourceTree, index: &str, folder: &str) -> Vec<Finding> {
    let links = markdown::links(tree.text(index).unwrap_or_default());
    let listed: Vec<_> = links.iter().filter_map(|link| resolve(index, &link.target)).collect();
    tree.files_matching(folder, ".md")
        .filter(|(path, _)| *path != index && !listed.iter().any(|known| known == path))
        .map(|(path, _)| Finding::new(path, 1, format!("no link leads to this page: add it to `{index}`")))
        .collect()
}

fn dead_file(path: &str, target: &str, tree: &SourceTree) -> Option<String> {
    let file = resolve(path, target)?;
    (!tree.contains(&file)).then(|| format!("`{file}`"))
}

fn dead_anchor(path: &str, page: &str, target: &str, tree: &SourceTree) -> Option<String> {
    let (file, anchor) = target.split_once('#')?;
    let page = if file.is_empty() { page } else { tree.text(&resolve(path, file)?)? };
    (!markdown::anchors(page).iter().any(|known| known == anchor)).then(|| format!("the heading `#{anchor}`"))
}

/// Resolves `target`, the target of a link on the page at the path `page`, to a path from the root
/// of the repository. Returns `None` if the target is a URL, a heading on the same page, or a Rust
/// path such as `crate::Tool`.
pub(crate) fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains(':') {
        return None;
    }
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
