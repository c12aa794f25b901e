//! Rule: the crate in the folder `crates/NAME` is the package `haft-NAME`, and `arrows.rs` lists
//! its dependencies.

use super::{Finding, SourceTree, arrows};
use crate::workspace::Package;

/// The name of the folder in `crates/` that contains the program `haft`.
const COMMAND_LINE: &str = "cli";

pub(super) fn check(packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let complaint =
            check_facade(package).or_else(|| check_name(package)).or_else(|| check_dependency_rule(package));
        if let Some(message) = complaint {
            findings.push(Finding::in_manifest(package, tree, "name", message));
        }
    }
    findings
}

fn check_facade(package: &Package) -> Option<String> {
    (package.name == "haft")
        .then(|| "there is no facade crate: programs depend on the crates they use".to_owned())
}

fn check_name(package: &Package) -> Option<String> {
    let folder = package.folder();
    let name = folder.strip_prefix("crates/")?;
    if package.name != format!("haft-{name}") {
        return Some(format!("the package in `{folder}` is called `haft-{name}`, not `{}`", package.name));
    }
    let lacks_program = name == COMMAND_LINE && !package.programs().any(|program| program == "haft");
    lacks_program.then(|| format!("the program of {} is called `haft`", package.name))
}

fn check_dependency_rule(package: &Package) -> Option<String> {
    let is_unknown = package.folder().starts_with("crates/") && !arrows::has_arrows(&package.name);
    is_unknown.then(|| {
        format!(
            "{} has no arrows: add its dependencies to `ARROWS` in xtask/src/tidy/arrows.rs",
            package.name
        )
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;
    use crate::workspace::Target;

    #[test]
    fn package_is_named_for_its_folder() {
        let mut cli = tests::package("haft-cli", "crates/cli");
        cli.targets = vec![Target { name: "haft-cli".into(), kind: vec!["bin".into()] }];
        let packages = [
            tests::package("haft", "crates/haft"),
            tests::package("haft-core", "crates/core"),
            tests::package("haft-mcp", "crates/protocol"),
            tests::package("haft-unknown", "crates/unknown"),
            tests::package("own-loop", "examples/own-loop"),
            cli,
        ];
        let manifest = "[package]\nname = \"haft-cli\"\n";
        tests::check(
            super::check,
            &packages,
            [("crates/cli/Cargo.toml", manifest)],
            &expect![[r#"
            crates/cli/Cargo.toml:2: the program of haft-cli is called `haft`
            crates/haft/Cargo.toml:1: there is no facade crate: programs depend on the crates they use
            crates/protocol/Cargo.toml:1: the package in `crates/protocol` is called `haft-protocol`, not `haft-mcp`
            crates/unknown/Cargo.toml:1: haft-unknown has no arrows: add its dependencies to `ARROWS` in xtask/src/tidy/arrows.rs
        "#]],
        );
    }
}
