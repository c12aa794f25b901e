//! Decisions about waiting calls: remembered decisions, and suspended runs.

use std::mem;

use haft_core::{
    Message,
    agent::{AgentError, AgentErrorKind, SuspendedRun},
    call::{ApprovalRule, Approvals, Decision, Decisions, PendingCall, PendingKind},
    tool::RunContext,
};

use super::{
    Delivery, Run, RunError,
    state::{Batch, State, Transition},
};

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

    /// Restores the run from `suspended`, applies `decisions` and enqueues `messages`. `context`
    /// contains the principal of the run.
    pub(super) fn resume(
        suspended: SuspendedRun,
        decisions: Decisions,
        messages: Vec<Message>,
        context: &RunContext,
    ) -> Result<Self, AgentError> {
        let mut run = Self::from_suspended(suspended)?;
        run.set_principal(context);
        match run.apply_decisions(decisions, messages) {
            Ok(()) => Ok(run),
            Err(problem) => {
                let kind = AgentErrorKind::InvalidInput(problem);
                Err(AgentError::from(kind).with_transcript_and_usage(run.transcript, run.data.counts.usage))
            }
        }
    }

    fn apply_decisions(&mut self, decisions: Decisions, messages: Vec<Message>) -> Result<(), String> {
        for (id, decision) in decisions {
            let mut state = self.take_state();
            let decided = self.decide_in(&mut state, &id, decision);
            self.data.state = state;
            decided.map_err(|error| error.to_string())?;
        }
        let mut state = self.take_state();
        if let Some(batch) = state.batch_mut() {
            self.decide_remembered(batch);
        }
        self.data.state = state;
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
        let undecided =
            self.data.state.batch().map(|batch| batch.calls.undecided_calls()).unwrap_or_default();
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

    /// `Calling`, `Suspended` or `Checking`: stores `decision`, the decision about a waiting call.
    pub(super) fn decide(&mut self, mut state: State, id: &str, decision: Decision) -> Transition {
        match self.decide_in(&mut state, id, decision) {
            Ok(()) => state.go(),
            Err(error) => state.fail(error),
        }
    }

    fn decide_in(&mut self, state: &mut State, id: &str, decision: Decision) -> Result<(), RunError> {
        let not_waiting = || RunError::CallNotWaiting { id: id.to_owned(), waiting: "none".to_owned() };
        let batch = state.batch_mut().ok_or_else(not_waiting)?;
        let rules = self.rules_of(batch, id, &decision);
        batch.calls.decide(id, decision)?;
        for rule in rules {
            rule.clone().add_to(&mut self.data.approvals);
            rule.add_to(&mut self.new_approvals);
        }
        Ok(())
    }

    /// Returns the decisions that the run [remembers](Decision::for_tool). They are saved with the
    /// run.
    pub fn approval_rules(&self) -> &[ApprovalRule] {
        &self.data.approvals
    }

    /// Prepares `context` and this run for remembered decisions, before a driver takes its first
    /// effect.
    ///
    /// - The principal of `context` becomes the principal of the run. New rules apply to this
    ///   principal.
    /// - The rules that were added since the previous call of this method, or since the run was
    ///   loaded, are added to [`RunContext::approvals`], if it is set. It is then replaced with a
    ///   handle that also contains the other rules of the run.
    pub(crate) fn apply_approvals(&mut self, context: &mut RunContext) {
        self.set_principal(context);
        let new = mem::take(&mut self.new_approvals);
        if let Some(host) = &context.approvals {
            host.extend(new);
        }
        if !self.data.approvals.is_empty() {
            let all = Approvals::new();
            all.extend(context.approvals.iter().flat_map(Approvals::rules));
            all.extend(self.data.approvals.iter().cloned());
            context.approvals = Some(all);
        }
    }

    /// Sets the principal of the run to the principal of `context`.
    pub(super) fn set_principal(&mut self, context: &RunContext) {
        let principal = context.principal.as_ref().map(|it| it.id.as_str());
        if self.data.principal.as_deref() != principal {
            self.data.principal = principal.map(str::to_owned);
        }
    }

    /// Returns the rules that `decision` about the waiting call with this `id` creates.
    fn rules_of(&self, batch: &Batch, id: &str, decision: &Decision) -> Vec<ApprovalRule> {
        if let Decision::Nested { decisions } = decision {
            return decisions.iter().flat_map(|(id, decision)| self.rules_of(batch, id, decision)).collect();
        }
        let (Decision::Approved { remember: Some(_), .. } | Decision::Denied { remember: Some(_), .. }) =
            decision
        else {
            return Vec::new();
        };
        let call = batch.calls.undecided_calls().into_iter().find(|it| it.call.id == id);
        let rule = call.and_then(|call| ApprovalRule::new(self.data.principal.as_deref(), &call, decision));
        Vec::from_iter(rule)
    }

    /// Decides each waiting call of `batch` that a rule of this run covers.
    pub(super) fn decide_remembered(&self, batch: &mut Batch) {
        if self.data.approvals.is_empty() {
            return;
        }
        for (id, decision) in self.covered_decisions_in(batch, &self.data.approvals) {
            // An approval or a denial fits each call that waits for an approval.
            let _ = batch.calls.decide(&id, decision);
        }
    }

    /// Returns the decisions about the calls that wait for an approval and that one of `rules`
    /// covers, each with the id of its call.
    pub(crate) fn covered_decisions(&self, rules: &[ApprovalRule]) -> Vec<(String, Decision)> {
        let batch = self.data.state.batch().filter(|_| !rules.is_empty());
        batch.map(|batch| self.covered_decisions_in(batch, rules)).unwrap_or_default()
    }

    fn covered_decisions_in(&self, batch: &Batch, rules: &[ApprovalRule]) -> Vec<(String, Decision)> {
        let principal = self.data.principal.as_deref();
        let decide = |PendingCall { call, pending }: PendingCall| {
            let PendingKind::Approval { arguments } = &pending.kind else { return None };
            let definition = || pending.definition.clone();
            let rule = ApprovalRule::find(rules, principal, &call.name, definition, arguments)?;
            Some((call.id, rule.decision()))
        };
        batch.calls.undecided_calls().into_iter().filter_map(decide).collect()
    }
}

fn unreadable_error(error: &serde_json::Error) -> AgentErrorKind {
    AgentErrorKind::InvalidInput(format!("the suspended run cannot be read: {error}"))
}
