//! Tests of the conformance checks. A conforming implementation must have no findings, and each
//! violation must be found.

mod agents;
mod models;
mod sources;
mod tools;

use super::Report;

/// Formats the findings of `report` as text. Each violated rule is one line with the first problem
/// that violates it.
fn format_violations(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    for finding in report.findings() {
        if !lines.iter().any(|line| line.starts_with(finding.rule)) {
            lines.push(format!("{}: {}", finding.rule, finding.problem));
        }
    }
    lines.join("\n")
}
