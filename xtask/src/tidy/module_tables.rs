//! Rule: the tables in ARCHITECTURE.md list each top-level module of a crate, and each file that
//! they list exists.

use std::collections::BTreeSet;

use super::{Finding, SourceTree};
use crate::workspace::Package;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The names (without extension) of files that the tables do not list, because they are the roots
/// of the crate and of its tests.
const ROOT_MODULES: &[&str] = &["lib", "main", "tests"];

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let crates = packages.iter().map(Package::folder).filter(|folder| folder.starts_with("crates/"));
    crates.flat_map(|folder| check_crate(&folder, tree)).collect()
}

fn check_crate(folder: &str, tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for (line, row) in table_rows(folder, tree.text(ARCHITECTURE).unwrap_or_default()) {
        for candidates in file_candidates(row) {
            let found = candidates.iter().find(|name| exists(folder, name, tree));
            let Some(name) = found.or(candidates.first()) else { continue };
            listed.extend(name.split(['/', '.']).next().map(str::to_owned));
            if found.is_none() {
                let message =
                    format!("the table of `{folder}` lists `{name}`, which is not in `{folder}/src`");
                findings.push(Finding::new(ARCHITECTURE, line, message));
            }
        }
    }
    let sources = format!("{folder}/src/");
    for (path, _) in tree.files_matching(&sources, ".rs") {
        let module = path.strip_prefix(&sources).and_then(|file| file.strip_suffix(".rs")).unwrap_or(path);
        if !module.contains('/') && !ROOT_MODULES.contains(&module) && !listed.contains(module) {
            let message = format!("the table of `{folder}` in {ARCHITECTURE} does not list `{module}.rs`");
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

/// Returns the table rows in the section of the crate in `folder`. Each entry contains the line
/// number and the first cell of a row.
fn table_rows<'a>(folder: &str, page: &'a str) -> Vec<(usize, &'a str)> {
    let heading = format!("### `{folder}`");
    let section = page.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let rows = section
        .take_while(|(_, line)| !line.starts_with('#'))
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix('|')?.split('|').next()?)));
    rows.collect()
}

/// Returns the possible paths (relative to `src`) of each file or module in a table cell. A name
/// without a folder may be in the folder of the preceding name: in a cell with `run/request.rs` and
/// `reply.rs`, the second file may be `run/reply.rs`.
fn file_candidates(cell: &str) -> Vec<Vec<String>> {
    let mut folder = "";
    let spans = cell.split('`').skip(1).step_by(2);
    spans
        .map(|name| match name.rfind('/') {
            Some(slash) => {
                folder = name.get(..=slash).unwrap_or_default();
                vec![name.to_owned()]
            }
            None if folder.is_empty() => vec![name.to_owned()],
            None => vec![format!("{folder}{name}"), name.to_owned()],
        })
        .collect()
}

fn exists(folder: &str, name: &str, tree: &SourceTree) -> bool {
    let path = format!("{folder}/src/{}", name.trim_end_matches('/'));
    tree.contains(&path) || tree.contains(&format!("{path}.rs"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;
    use super::file_candidates;

    #[test]
    fn table_lists_every_module_and_no_other() {
        let page = "### `crates/a`\n\n| file | contains |\n|---|---|\n| `run.rs`, `run/` | the run |\n\
                    | `run/one.rs`, `two.rs` | both |\n| `limits` | `not_a_file.rs` |\n| `gone.rs` | it |\n\n\
                    ### `crates/b`\n\nNo table.\n";
        let tree = [
            ("ARCHITECTURE.md", page),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/run.rs", ""),
            ("crates/a/src/run/one.rs", ""),
            ("crates/a/src/run/two.rs", ""),
            ("crates/a/src/limits.rs", ""),
            ("crates/a/src/other.rs", ""),
            ("crates/b/src/main.rs", ""),
            ("crates/b/src/call.rs", ""),
        ];
        let packages = [tests::package("haft-a", "crates/a"), tests::package("haft-b", "crates/b")];
        tests::check(
            super::check,
            &packages,
            tree,
            &expect![[r#"
            ARCHITECTURE.md:8: the table of `crates/a` lists `gone.rs`, which is not in `crates/a/src`
            crates/a/src/other.rs:1: the table of `crates/a` in ARCHITECTURE.md does not list `other.rs`
            crates/b/src/call.rs:1: the table of `crates/b` in ARCHITECTURE.md does not list `call.rs`
        "#]],
        );
    }

    #[test]
    fn bare_name_may_be_in_the_folder_before_it() {
        let candidates: Vec<_> =
            file_candidates(" `a.rs`, `run/b.rs`, `c.rs` ").into_iter().flatten().collect();
        assert_eq!(candidates, ["a.rs", "run/b.rs", "run/c.rs", "c.rs"]);
    }
}
