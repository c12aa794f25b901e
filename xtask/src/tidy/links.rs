//! Links between pages lead somewhere.

use super::{Finding, Tree, markdown};
use crate::workspace::Package;

pub(super) fn check(_packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, page) in tree.files("", ".md") {
        for link in markdown::links(page) {
            let Some(target) = resolve(path, &link.target) else { continue };
            if !tree.contains(&target) {
                let message = format!("the link `{}` leads to `{target}`, which is not there", link.target);
                findings.push(Finding::new(path, link.line, message));
            }
        }
    }
    findings
}

/// The path from the root that a link means, unless it leads out of the repository, into the same page, or
/// to an item of the reference.
pub(super) fn resolve(page: &str, target: &str) -> Option<String> {
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
