//! Hand-offs: the state `HandingOff`.

use haft_core::Message;

use super::{
    NextAgent, Run, RunConfig,
    data::Purpose,
    state::{State, Transition},
    window::{Pressure, Window},
};
use crate::transcript::marks::hand_off_message;

impl Run {
    /// `HandingOff`: continues the run with another agent.
    ///
    /// The limits of the run and the overrides from its input stay in effect. Turns and steps that
    /// this run has omitted, hidden or summarized are sent again, unless `next` hides them. The
    /// counters of rejected replies and retries are reset, and the run uses the dialect of the
    /// agent instead of a fallback, because the agent can have another model.
    pub(super) fn hand_over(&mut self, next: NextAgent) -> Transition {
        let NextAgent { name, config, reason, hides_steps } = next;
        let data = &mut self.data;
        data.config = RunConfig { limits: data.config.limits, ..config };
        data.overrides.apply(&mut data.config);
        data.counts.rejected_replies = 0;
        data.counts.failed_attempts.clear();
        data.counts.hand_offs += 1;
        data.uses_fallback_dialect = false;
        data.purpose = Purpose::Step;
        data.window = Window::at_start(self.transcript.messages(), data.first_message);
        data.pressure = Pressure::default();
        if hides_steps {
            data.window.hide_steps(self.transcript.len());
        }
        let note: Message = hand_off_message(&name, &reason);
        data.agent = Some(name);
        self.push(note);
        State::Ready.go()
    }

    /// Sets the name and the configuration of the agent that starts the run, in a group of agents.
    pub(crate) fn start_with(&mut self, agent: &str) {
        self.data.agent = Some(agent.to_owned());
    }
}
