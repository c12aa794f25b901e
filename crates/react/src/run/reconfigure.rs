//! Changes of the configuration between steps.

use super::{Run, RunConfig, context::ContextWindow};

impl Run {
    /// Replaces the configuration, for example because another agent takes over.
    ///
    /// The limits of the run and the overrides of its input stay. The whole conversation is sent
    /// again: omissions and summaries were specific to the previous model. Counters of rejected
    /// replies and retries start again, and the next effect before a request is
    /// [`Effect::Prepare`](super::Effect::Prepare).
    pub fn reconfigure(&mut self, config: &RunConfig) {
        let head = &mut self.head;
        head.config = RunConfig { limits: head.config.limits, ..config.clone() };
        head.overrides.apply(&mut head.config);
        head.rejected_replies = 0;
        head.tool_retries.clear();
        head.window = head.window.restarted(self.transcript.messages(), head.first_message, head.first_step);
        head.state.discard_inputs();
    }

    /// Omits the steps of this run so far from requests. The input of the run and later steps are
    /// still sent.
    pub fn hide_steps(&mut self) {
        self.head.window.hide_steps(self.transcript.len());
    }
}

impl ContextWindow {
    fn hide_steps(&mut self, until: usize) {
        self.steps = until;
    }
}
