use expect_test::expect;

use super::*;
use crate::tidy::tests;

const TESTS: &str = "//! Behaviour B13: one more.\n\n/// Behaviour B12: all violations are listed.\n#[tokio::test]\n\
                     async fn invalid_arguments_are_explained() {\n}\n\n/// Adds.\n#[test]\nfn addition() {\n}\n";

const PAGE: &str = "# Behaviour\n\n## Calls\n\n- **B12.** All violations are listed,\n  and the tool does not run.\n  \
                    - `crates/a/tests/it/a.rs::invalid_arguments_are_explained`\n- **B13.** One more.\n  \
                    - `crates/a/tests/it/a.rs`\n\n## Planned\n\n- **H60.** Sessions.\n";

/// Checks the findings for the document `page` and a test file with the lines `cited`.
fn check_citations(page: &str, cited: &[&str], expected: &expect_test::Expect) {
    let cited = cited.join("\n");
    tests::check(check, &[], [(DOCUMENT, page), ("a.rs", cited.as_str())], expected);
}

#[test]
fn document_and_citations_agree() {
    let tree = [(DOCUMENT, PAGE), ("crates/a/tests/it/a.rs", TESTS)];
    tests::check(check, &[], tree, &expect![""]);
}

#[test]
fn listed_tests_exist_and_cite_their_promise() {
    let page = "- **B12.** One.\n  - `crates/a/tests/it/a.rs::gone`\n  - `crates/a/tests/it/a.rs::addition`\n  \
                - `gone.rs::a`\n- **B13.** Two.\n- **B14.** Three.\n  - `crates/a/tests/it/a.rs`\n\
                - **B12.** Again.\n";
    let tree = [(DOCUMENT, page), ("crates/a/tests/it/a.rs", TESTS)];
    tests::check(
        check,
        &[],
        tree,
        &expect![[r#"
        crates/a/tests/it/a.rs:1: `crates/a/tests/it/a.rs` cites B13, and docs/behaviour.md does not list it there: run `cargo xtask tidy --fix`
        crates/a/tests/it/a.rs:3: `crates/a/tests/it/a.rs::invalid_arguments_are_explained` cites B12, and docs/behaviour.md does not list it there: run `cargo xtask tidy --fix`
        docs/behaviour.md:2: B12 lists `crates/a/tests/it/a.rs::gone`: no function `gone` is in this file
        docs/behaviour.md:3: B12 lists `crates/a/tests/it/a.rs::addition`: its documentation does not cite `Behaviour B12`
        docs/behaviour.md:4: B12 lists `gone.rs::a`: there is no such file
        docs/behaviour.md:5: B13 has no test: cite it in one (`/// Behaviour B13: a sentence.`), or move it to "Planned"
        docs/behaviour.md:7: B14 lists `crates/a/tests/it/a.rs`: the documentation of the file does not cite `Behaviour B14`
        docs/behaviour.md:8: B12 has no test: cite it in one (`/// Behaviour B12: a sentence.`), or move it to "Planned"
        docs/behaviour.md:8: B12 is in the document twice
    "#]],
    );
}

#[test]
fn cited_promises_are_listed_and_not_planned() {
    let page = "## Calls\n\n- **B12.** One.\n  - `a.rs::a`\n\n## Planned\n\n- **B13.** Two.\n  - `a.rs::a`\n";
    let cited = [
        "/// Behaviour B12 (stdio), B13 and Z99: a sentence.",
        "#[test]",
        "fn a() {}",
        "/// Behaviour B12: a sentence.",
        "#[test]",
        "fn b() {}",
        "// Behaviour B12.",
        "",
        "/// Behaviour B12.",
        "fn helper() {}",
        "/// `Behaviour B12` is code.",
        "fn c() {}",
    ];
    check_citations(
        page,
        &cited,
        &expect![[r#"
        a.rs:1: `a.rs::a` cites B13, which docs/behaviour.md lists as planned: move the entry
        a.rs:1: `a.rs::a` cites Z99, which is not in docs/behaviour.md
        a.rs:4: `a.rs::b` cites B12, and docs/behaviour.md does not list it there: run `cargo xtask tidy --fix`
        a.rs:7: B12 is cited here and this documents no test: move the citation to a test
        a.rs:9: B12 is cited here and this documents no test: move the citation to a test
        docs/behaviour.md:8: B13 is planned and lists tests: move it to the section of its subject
    "#]],
    );
}

#[test]
fn fix_writes_the_cited_tests() {
    let page = PAGE.replace("a.rs::invalid_arguments_are_explained", "a.rs::old");
    let tree = SourceTree::from([(DOCUMENT, page.as_str()), ("crates/a/tests/it/a.rs", TESTS)]);
    assert_eq!(updated_document(&tree).as_deref(), Some(PAGE));
}

#[test]
fn citation_has_a_sentence() {
    let page = "## Calls\n\n- **B12.** One.\n  - `a.rs::a`\n  - `a.rs::b`\n  - `a.rs::c`\n- **B13.** Two.\n  \
                - `a.rs`\n  - `a.rs::b`\n  - `a.rs::c`\n";
    let cited = [
        "//! Behaviour B13.",
        "",
        "/// Behaviour B12:",
        "/// `a` is a word of the sentence.",
        "#[test]",
        "fn a() {}",
        "/// Behaviour B12.",
        "/// Behaviour B13: a sentence.",
        "#[test]",
        "fn b() {}",
        "/// Behaviours B12 and B13: no full stop",
        "#[test]",
        "fn c() {}",
    ];
    check_citations(
        page,
        &cited,
        &expect![[r#"
            a.rs:1: `a.rs` cites B13 without a sentence: write `Behaviour B13: a sentence.`
            a.rs:7: `a.rs::b` cites B12 without a sentence: write `Behaviour B12: a sentence.`
            a.rs:11: `a.rs::c` cites B12, B13 without a sentence: write `Behaviour B12, B13: a sentence.`
        "#]],
    );
}

#[test]
fn ids_are_read_as_they_are_written() {
    let ids = |text| citation::citation_lists(text).into_iter().flat_map(|list| list.ids).collect::<Vec<_>>();
    assert_eq!(ids("Behaviour B12: text with T1."), ["B12"]);
    assert_eq!(ids("Behaviour B13, B15 and Behaviour T1."), ["B13", "B15", "T1"]);
    assert_eq!(ids("Behaviour M1, M2, and M10"), ["M1", "M2", "M10"]);
    assert_eq!(ids("Behaviours M1 (stdio) and M2: text. Behaviour M3: text."), ["M1", "M2", "M3"]);
    assert_eq!(ids("Behaviour of runs. Behaviour B12a."), [""; 0]);
}

#[test]
fn sentence_follows_the_ids_after_a_colon() {
    let has_sentence = |text| citation::citation_lists(text).iter().all(|list| list.has_sentence);
    assert!(has_sentence("Behaviour B12: text."));
    assert!(has_sentence("Behaviour B74, Behaviour B75: text. More text"));
    assert!(has_sentence("Behaviour F56 (stdio), B12 and T1: text with the word Behaviour."));
    for text in ["Behaviour B12", "Behaviour B12.", "Behaviour B12: .", "Behaviour B12 and T1. A text."] {
        assert!(!has_sentence(text), "{text}");
    }
}
