use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::workspace::{Dependency, Kind};

/// Applies `rule` to `packages` and the files in `tree`, and compares the findings with the
/// snapshot `expected`.
fn check(rule: Rule, packages: &[Package], tree: impl Into<SourceTree>, expected: &Expect) {
    let mut findings = rule(packages, &tree.into());
    findings.sort();
    let lines: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    expected.assert_eq(&lines);
}

fn package(name: &str, folder: &str) -> Package {
    Package {
        name: name.to_owned(),
        description: Some("a description".to_owned()),
        license: Some("MIT".to_owned()),
        readme: Some("README.md".into()),
        manifest_path: workspace::root().join(folder).join("Cargo.toml"),
        ..Package::default()
    }
}

fn with_dependencies(mut package: Package, dependencies: &[(&str, &str, Option<Kind>)]) -> Package {
    package.dependencies = dependencies
        .iter()
        .map(|&(name, req, kind)| Dependency {
            name: name.into(),
            req: req.into(),
            kind,
            uses_default_features: true,
            ..Dependency::default()
        })
        .collect();
    package
}

#[test]
fn adapters_depend_on_the_core_only() {
    let packages = [
        package("haft-core", "crates/core"),
        with_dependencies(
            package("haft-mcp", "crates/mcp"),
            &[("haft-core", "^0.1.0", None), ("haft-react", "^0.1.0", Some(Kind::Dev))],
        ),
        with_dependencies(package("haft-react", "crates/react"), &[("haft-mcp", "^0.1.0", None)]),
        with_dependencies(package("haft-cli", "crates/cli"), &[("haft-mcp", "^0.1.0", None)]),
        with_dependencies(package("mixed-tools", "examples/mixed-tools"), &[("haft-mcp", "^0.1.0", None)]),
        with_dependencies(package("xtask", "xtask"), &[("haft-core", "^0.1.0", Some(Kind::Build))]),
    ];
    let manifest = "[dev-dependencies]\nhaft-react.workspace = true\n";
    check(
        arrows::check,
        &packages,
        [("crates/mcp/Cargo.toml", manifest)],
        &expect![[r#"
            crates/mcp/Cargo.toml:2: haft-mcp must not test with haft-react: it may use haft-core, haft-http; combine the two in `tests/`, `examples/` or the command line
            crates/react/Cargo.toml:1: haft-react must not depend on haft-mcp: it may use haft-core, haft-dialect; combine the two in `tests/`, `examples/` or the command line
            xtask/Cargo.toml:1: xtask must not build with haft-core: it may use no crate of this workspace; combine the two in `tests/`, `examples/` or the command line
        "#]],
    );
}

#[test]
fn formats_without_the_client_have_no_http_stack() {
    let mut openai = with_dependencies(
        package("haft-openai", "crates/openai"),
        &[
            ("serde", "^1", None),
            ("reqwest", "^0.13", None),
            ("tower", "^0.5", None),
            ("tokio", "^1", Some(Kind::Dev)),
        ],
    );
    openai.dependencies[2].optional = true;
    check(
        arrows::check,
        &[openai],
        [("crates/openai/Cargo.toml", "[dependencies]\nreqwest.workspace = true\n")],
        &expect![[r#"
            crates/openai/Cargo.toml:2: haft-openai without its features has only formats: reqwest must be optional, enabled by `client`
        "#]],
    );
}

#[test]
fn core_and_macros_have_no_adapters_and_no_io() {
    let mut core = with_dependencies(
        package("haft-core", "crates/core"),
        &[
            ("haft-macros", "^0.1.0", None),
            ("jsonschema", "^0.60", None),
            ("tokio", "^1", None),
            ("rmcp", "^3", None),
        ],
    );
    for dependency in &mut core.dependencies {
        dependency.features = vec!["sync".to_owned(), "net".to_owned()];
    }
    let macros = with_dependencies(
        package("haft-macros", "crates/macros"),
        &[("haft-core", "^0.1.0", Some(Kind::Dev))],
    );
    check(
        arrows::check,
        &[core, macros],
        [],
        &expect![[r#"
            crates/core/Cargo.toml:1: haft-core opens no socket, file or process: its tokio features are rt, sync, time, not `net`
            crates/core/Cargo.toml:1: haft-macros is required in exactly one version: `=0.1.0`
            crates/core/Cargo.toml:1: jsonschema is used without features: they open references of a schema, or take minutes to compile
            crates/core/Cargo.toml:1: rmcp belongs in haft-mcp, not in haft-core
            crates/macros/Cargo.toml:1: haft-macros must not test with haft-core: it may use no crate of this workspace; combine the two in `tests/`, `examples/` or the command line
        "#]],
    );
}

#[test]
fn manifest_has_the_metadata_of_the_registry() {
    let bare = Package { description: Some(" ".into()), license: None, ..package("bare", "crates/bare") };
    let crowded = Package {
        features: ["default", "a", "b", "c", "d", "e"].map(|name| (name.to_owned(), vec![])).into(),
        ..package("crowded", "crates/crowded")
    };
    let private = Package { publish: Some(vec![]), description: None, ..package("private", "tests/private") };
    let newer = Package { rust_version: Some("1.99".into()), ..package("newer", "crates/newer") };
    let manifest = "[package]\nrust-version = \"1.99\"\n\n[features]\n\n[lints]\nworkspace = true\n";
    let tree = [
        ("crates/bare/Cargo.toml", manifest),
        ("crates/bare/README.md", "\n"),
        ("crates/crowded/Cargo.toml", manifest),
        ("crates/crowded/README.md", "crowded"),
        ("crates/newer/Cargo.toml", manifest),
        ("crates/newer/README.md", "newer"),
        ("tests/private/Cargo.toml", "[package]\n"),
    ];
    check(
        manifests::check,
        &[bare, crowded, private, newer],
        tree,
        &expect![[r#"
            crates/bare/Cargo.toml:1: bare is published without a README with text: add `readme = "README.md"`
            crates/bare/Cargo.toml:1: bare is published without a description: add `description = "…"`
            crates/bare/Cargo.toml:1: bare is published without a licence: add `license.workspace = true`
            crates/crowded/Cargo.toml:4: 5 features; the limit is 4
            crates/newer/Cargo.toml:2: the workspace has one Rust version: `rust-version.workspace = true`
            tests/private/Cargo.toml:1: the lints of the workspace are off: add `[lints]` with `workspace = true`
        "#]],
    );
}

#[test]
fn source_files_have_a_limit_and_no_ignored_tests() {
    let long = "\n".repeat(601);
    let long_in_tests = format!("mod tests {{\n{long}}}\n");
    let tree = [
        ("crates/a/src/long.rs", long.as_str()),
        ("crates/a/src/short.rs", long_in_tests.as_str()),
        ("crates/a/src/long/tests.rs", long.as_str()),
        ("crates/a/tests/it/long.rs", long.as_str()),
        (
            "crates/a/src/asleep.rs",
            "/// ```no_run\n/// ```\n/// ```rust,ignore\n/// ```\nfn a() {}\n#[ignore = \"slow\"]",
        ),
        (
            "crates/tools/src/lib.rs",
            "#![doc = include_str!(\"../README.md\")]\n#![doc = include_str!(\"../../a.md\")]\n",
        ),
    ];
    check(
        sources::check,
        &[],
        tree,
        &expect![[r#"
            crates/a/src/asleep.rs:3: an ignored doctest is not compiled: remove `ignore`, or use `no_run`
            crates/a/src/asleep.rs:6: an ignored test does not run: fix it or delete it
            crates/a/src/long.rs:600: 601 lines; the limit is 600: make it a folder with one file per subject
            crates/tools/src/lib.rs:2: `crates/a.md` is not packaged with this crate: include a file below `crates/tools/`
        "#]],
    );
}

#[test]
fn dead_links_are_found() {
    let page = "[a](b.md) [b](../README.md#top)\n\n[c](missing.md) [e](https://haft.rs/x)\n\
                [`Tool`](haft_core::Tool) [f](.) [g](../docs/src/) ![h](h.png)\n";
    let anchors =
        "# The `Run`, and why\n[a](#the-run-and-why) [b](#why) [c](docs/src/b.md#b) [d](docs/src/b.md#c)\n";
    let tree = [
        ("docs/src/a.md", page),
        ("docs/src/b.md", "## B\n"),
        ("docs/src/SUMMARY.md", "- [A](a.md)\n"),
        ("README.md", "[x](docs/) [y](doc/)\n"),
        ("ANCHORS.md", anchors),
    ];
    check(
        links::check,
        &[],
        tree,
        &expect![[r#"
            ANCHORS.md:2: the link `#why` leads to the heading `#why`, which does not exist
            ANCHORS.md:2: the link `docs/src/b.md#c` leads to the heading `#c`, which does not exist
            README.md:1: the link `doc/` leads to `doc`, which does not exist
            docs/src/a.md:1: the link `../README.md#top` leads to `docs/README.md`, which does not exist
            docs/src/a.md:3: the link `missing.md` leads to `docs/src/missing.md`, which does not exist
            docs/src/a.md:4: the link `../docs/src/` leads to `docs/docs/src`, which does not exist
            docs/src/a.md:4: the link `h.png` leads to `docs/src/h.png`, which does not exist
            docs/src/b.md:1: no link leads to this page: add it to `docs/src/SUMMARY.md`
        "#]],
    );
}

#[test]
fn code_in_pages_is_compiled() {
    let copy = "<!-- source: examples/quickstart/src/main.rs -->\n```rust\nfn main() {}\n```\n";
    let readme = copy.to_owned() + "\n```rust\n```\n";
    let other = "<!-- source: examples/quickstart/src/main.rs -->\n\n```rust\nfn main() { }\n```\n\n\
                 <!-- source: gone.rs -->\n```rust\n```\n\n```rust,ignore\n```\n";
    let tree = [
        ("README.md", readme.as_str()),
        ("docs/src/other.md", other),
        ("docs/src/listed.md", "```rust\n```\n"),
        ("docs/src/shown.md", copy),
        ("docs/src/prose.md", "```console\n```\n"),
        ("examples/quickstart/src/main.rs", "fn main() {}\n"),
        ("tests/src/book.rs", "#![doc = include_str!(\"../../docs/src/listed.md\")]\n"),
    ];
    check(
        samples::check,
        &[],
        tree,
        &expect![[r#"
        README.md:6: this code is not compiled: list the page in `tests/src/book.rs`, or put `<!-- source: PATH -->` before the copy of a file
        docs/src/other.md:3: the block differs from `examples/quickstart/src/main.rs`: copy the file into it
        docs/src/other.md:8: the block is a copy of `gone.rs`, which does not exist
        docs/src/other.md:11: an ignored block is not compiled: remove `ignore`, or use `no_run`
        docs/src/other.md:11: this code is not compiled: list the page in `tests/src/book.rs`, or put `<!-- source: PATH -->` before the copy of a file
    "#]],
    );
}

/// A folder of build output, such as `target`, is skipped only in the root of the repository. A
/// folder with the same name in another place, such as `crates/a/target`, must be read.
#[test]
fn build_output_is_not_read() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    for name in ["target", "docs/book", "docs/src", "crates/a/target"] {
        fs::create_dir_all(folder.path().join(name))?;
        fs::write(folder.path().join(name).join("a.md"), name)?;
    }
    let tree = SourceTree::read(folder.path())?;
    let paths: Vec<_> = tree.files_matching("", ".md").map(|(path, _)| path).collect();
    assert_eq!(paths, ["crates/a/target/a.md", "docs/src/a.md"]);
    Ok(())
}
