//! Conversion of runs to and from [`SuspendedRun`].

use haft_core::{
    agent::{AgentError, AgentErrorKind, SuspendedRun},
    call::Decisions,
};

use super::Run;

impl Run {
    /// Converts the run to a [`SuspendedRun`], which contains the calls that wait for decisions and
    /// all data needed to resume the run.
    ///
    /// # Errors
    ///
    /// Fails only if the run cannot be serialized as JSON. A run from [`new`](Self::new) or from
    /// JSON can always be serialized.
    pub fn to_suspended(&self) -> Result<SuspendedRun, AgentErrorKind> {
        let checkpoint = serde_json::to_value(self).map_err(|error| unreadable_error(&error))?;
        Ok(SuspendedRun { pending: self.pending_calls(), checkpoint })
    }

    /// Restores a run from `suspended`.
    ///
    /// # Errors
    ///
    /// Fails if `suspended` was not created by [`to_suspended`](Self::to_suspended), or if its
    /// format has another [version](Self::VERSION).
    pub fn from_suspended(suspended: SuspendedRun) -> Result<Self, AgentErrorKind> {
        serde_json::from_value(suspended.checkpoint).map_err(|error| unreadable_error(&error))
    }

    /// Restores the run from `suspended` and reports `decisions` to it.
    pub(super) fn resume(suspended: SuspendedRun, decisions: Decisions) -> Result<Self, AgentError> {
        let mut run = Self::from_suspended(suspended)?;
        let decided = decisions.into_iter().try_for_each(|(id, decision)| run.on_decision(&id, decision));
        match decided {
            Ok(()) => Ok(run),
            Err(error) => {
                let kind = AgentErrorKind::InvalidInput(error.to_string());
                Err(AgentError::from(kind).with_transcript_and_usage(run.transcript, run.head.usage))
            }
        }
    }
}

fn unreadable_error(error: &serde_json::Error) -> AgentErrorKind {
    AgentErrorKind::InvalidInput(format!("the suspended run cannot be read: {error}"))
}
