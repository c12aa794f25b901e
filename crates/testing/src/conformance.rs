//! Conformance checks for implementations of `Tool`, `ToolSource`, `ChatModel` and `Agent`.
//!
//! The functions [`tool`], [`source`], [`model`] and [`agent`] each create a check, which uses an
//! implementation as a program would. [`run_and_stream`] creates a check of the equality of
//! streamed and whole runs of an agent. A check reports violations of the trait's contract, each
//! with a remedy. Each finding is a bug, but a report without findings does not prove that the
//! implementation is correct.
//!
//! A check has side effects. It repeatedly calls the tool, lists the tools of the source, sends
//! requests to the model, or runs the agent. Use a test environment. Use the multi-thread runtime
//! of tokio: on a single thread, a call that blocks also blocks the check.
//!
//! # Examples
//!
//! ```
//! use haft_testing::conformance;
//! use haft_core::tool;
//!
//! /// Adds two integers.
//! #[tool]
//! fn add(x: i64, y: i64) -> i64 {
//!     x.wrapping_add(y)
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_time().build()?.block_on(async {
//! conformance::tool(Add).await.assert_conforms();
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod events;
mod model;
mod pairing;
mod reply;
mod run_and_stream;
mod source;
mod streamed_answer;
#[cfg(test)]
mod tests;
mod tool;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub use agent::{AgentCheck, agent};
pub use model::{ModelCheck, model};
pub use run_and_stream::{RunAndStreamCheck, run_and_stream};
pub use source::{SourceCheck, source};
pub use tool::{ToolCheck, tool};

/// The default timeout of a check. It applies to each tool call, tool listing, model request and
/// agent run.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which a check polls a condition, for example in [`wait_until`].
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The result of a conformance check, with a [`Finding`] for each violation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the findings are in the report"]
pub struct Report {
    subject: String,
    findings: Vec<Finding>,
}

/// A violation of a rule in a trait's contract.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The violated rule.
    pub rule: &'static str,
    /// A description of the observed violation.
    pub problem: String,
    /// A way to fix the implementation.
    pub remedy: &'static str,
}

/// A rule in a trait's contract, with the remedy for violations.
#[derive(Clone, Copy)]
struct Rule {
    text: &'static str,
    remedy: &'static str,
}

impl Report {
    fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), findings: Vec::new() }
    }

    fn add_finding(&mut self, rule: Rule, problem: impl Into<String>) {
        self.findings.push(Finding { rule: rule.text, problem: problem.into(), remedy: rule.remedy });
    }

    fn require(&mut self, rule: Rule, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.add_finding(rule, problem());
        }
    }

    /// Returns the findings of the check. The slice is empty if no rule was violated.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Asserts that the check has no findings.
    ///
    /// # Panics
    ///
    /// Panics with the text of the report if there are findings.
    pub fn assert_conforms(&self) {
        assert!(self.findings.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.findings.len() {
            0 => return write!(f, "{} conforms", self.subject),
            1 => write!(f, "{} violates a rule", self.subject)?,
            many => write!(f, "{} violates {many} rules", self.subject)?,
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "- {}: {}\n  remedy: {}", self.rule, self.problem, self.remedy)
    }
}

/// Awaits `future` and returns its output. `None` if `future` takes longer than `timeout`.
async fn with_timeout<F: Future>(timeout: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(timeout, future).await.ok()
}

/// Polls `holds` until it returns `true`. Returns `false` if `holds` is still `false` after
/// `timeout`.
async fn wait_until(timeout: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL_INTERVAL).await;
    }
    true
}
