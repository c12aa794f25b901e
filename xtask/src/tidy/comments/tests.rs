use expect_test::expect;

use super::*;

#[test]
fn comment_is_a_run_of_lines_of_one_kind() {
    let text =
        "//! Module.\n\n/// Item.\n/// ```\n/// code();\n/// ```\n/// More.\n// Plain.\nfn a() {} // after\n";
    let shown: Vec<_> = comments("a.rs", text)
        .iter()
        .map(|comment| {
            let lines: Vec<_> = comment.lines.iter().map(|line| (line.number, line.text)).collect();
            format!("{:?} until {}: {lines:?}", comment.kind, comment.end)
        })
        .collect();
    expect![[r#"
        Module until 2: [(1, "Module.")]
        Item until 8: [(3, "Item."), (7, "More.")]
        Plain until 9: [(8, "Plain.")]"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn manifests_have_comments_and_pages_are_prose() {
    let texts =
        |path, text| prose_lines(path, text).iter().map(|line| line.text.to_owned()).collect::<Vec<_>>();
    assert_eq!(texts("Cargo.toml", "# Why.\na = 1\n"), ["Why."]);
    assert_eq!(texts("a.md", "# Title\n```rust\ncode\n```\nText.\n"), ["# Title", "Text."]);
    assert_eq!(texts("a.json", "# x\n"), [""; 0]);
}

#[test]
fn code_span_ends_with_its_paragraph() {
    let lines = prose_lines("a.md", "a `b c\nd` e\n\nf `g\n\nh");
    let kept: Vec<_> = without_code_spans(&lines).into_iter().map(|(_, text)| text).collect();
    assert_eq!(kept, ["a  ", "  e", "", "f  ", "", "h"]);
}
