//! Tests of the conformance checks. A conforming implementation must have no findings, and each
//! violation must be found.

mod agents;
mod models;
mod run_and_stream;
mod sources;
mod tools;

use super::Report;

/// Formats the findings of `report` as text, with one line for each violated rule. The line
/// contains the first problem that was found.
fn format_violations(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    for finding in report.findings() {
        if !lines.iter().any(|line| line.starts_with(finding.rule)) {
            lines.push(format!("{}: {}", finding.rule, finding.problem));
        }
    }
    lines.join("\n")
}
