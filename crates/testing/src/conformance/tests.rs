//! Conforming implementations have no findings, and each violation is found.

mod agents;
mod models;
mod sources;
mod tools;

use super::Report;

/// The violated rules, each once, with the first problem.
fn broken(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    for finding in report.findings() {
        if !lines.iter().any(|line| line.starts_with(finding.rule)) {
            lines.push(format!("{}: {}", finding.rule, finding.problem));
        }
    }
    lines.join("\n")
}
