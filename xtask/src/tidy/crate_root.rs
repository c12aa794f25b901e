//! Rule: a crate root has at most 30 public names. Further public names belong in public modules.

use super::{Finding, SourceTree};
use crate::workspace::Package;

const MAX_NAMES: usize = 30;

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let crates = packages.iter().filter(|package| package.folder().starts_with("crates/"));
    crates.filter_map(|package| check_root(&format!("{}/src/lib.rs", package.folder()), tree)).collect()
}

fn check_root(path: &str, tree: &SourceTree) -> Option<Finding> {
    let names = count_names(tree.text(path)?);
    let message = match names {
        None => "a glob at the root has any number of names: list them".to_owned(),
        Some(names) if names > MAX_NAMES => {
            format!("{names} names at the root; the limit is {MAX_NAMES}: leave the rest in modules")
        }
        Some(_) => return None,
    };
    Some(Finding::new(path, 1, message))
}

/// Counts the public names in `text`, the content of a `lib.rs`. All public modules and re-exported
/// crates count as one name in total. Returns `None` if the file has a glob re-export.
fn count_names(text: &str) -> Option<usize> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line + "\n");
    let (mut names, mut has_modules) = (0, false);
    for item in code.split("\npub ").skip(usize::from(!code.starts_with("pub "))) {
        let item = item.strip_prefix("pub ").unwrap_or(item);
        match item.strip_prefix("use ").and_then(|rest| rest.split(';').next()) {
            Some(tree) if tree.contains('*') => return None,
            Some(tree) if tree.contains("::") => names += count_leaves(tree),
            Some(_) => has_modules = true,
            None if item.starts_with("mod ") => has_modules = true,
            None => names += 1,
        }
    }
    Some(names + usize::from(has_modules))
}

fn count_leaves(tree: &str) -> usize {
    tree.split(',').filter(|part| part.chars().any(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;
    use super::count_names;

    #[test]
    fn names_are_counted_and_modules_are_one() {
        let root = "//! pub use of::words;\n\nmod a;\npub mod b;\npub mod c;\npub use haft_schema as schema;\n\
                    pub use a::{\n    A,\n    inner::{B, C},\n};\n#[doc(inline)]\npub use a::D;\npub fn e() {\n}\n";
        assert_eq!(count_names(root), Some(6));
        assert_eq!(count_names("pub use a::{A, B};\n"), Some(2));
        assert_eq!(count_names("mod a;\npub use a::*;\n"), None);
    }

    #[test]
    fn crate_root_has_at_most_30_names() {
        let root = |names: usize| {
            let names: Vec<_> = (0..names).map(|number| format!("Name{number}")).collect();
            format!("pub use a::{{{}}};\n", names.join(", "))
        };
        let (full, crowded) = (root(30), root(31));
        let tree = [
            ("crates/a/src/lib.rs", full.as_str()),
            ("crates/b/src/lib.rs", crowded.as_str()),
            ("crates/c/src/lib.rs", "mod a;\npub use a::*;\n"),
            ("tests/src/lib.rs", crowded.as_str()),
        ];
        let packages =
            [("haft-a", "crates/a"), ("haft-b", "crates/b"), ("haft-c", "crates/c"), ("t", "tests")];
        let packages = packages.map(|(name, folder)| tests::package(name, folder));
        tests::check(
            super::check,
            &packages,
            tree,
            &expect![[r#"
            crates/b/src/lib.rs:1: 31 names at the root; the limit is 30: leave the rest in modules
            crates/c/src/lib.rs:1: a glob at the root has any number of names: list them
        "#]],
        );
    }
}
