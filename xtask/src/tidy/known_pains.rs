//! Rule: each section of the page "Known pains elsewhere" links to an issue thread on GitHub and
//! cites tests, and each cited test exists.
//!
//! A section begins with a heading of the third level, and ends at a heading of the same or a
//! higher level. Code blocks are ignored. A citation is a code span with the path of a file and the
//! name of a test, such as `crates/core/tests/it/batch.rs::calls_overlap`.

use std::ops::Range;

use super::{Finding, SourceTree, markdown};
use crate::workspace::Package;

const PAGE: &str = "docs/src/known-pains.md";

/// The minimum number of sections on the page.
const MIN_SECTIONS: usize = 15;

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else {
        return vec![Finding::new(PAGE, 1, "the page is missing")];
    };
    let sections = sections(page);
    let links = markdown::links(page);
    let mut findings = Vec::new();
    if sections.len() < MIN_SECTIONS {
        let message = format!("the page has {} sections; it needs at least {MIN_SECTIONS}", sections.len());
        findings.push(Finding::new(PAGE, 1, message));
    }
    for Section { title, lines, tests } in &sections {
        let finding = |message: String| Finding::new(PAGE, lines.start, message);
        if !links.iter().any(|link| lines.contains(&link.line) && is_thread(&link.target)) {
            findings.push(finding(format!("\"{title}\" has no link to an issue thread on GitHub")));
        }
        if tests.is_empty() {
            findings.push(finding(format!("\"{title}\" cites no test")));
        }
        findings.extend(tests.iter().filter_map(|(line, test)| {
            let problem = find_problem(test, tree)?;
            Some(Finding::new(PAGE, *line, format!("\"{title}\" cites `{test}`: {problem}")))
        }));
    }
    findings
}

/// A section of the page. Its first line is the heading.
struct Section<'p> {
    title: &'p str,
    lines: Range<usize>,
    /// The cited tests with their line numbers.
    tests: Vec<(usize, &'p str)>,
}

fn sections(page: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for (line, text) in (1..).zip(page.lines()) {
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        if let Some(title) = text.strip_prefix("### ") {
            is_open = true;
            sections.push(Section { title, lines: line..line, tests: Vec::new() });
        } else if text.starts_with("# ") || text.starts_with("## ") {
            is_open = false;
        }
        if let Some(section) = sections.last_mut().filter(|_| is_open) {
            section.lines.end = line + 1;
            let spans = text.split('`').skip(1).step_by(2);
            section.tests.extend(spans.filter(|span| span.contains(".rs::")).map(|test| (line, test)));
        }
    }
    sections
}

/// Returns `true` if `url` is the address of an issue, a pull request or a discussion on GitHub.
fn is_thread(url: &str) -> bool {
    let parts: Vec<_> = url.strip_prefix("https://github.com/").unwrap_or_default().split('/').collect();
    let [owner, repository, "issues" | "pull" | "discussions", number] = parts[..] else { return false };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !owner.is_empty() && !repository.is_empty() && is_number
}

/// Returns the reason why `test`, a path and a function name, is not an existing test.
fn find_problem(test: &str, tree: &SourceTree) -> Option<String> {
    let (path, name) = test.split_once("::")?;
    let Some(text) = tree.text(path) else { return Some("there is no such file".to_owned()) };
    let start = format!("fn {name}(");
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let Some(index) = lines.iter().position(|line| line.trim_start_matches("async ").starts_with(&start))
    else {
        return Some(format!("no function `{name}` is in this file"));
    };
    let above =
        lines[..index].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let is_test = above.into_iter().any(|line| line.starts_with("#[") && line.contains("test"));
    (!is_test).then(|| format!("the function `{name}` has no `#[test]` attribute"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::tidy::tests;

    const TESTS: &str = "#[tokio::test]\n/// Adds.\nasync fn adds() {}\n\nfn helper() {}\n\n    #[test]\n    fn law(x in 0..9) {}\n";

    fn check_page(page: &str, expected: &Expect) {
        tests::check(check, &[], [(PAGE, page), ("crates/a/tests/it/b.rs", TESTS)], expected);
    }

    /// A page with `count` valid sections, and `last` after them.
    fn page_with(count: usize, last: &str) -> String {
        let section = "### Pain\n\nText. ([a/b#1](https://github.com/a/b/issues/1))\n\n- `crates/a/tests/it/b.rs::adds`\n- `crates/a/tests/it/b.rs::law`\n\n";
        format!("# Known pains elsewhere\n\n## Calls\n\n{}{last}", section.repeat(count))
    }

    #[test]
    fn complete_page_has_no_findings() {
        check_page(&page_with(15, "## End\n\nText with `crates/a/b.rs::nothing`.\n"), &expect![""]);
    }

    #[test]
    fn missing_page_is_reported() {
        tests::check(
            check,
            &[],
            [("README.md", "")],
            &expect![[r#"
                docs/src/known-pains.md:1: the page is missing
            "#]],
        );
    }

    #[test]
    fn code_and_deeper_headings_do_not_end_a_section() {
        let citation = "- `crates/a/tests/it/b.rs::adds`\n";
        let thread = "[a](https://github.com/a/b/pull/1)";
        let code = "```sh\n# A comment\n### Not a section\n`c.rs::none`\n```\n";
        check_page(
            &page_with(15, &format!("### One\n\n{thread}\n\n{code}\n#### Tests\n\n{citation}")),
            &expect![""],
        );
    }

    #[test]
    fn short_page_is_reported() {
        check_page(
            &page_with(14, ""),
            &expect![[r#"
                docs/src/known-pains.md:1: the page has 14 sections; it needs at least 15
            "#]],
        );
    }

    #[test]
    fn section_without_thread_or_test_is_reported() {
        let links = "### Two\n\n[a](https://github.com/a/b/issues/x) [b](https://example.com/a/b/issues/1) [c](https://github.com/a/b)\n";
        check_page(
            &page_with(15, &format!("### One\n\nText.\n\n{links}")),
            &expect![[r#"
                docs/src/known-pains.md:110: "One" cites no test
                docs/src/known-pains.md:110: "One" has no link to an issue thread on GitHub
                docs/src/known-pains.md:114: "Two" cites no test
                docs/src/known-pains.md:114: "Two" has no link to an issue thread on GitHub
            "#]],
        );
    }

    #[test]
    fn citation_of_a_missing_test_is_reported() {
        let tests = ["c.rs::adds", "crates/a/tests/it/b.rs::subtracts", "crates/a/tests/it/b.rs::helper"];
        let tests: String = tests.iter().map(|test| format!("- `{test}`\n")).collect();
        let thread = "[a](https://github.com/a/b/pull/1)";
        check_page(
            &page_with(15, &format!("### One\n\n{thread}\n\n{tests}")),
            &expect![[r#"
                docs/src/known-pains.md:114: "One" cites `c.rs::adds`: there is no such file
                docs/src/known-pains.md:115: "One" cites `crates/a/tests/it/b.rs::subtracts`: no function `subtracts` is in this file
                docs/src/known-pains.md:116: "One" cites `crates/a/tests/it/b.rs::helper`: the function `helper` has no `#[test]` attribute
            "#]],
        );
    }
}
