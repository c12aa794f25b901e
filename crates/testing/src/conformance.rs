//! Whether an implementation keeps what its trait promises.
//!
//! Each function takes an implementation of one of the traits, uses it as programs do, and reports what it finds, with what to do about it:
//! [`tool`], [`source`], [`model`], [`agent`]. An empty report is no proof; one that is not is a bug.
//!
//! What is checked is really done: the tool is called, the model is asked, the agent runs, each several times. Run it in a place where
//! that does no harm, on a multi-thread runtime of tokio, since code that blocks can be told from code that waits only there.
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
//! conformance::tool(Add).await.assert();
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod events;
mod model;
mod pairing;
mod reply;
mod source;
#[cfg(test)]
mod tests;
mod tool;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub use agent::{AgentCheck, agent};
pub use model::{ModelCheck, model};
pub use source::{SourceCheck, source};
pub use tool::{ToolCheck, tool};

/// How long each wait of a check may take where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether something has ended.
const GLANCE: Duration = Duration::from_millis(5);

/// What was found about an implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what was found is in the report"]
pub struct Report {
    subject: String,
    findings: Vec<Finding>,
}

/// A promise that is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What the trait promises.
    pub promise: &'static str,
    /// What was seen instead.
    pub problem: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// What a trait promises, and what to do where it is not kept.
#[derive(Clone, Copy)]
struct Promise {
    what: &'static str,
    remedy: &'static str,
}

impl Report {
    fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), findings: Vec::new() }
    }

    fn add(&mut self, promise: Promise, problem: impl Into<String>) {
        let Promise { what, remedy } = promise;
        self.findings.push(Finding { promise: what, problem: problem.into(), remedy });
    }

    fn hold(&mut self, promise: Promise, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.add(promise, problem());
        }
    }

    /// What was found; empty where all is well.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Fails the test where something was found.
    ///
    /// # Panics
    ///
    /// Panics with the report.
    pub fn assert(&self) {
        assert!(self.findings.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.findings.len() {
            0 => return write!(f, "{} keeps what it promises", self.subject),
            1 => write!(f, "{} breaks a promise", self.subject)?,
            many => write!(f, "{} breaks {many} promises", self.subject)?,
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "- {}: {}\n  remedy: {}", self.promise, self.problem, self.remedy)
    }
}

/// Waits for something, for a while.
async fn within<F: Future>(patience: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(patience, future).await.ok()
}

/// Waits until something holds, for a while.
async fn comes_true(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        sleep(GLANCE).await;
    }
    true
}
