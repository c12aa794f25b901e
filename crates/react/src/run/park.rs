//! Runs that wait, as data for whoever keeps them.

use haft_core::{
    agent::{AgentError, AgentErrorKind, Parked},
    call::Answers,
};

use super::{Phase, Run};

impl Run {
    /// This run as a [`Parked`] one: what it waits for, and all that is needed to go on.
    ///
    /// # Errors
    ///
    /// Fails only if the run has no JSON form, which no run that came from `new` or from JSON lacks.
    pub fn park(&self) -> Result<Parked, AgentErrorKind> {
        let pending = match &self.head.phase {
            Phase::Calling { calls, .. } => calls.pending(),
            _ => Vec::new(),
        };
        let state = serde_json::to_value(self).map_err(|error| unreadable(&error))?;
        Ok(Parked { pending, state })
    }

    /// Takes up a parked run.
    ///
    /// # Errors
    ///
    /// Fails when the state was written by another agent or a newer version.
    pub fn unpark(parked: Parked) -> Result<Self, AgentErrorKind> {
        serde_json::from_value(parked.state).map_err(|error| unreadable(&error))
    }

    pub(super) fn resume(parked: Parked, answers: Answers) -> Result<Self, AgentError> {
        let mut run = Self::unpark(parked)?;
        let answered = answers.into_iter().try_for_each(|(id, answer)| run.on_answer(&id, answer));
        match answered {
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
