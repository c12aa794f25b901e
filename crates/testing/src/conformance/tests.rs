//! Tests of the conformance checks: conforming implementations have no findings, and each violation
//! is found.

mod agents;
mod models;
mod sources;
mod tools;

use super::Report;

/// Formats the findings of `report` as text: one line for each violated rule, with the first
/// problem of the rule.
fn format_violations(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    for finding in report.findings() {
        if !lines.iter().any(|line| line.starts_with(finding.rule)) {
            lines.push(format!("{}: {}", finding.rule, finding.problem));
        }
    }
    lines.join("\n")
}
