//! Changes to the configuration of a run between steps.

use super::{Run, RunConfig, context::ContextRange};

impl Run {
    /// Replaces the configuration of the run with `config`, for example because another agent takes
    /// over.
    ///
    /// The limits of the run and the overrides from its input stay in effect. Turns and steps that
    /// this run has omitted, [hidden](Self::hide_steps) or summarized are sent again. The counters
    /// of rejected replies and retries are reset, and the run uses the dialect of the agent instead
    /// of its [fallback](Self::uses_fallback_dialect), because the agent can have another model.
    /// Inputs that are already prepared are discarded, so
    /// [`Effect::Prepare`](super::Effect::Prepare) precedes the next request.
    pub fn reconfigure(&mut self, config: &RunConfig) {
        let head = &mut self.head;
        head.config = RunConfig { limits: head.config.limits, ..config.clone() };
        head.overrides.apply(&mut head.config);
        head.rejected_replies = 0;
        head.uses_fallback_dialect = false;
        head.failed_attempts.clear();
        head.context_range =
            head.context_range.restarted(self.transcript.messages(), head.first_message, head.first_step);
        head.state.discard_inputs();
    }

    /// Excludes all steps that this run has made so far from later requests. The input of the run,
    /// [enqueued](Self::enqueue) messages and new steps are still sent.
    pub fn hide_steps(&mut self) {
        self.head.context_range.hide_steps(self.transcript.len());
    }
}

impl ContextRange {
    fn hide_steps(&mut self, until: usize) {
        (self.steps, self.hidden) = (until, until);
    }
}
