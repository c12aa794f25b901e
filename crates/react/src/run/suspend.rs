//! Conversion of runs to and from [`SuspendedRun`].

use haft_core::{
    Message,
    agent::{AgentError, AgentErrorKind, SuspendedRun},
    call::Decisions,
    tool::RunContext,
};

use super::{Delivery, Effect, Run};

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

    /// Returns the next effect of a suspended run: the calls with a decision are resumed, or all
    /// calls still wait.
    pub(super) fn resume_or_wait(&mut self) -> Effect {
        self.decide_remembered();
        match self.head.state.batch() {
            Some(batch) if !batch.calls.has_ready() => Effect::Wait(batch.calls.pending_calls()),
            _ => {
                self.head.state.resume_calls();
                Effect::Prepare
            }
        }
    }

    /// Restores the run from `suspended`, reports `decisions` to it and enqueues `messages`.
    /// `context` contains the principal of the run.
    pub(super) fn resume(
        suspended: SuspendedRun,
        decisions: Decisions,
        messages: Vec<Message>,
        context: &RunContext,
    ) -> Result<Self, AgentError> {
        let mut run = Self::from_suspended(suspended)?;
        run.set_principal(context);
        match run.report_decisions(decisions, messages) {
            Ok(()) => Ok(run),
            Err(problem) => {
                let kind = AgentErrorKind::InvalidInput(problem);
                Err(AgentError::from(kind).with_transcript_and_usage(run.transcript, run.head.usage))
            }
        }
    }

    fn report_decisions(&mut self, decisions: Decisions, messages: Vec<Message>) -> Result<(), String> {
        for (id, decision) in decisions {
            self.on_decision(&id, decision).map_err(|error| error.to_string())?;
        }
        self.decide_remembered();
        if !messages.is_empty() {
            self.check_decided()?;
        }
        let mut messages = messages.into_iter();
        messages
            .try_for_each(|message| self.enqueue(message, Delivery::NextRequest))
            .map_err(|error| error.to_string())
    }

    /// Checks that a new prompt can follow the open calls: each of them has a decision.
    fn check_decided(&self) -> Result<(), String> {
        let undecided = self.undecided_calls();
        if undecided.is_empty() {
            return Ok(());
        }
        let calls: Vec<_> =
            undecided.iter().map(|it| format!("{:?} ({})", it.call.id, it.call.name)).collect();
        Err(format!(
            "a new prompt needs decisions about all suspended calls, and these have none: {}; decide about them, deny \
             them with `RunInput::deny_rest`, or resume the run without the prompt and send it later",
            calls.join(", ")
        ))
    }
}

fn unreadable_error(error: &serde_json::Error) -> AgentErrorKind {
    AgentErrorKind::InvalidInput(format!("the suspended run cannot be read: {error}"))
}
