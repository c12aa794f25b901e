//! Suspended runs as data.

use haft_core::{
    agent::{AgentError, AgentErrorKind, Parked},
    call::Decisions,
};

use super::Run;

impl Run {
    /// The run as a [`Parked`] value: the calls that wait, and everything needed to continue.
    ///
    /// # Errors
    ///
    /// Fails only if the run has no JSON form. Runs from `new` or from JSON always have one.
    pub fn park(&self) -> Result<Parked, AgentErrorKind> {
        let state = serde_json::to_value(self).map_err(|error| unreadable(&error))?;
        Ok(Parked { pending: self.pending(), state })
    }

    /// Restores a parked run.
    ///
    /// # Errors
    ///
    /// Fails if the state was written by another agent or a newer version.
    pub fn unpark(parked: Parked) -> Result<Self, AgentErrorKind> {
        serde_json::from_value(parked.state).map_err(|error| unreadable(&error))
    }

    pub(super) fn resume(parked: Parked, decisions: Decisions) -> Result<Self, AgentError> {
        let mut run = Self::unpark(parked)?;
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
    AgentErrorKind::InvalidInput(format!("the parked run cannot be read: {error}"))
}
