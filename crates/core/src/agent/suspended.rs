use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunInput;
use crate::call::{Decision, PendingCall, PendingKind};

/// A suspended run as plain data. A program can save it and resume the run in another process.
///
/// [`RunOutput::text`](super::RunOutput::text) returns a suspended run as an error. The error
/// message lists the calls that need a decision.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{Agent, RunOutput, agent::AgentError, call::Decision};
///
/// # async fn example(agent: impl Agent, output: RunOutput) -> Result<(), AgentError> {
/// if let RunOutput::Suspended(suspended) = output {
///     let input = suspended.resume([
///         ("call_1", Decision::approved()),
///         ("call_2", Decision::denied("too expensive")),
///     ]);
///     let output = agent.run(input).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("the run is suspended, and needs decisions: {}", self.describe_needs())]
pub struct SuspendedRun {
    /// The suspended calls of the run.
    pub pending: Vec<PendingCall>,
    /// The saved state of the run, in a format that is private to the agent.
    pub checkpoint: Value,
}

impl SuspendedRun {
    /// Returns the calls that need a decision, including calls made by agents that are used as
    /// tools.
    pub fn undecided_calls(&self) -> Vec<&PendingCall> {
        self.pending.iter().flat_map(PendingCall::innermost_calls).collect()
    }

    /// Creates the input that resumes the run with `decisions`. Each item is the id of an
    /// [undecided call](Self::undecided_calls) and the decision about this call. Calls without a
    /// decision stay suspended. The resumed run fails if a call id is unknown or a decision does
    /// not match its call.
    pub fn resume<I: Into<String>>(self, decisions: impl IntoIterator<Item = (I, Decision)>) -> RunInput {
        RunInput::resume(self, decisions.into_iter().map(|(id, decision)| (id.into(), decision)).collect())
    }

    /// Creates the input that resumes the run with the decisions returned by `decide`. The closure
    /// is called for each [undecided call](Self::undecided_calls). If `decide` returns `None`, the
    /// call stays suspended.
    pub fn decide(self, mut decide: impl FnMut(&PendingCall) -> Option<Decision>) -> RunInput {
        let calls = self.undecided_calls().into_iter();
        let decisions = calls.filter_map(|it| Some((it.call.id.clone(), decide(it)?))).collect();
        RunInput::resume(self, decisions)
    }

    /// Creates the input that resumes the run and approves each call that waits for an approval.
    /// Calls that wait for input from a person or for an external output stay suspended.
    pub fn approve_all(self) -> RunInput {
        self.decide(|it| matches!(it.pending.kind, PendingKind::Approval { .. }).then(Decision::approved))
    }

    fn describe_needs(&self) -> String {
        let calls = self.undecided_calls().into_iter();
        let needs = calls.map(|PendingCall { call, pending }| {
            format!("{} for call {:?} of tool {:?}", pending.kind.needed_decision(), call.id, call.name)
        });
        needs.collect::<Vec<_>>().join(", ")
    }
}
