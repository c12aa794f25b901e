//! Decisions that a run remembers for later calls.

use std::mem;

use haft_core::{
    call::{ApprovalRule, Approvals, Decision, PendingCall, PendingKind},
    tool::RunContext,
};

use super::Run;

impl Run {
    /// Returns the decisions that the run [remembers](Decision::for_tool). They are saved with the
    /// run.
    pub fn approval_rules(&self) -> &[ApprovalRule] {
        &self.head.approvals
    }

    /// Prepares `context` and this run for remembered decisions. A driver calls this method before
    /// its first step.
    ///
    /// - The principal of `context` becomes the principal of the run. New rules apply to this
    ///   principal.
    /// - The rules that were added since the previous call of this method, or since the run was
    ///   loaded, are added to [`RunContext::approvals`], if it is set. It is then replaced with a
    ///   handle that also contains the other rules of the run.
    /// - Each call that waits for an approval and is covered by a rule gets its decision.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{call::Approvals, tool::RunContext};
    /// use haft_react::{Run, RunConfig};
    ///
    /// let approvals = Approvals::new();
    /// let mut context = RunContext { approvals: Some(approvals), ..RunContext::default() };
    /// let mut run = Run::new(&RunConfig::default(), "Pay the invoice.".into())?;
    /// run.apply_approvals(&mut context);
    /// # Ok::<(), haft_core::agent::AgentError>(())
    /// ```
    pub fn apply_approvals(&mut self, context: &mut RunContext) {
        self.set_principal(context);
        let new = mem::take(&mut self.new_approvals);
        if let Some(host) = &context.approvals {
            host.extend(new);
        }
        if !self.head.approvals.is_empty() {
            let all = Approvals::new();
            all.extend(context.approvals.iter().flat_map(Approvals::rules));
            all.extend(self.head.approvals.iter().cloned());
            context.approvals = Some(all);
        }
        if let Some(approvals) = &context.approvals {
            let rules = approvals.rules();
            self.decide_covered_calls(&rules);
        }
    }

    /// Sets the principal of the run to the principal of `context`.
    pub(super) fn set_principal(&mut self, context: &RunContext) {
        let principal = context.principal.as_ref().map(|it| it.id.as_str());
        if self.head.principal.as_deref() != principal {
            self.head.principal = principal.map(str::to_owned);
        }
    }

    /// Returns the rules that `decision` about the waiting call with this `id` creates.
    pub(super) fn rules_of(&self, id: &str, decision: &Decision) -> Vec<ApprovalRule> {
        if let Decision::Nested { decisions } = decision {
            return decisions.iter().flat_map(|(id, decision)| self.rules_of(id, decision)).collect();
        }
        let (Decision::Approved { remember: Some(_), .. } | Decision::Denied { remember: Some(_), .. }) =
            decision
        else {
            return Vec::new();
        };
        let call = self.undecided_calls().into_iter().find(|it| it.call.id == id);
        let rule = call.and_then(|call| ApprovalRule::new(self.head.principal.as_deref(), &call, decision));
        Vec::from_iter(rule)
    }

    /// Remembers `rules` in the run.
    pub(super) fn remember(&mut self, rules: Vec<ApprovalRule>) {
        for rule in rules {
            rule.clone().add_to(&mut self.head.approvals);
            rule.add_to(&mut self.new_approvals);
        }
    }

    /// Decides each waiting call that a rule of this run covers.
    pub(super) fn decide_remembered(&mut self) {
        if !self.head.approvals.is_empty() {
            let rules = mem::take(&mut self.head.approvals);
            self.decide_covered_calls(&rules);
            self.head.approvals = rules;
        }
    }

    fn decide_covered_calls(&mut self, rules: &[ApprovalRule]) {
        for PendingCall { call, pending } in self.undecided_calls() {
            let PendingKind::Approval { arguments } = &pending.kind else { continue };
            let principal = self.head.principal.as_deref();
            let definition = || pending.definition.clone();
            let rule = ApprovalRule::find(rules, principal, &call.name, definition, arguments);
            if let (Some(rule), Some(batch)) = (rule, self.head.state.batch_mut()) {
                // An approval or a denial fits each call that waits for an approval.
                let _ = batch.calls.decide(&call.id, rule.decision());
            }
        }
    }

    /// Returns the calls that wait for a decision and have none yet. A waiting call of a child
    /// agent is returned itself, instead of the call to the agent.
    pub(super) fn undecided_calls(&self) -> Vec<PendingCall> {
        self.head.state.batch().map(|batch| batch.calls.undecided_calls()).unwrap_or_default()
    }
}
