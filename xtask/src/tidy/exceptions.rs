//! Parses `exceptions.txt`, the list of files that do not follow a rule yet.
//!
//! An exception that hides no finding is unused, and is itself reported as a finding.

use super::{Finding, RULES};

pub(super) const EXCEPTIONS_FILE: &str = "xtask/src/tidy/exceptions.txt";

/// A line of `exceptions.txt`: the name of a rule, and the path of a file or folder in which
/// violations are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exception<'a> {
    rule: &'a str,
    path: &'a str,
    line: usize,
}

/// Parses the lines of `exceptions.txt`. Lines that start with `#` are comments.
pub(super) fn parse(list: &str) -> Vec<Exception<'_>> {
    let lines = list.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines
        .filter_map(|(index, line)| {
            let (rule, path) = line.split_once(' ')?;
            Some(Exception { rule, path, line: index + 1 })
        })
        .collect()
}

impl Exception<'_> {
    /// Returns `true` if this exception hides `finding`, a finding of the rule named `rule`.
    pub(super) fn hides(&self, rule: &str, finding: &Finding) -> bool {
        let rest = finding.path.strip_prefix(self.path);
        self.rule == rule && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Creates a finding for this unused exception. The message gives the reason: either the code
    /// follows the rule, or the rule does not exist.
    pub(super) fn unused_finding(&self) -> Finding {
        let Self { rule, path, line } = self;
        let message = if RULES.iter().any(|(name, _)| name == rule) {
            format!("`{path}` follows the rule `{rule}`: delete the line, or run `cargo xtask tidy --fix`")
        } else {
            format!("there is no rule `{rule}`")
        };
        Finding::new(EXCEPTIONS_FILE, *line, message)
    }
}

/// Returns `list`, the text of `exceptions.txt`, without the exceptions in `unused`.
pub(super) fn remove_exceptions(list: &str, unused: &[Exception<'_>]) -> String {
    let is_kept = |index: usize| !unused.iter().any(|exception| exception.line == index + 1);
    let lines = list.lines().enumerate().filter(|(index, _)| is_kept(*index));
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const SAMPLE_EXCEPTIONS: &str = "# Files.\nwords crates/a\nwords README.md\nlinks docs\nword docs\n";

    #[test]
    fn exception_hides_the_findings_of_its_rule_and_folder() {
        let exceptions = parse(SAMPLE_EXCEPTIONS);
        let is_hidden = |rule, path| {
            let finding = Finding::new(path, 1, "a finding");
            exceptions.iter().any(|exception| exception.hides(rule, &finding))
        };
        assert!(is_hidden("words", "crates/a/src/a.rs") && is_hidden("words", "README.md"));
        assert!(!is_hidden("links", "crates/a/src/a.rs") && !is_hidden("words", "crates/ab/src/a.rs"));
    }

    #[test]
    fn unused_exceptions_are_reported_and_deleted() {
        let unused = parse(SAMPLE_EXCEPTIONS).split_off(2);
        let findings: String = unused.iter().map(|it| format!("{}\n", it.unused_finding())).collect();
        expect![[r#"
            xtask/src/tidy/exceptions.txt:4: `docs` follows the rule `links`: delete the line, or run `cargo xtask tidy --fix`
            xtask/src/tidy/exceptions.txt:5: there is no rule `word`
        "#]].assert_eq(&findings);
        assert_eq!(
            remove_exceptions(SAMPLE_EXCEPTIONS, &unused),
            "# Files.\nwords crates/a\nwords README.md\n"
        );
    }
}
