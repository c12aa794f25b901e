//! Files that do not follow a rule yet.
//!
//! Delete an entry when its files follow the rule: `tidy` fails on an entry without a finding, so
//! that the list only shrinks.

use super::Finding;

/// The name of a rule, and the files and folders that it does not apply to yet.
pub(super) type Exceptions = [(&'static str, &'static [&'static str])];

pub(super) const EXCEPTIONS: &Exceptions = &[
    (
        "comment_width",
        &[
            "crates/cli",
            "crates/core",
            "crates/local",
            "crates/macros",
            "crates/mcp",
            "crates/middleware",
            "crates/openai",
            "crates/react",
            "crates/schema",
            "crates/testing",
            "crates/text",
            "crates/tools",
            "fuzz",
        ],
    ),
    ("crate_root", &["crates/react/src/lib.rs"]),
    (
        "module_tables",
        &[
            "crates/cli",
            "crates/core",
            "crates/local",
            "crates/macros",
            "crates/mcp",
            "crates/openai",
            "crates/react",
            "crates/schema",
            "crates/testing",
            "crates/text",
            "crates/tools",
        ],
    ),
    (
        "summaries",
        &[
            "crates/cli",
            "crates/core",
            "crates/local",
            "crates/macros",
            "crates/mcp",
            "crates/middleware",
            "crates/openai",
            "crates/react",
            "crates/schema",
            "crates/testing",
            "crates/tools",
            "fuzz",
        ],
    ),
    (
        "type_names",
        &[
            "crates/core/src/tool/tools.rs",
            "crates/core/src/toolset/source.rs",
            "crates/local/src/store/pull/error.rs",
            "crates/openai/src/client/builder/error.rs",
            "crates/openai/src/format/tool.rs",
            "crates/react/src/agent/build.rs",
        ],
    ),
    (
        "words",
        &[
            "ARCHITECTURE.md",
            "CHANGELOG.md",
            "README.md",
            "crates/cli",
            "crates/core",
            "crates/local",
            "crates/macros",
            "crates/mcp",
            "crates/middleware",
            "crates/openai",
            "crates/react",
            "crates/schema",
            "crates/testing",
            "crates/tools",
            "docs/adr",
            "docs/src",
            "fuzz",
        ],
    ),
];

const FILE: &str = "xtask/src/tidy/exceptions.rs";

/// Removes the findings in excepted files. An exception without a finding becomes one.
pub(super) fn without_exceptions(
    rule: &str,
    findings: Vec<Finding>,
    exceptions: &Exceptions,
) -> Vec<Finding> {
    let paths = exceptions.iter().filter(|(name, _)| *name == rule).flat_map(|(_, paths)| paths.iter());
    let paths: Vec<_> = paths.collect();
    let unused = paths.iter().filter(|path| !findings.iter().any(|finding| is_below(&finding.path, path)));
    let unused: Vec<_> = unused
        .map(|path| {
            let message = format!("`{path}` follows the rule `{rule}`: delete the exception");
            Finding::new(FILE, 1, message)
        })
        .collect();
    let kept = findings.into_iter().filter(|finding| !paths.iter().any(|path| is_below(&finding.path, path)));
    kept.chain(unused).collect()
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn exception_hides_findings_and_is_reported_when_it_hides_none() {
        let exceptions: &Exceptions =
            &[("words", &["crates/a", "crates/b", "README.md"]), ("links", &["docs"])];
        let findings = ["crates/a/src/a.rs", "crates/ab/src/a.rs", "README.md", "docs/a.md"]
            .map(|path| Finding::new(path, 1, "a word"));
        let left = without_exceptions("words", findings.into(), exceptions);
        let left: Vec<_> = left.iter().map(ToString::to_string).collect();
        expect![[r#"
            crates/ab/src/a.rs:1: a word
            docs/a.md:1: a word
            xtask/src/tidy/exceptions.rs:1: `crates/b` follows the rule `words`: delete the exception"#]]
        .assert_eq(&left.join("\n"));
    }
}
