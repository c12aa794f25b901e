//! Suspended runs as data.

use haft_core::{
    agent::{AgentError, AgentErrorKind, SuspendedRun},
    call::Decisions,
};

use super::Run;

impl Run {
    /// Saves the run as a [`SuspendedRun`] value: the waiting calls, and the state to continue.
    ///
    /// # Errors
    ///
    /// Fails only if the run has no JSON form. Runs from `new` or from JSON always have one.
    pub fn to_suspended(&self) -> Result<SuspendedRun, AgentErrorKind> {
        let state = serde_json::to_value(self).map_err(|error| unreadable(&error))?;
        Ok(SuspendedRun { pending: self.pending(), state })
    }

    /// Restores a suspended run.
    ///
    /// # Errors
    ///
    /// Fails if the state was written by another agent or a newer version.
    pub fn from_suspended(suspended: SuspendedRun) -> Result<Self, AgentErrorKind> {
        serde_json::from_value(suspended.state).map_err(|error| unreadable(&error))
    }

    pub(super) fn resume(suspended: SuspendedRun, decisions: Decisions) -> Result<Self, AgentError> {
        let mut run = Self::from_suspended(suspended)?;
        let decided = decisions.into_iter().try_for_each(|(id, decision)| run.on_decision(&id, decision));
        match decided {
            Ok(()) => Ok(run),
            Err(error) => {
                let kind = AgentErrorKind::InvalidInput(error.to_string());
                Err(AgentError::from(kind).with_run(run.transcript, run.head.usage))
            }
        }
    }
}

fn unreadable(error: &serde_json::Error) -> AgentErrorKind {
    AgentErrorKind::InvalidInput(format!("the suspended run cannot be read: {error}"))
}
