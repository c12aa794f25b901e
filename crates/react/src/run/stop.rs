//! The request to stop a run after its current step.

use haft_core::agent::AgentErrorKind;

use super::Run;

impl Run {
    /// Requests that the run stops after its current step, or withdraws this request. The run then
    /// fails with [`AgentErrorKind::Stopped`] before its next model request, also if this is a
    /// request for a summary.
    ///
    /// A model request in flight is not interrupted, its calls are executed, and their results are
    /// recorded. If the reply contains the answer, the run validates it and ends with it.
    /// [Enqueued](Self::enqueue) messages are not delivered. If calls wait for decisions, the run
    /// waits. After the error, the request is withdrawn: the run remains valid, and
    /// [`next`](Self::next) continues it.
    ///
    /// The request is not saved with the run. With a [`ReactAgent`](crate::ReactAgent), use
    /// [`RunHandle::stop_after_step`](crate::RunHandle::stop_after_step).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Timestamp, agent::AgentErrorKind, toolset::ToolList};
    /// use haft_react::{Effect, NativeCalls, Run, RunConfig, Step};
    ///
    /// let mut run = Run::new(&RunConfig::default(), "Write a poem.".into())?;
    /// run.stop_after_step(true);
    ///
    /// let tools = ToolList::default();
    /// let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    /// assert!(matches!(run.next(&step)?, Effect::Prepare));
    /// assert!(matches!(run.next(&step), Err(AgentErrorKind::Stopped)));
    /// # Ok::<(), haft_core::agent::AgentError>(())
    /// ```
    pub fn stop_after_step(&mut self, stops: bool) {
        self.head.is_stopping = stops;
    }

    /// Returns `true` if the run [stops](Self::stop_after_step) before its next model request. A
    /// driver can then skip the preparation of this request.
    pub fn is_stopping(&self) -> bool {
        self.head.is_stopping
    }

    /// Fails if the run must stop before its next model request. A request for a summary is also a
    /// model request. If it is in flight, the run does not stop yet.
    pub(super) fn check_stop(&mut self) -> Result<(), AgentErrorKind> {
        if !self.head.is_stopping || self.head.context_range.is_summary_in_flight {
            return Ok(());
        }
        self.head.is_stopping = false;
        self.discard_compaction();
        self.head.state.discard_inputs();
        Err(AgentErrorKind::Stopped)
    }
}
