//! Rule: each manifest has few features, inherits the lints and the Rust version of the workspace,
//! and contains the metadata for publication.

use super::{Finding, SourceTree};
use crate::workspace::Package;

/// The maximum number of features of a crate. The feature `default` is not counted.
const MAX_FEATURES: usize = 4;

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut complain = |at: &str, message: String| {
            findings.push(Finding::in_manifest(package, tree, at, message));
        };
        let own_features = package.features.keys().filter(|name| *name != "default").count();
        if own_features > MAX_FEATURES {
            complain("[features]", format!("{own_features} features; the limit is {MAX_FEATURES}"));
        }
        // Examples need not inherit the lints, because the lints warn about printing, and examples
        // should be short.
        if !package.folder().starts_with("examples/") && !inherits_lints(package, tree) {
            complain(
                "[lints]",
                "the lints of the workspace are off: add `[lints]` with `workspace = true`".into(),
            );
        }
        if package.rust_version != packages.first().and_then(|first| first.rust_version.clone()) {
            complain(
                "rust-version",
                "the workspace has one Rust version: `rust-version.workspace = true`".into(),
            );
        }
        if package.is_published() {
            for (key, metadata) in missing_metadata(package, tree) {
                complain(
                    "[package]",
                    format!("{} is published without {metadata}: add `{key}`", package.name),
                );
            }
        }
    }
    findings
}

fn inherits_lints(package: &Package, tree: &SourceTree) -> bool {
    let manifest = tree.text(&format!("{}/Cargo.toml", package.folder())).unwrap_or_default();
    manifest.lines().skip_while(|line| *line != "[lints]").nth(1) == Some("workspace = true")
}

/// Returns the metadata that the published package `package` lacks. Each entry contains the
/// manifest line to add and the name of the metadata.
fn missing_metadata(package: &Package, tree: &SourceTree) -> Vec<(&'static str, &'static str)> {
    let readme = package.readme.as_ref().map(|name| format!("{}/{}", package.folder(), name.display()));
    let has_readme = readme.and_then(|path| tree.text(&path)).is_some_and(|text| !text.trim().is_empty());
    let is_described = package.description.as_ref().is_some_and(|text| !text.trim().is_empty());
    [
        (is_described, "description = \"…\"", "a description"),
        (package.license.is_some(), "license.workspace = true", "a licence"),
        (has_readme, "readme = \"README.md\"", "a README with text"),
    ]
    .into_iter()
    .filter(|(is_there, ..)| !is_there)
    .map(|(_, key, metadata)| (key, metadata))
    .collect()
}
