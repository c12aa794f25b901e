//! Changes of the configuration between steps.

use super::{Run, RunConfig, context::ContextWindow};

impl Run {
    /// Replaces the configuration, for example because another agent takes over.
    ///
    /// The limits of the run and the overrides of its input stay. The model is shown the
    /// conversation from the beginning again: what was omitted or summarised was so for the other
    /// model. Counters of rejected replies and retries start again, and the next effect before a
    /// request is [`Effect::Prepare`](super::Effect::Prepare).
    pub fn reconfigure(&mut self, config: &RunConfig) {
        let head = &mut self.head;
        head.config = RunConfig { limits: head.config.limits, ..config.clone() };
        head.overrides.apply(&mut head.config);
        head.rejected_replies = 0;
        head.tool_retries.clear();
        head.window = head.window.restarted(self.transcript.messages(), head.first_message, head.first_step);
        head.state.discard_inputs();
    }

    /// Hides the steps of this run so far from the model. Its input and what follows are still
    /// shown.
    pub fn hide_steps(&mut self) {
        self.head.window.hide_steps(self.transcript.len());
    }
}

impl ContextWindow {
    fn hide_steps(&mut self, until: usize) {
        self.steps = until;
    }
}
