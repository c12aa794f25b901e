use expect_test::expect;

use super::*;
use crate::tidy::tests;

#[test]
fn named_files_exist() {
    let tree = [
        ("crates/a/src/run/limits.rs", "// See `run/limits.rs`, limits.rs and xtask/src/tidy.rs::check.\n"),
        ("xtask/src/tidy.rs", "//! See `gone.rs`. Not `https://docs.rs/x/y.md`, `foo.rs`.\n"),
        ("README.md", "Read ARCHITECTURE.md, and `docs/gone.md`.\n```text\ngone.rs\n```\n"),
        ("ARCHITECTURE.md", ""),
    ];
    tests::check(
        check,
        &[],
        tree,
        &expect![[r#"
            xtask/src/tidy.rs:1: `gone.rs` is not in the repository
        "#]],
    );
}

#[test]
fn named_decisions_and_documents_exist() {
    let tree = [
        ("docs/adr/0001-names.md", ""),
        ("SECURITY.md", ""),
        (
            "a.rs",
            "// ADR 0001 and ADR 0009. HANDBOOK B12, SECURITY B12, RFC 8259, HANDBOOK §3. HTTPS only.\n",
        ),
    ];
    tests::check(
        check,
        &[],
        tree,
        &expect![[r#"
        a.rs:1: ADR 0009 is not in docs/adr
        a.rs:1: `HANDBOOK B12,` cites a document that is not in the repository
        a.rs:1: `HANDBOOK §3.` cites a document that is not in the repository
    "#]],
    );
}
