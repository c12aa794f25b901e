//! The judgement of hooks about inputs, calls, results and answers.

use futures::future::join_all;
use haft_core::agent::AgentErrorKind;

use super::{LastOutcome, OutcomeSender, Performer};
use crate::{
    Outcome,
    agent::clock::with_time_limit,
    hook::Judgement,
    run::{Check, CheckVerdict, NewArguments, ReadyCall},
};

impl Performer {
    /// Performs [`Effect::Check`](crate::Effect::Check). Inputs and calls are judged within the
    /// remaining time of the run. A received answer waits for the hooks, whose own timeout applies.
    pub(super) async fn check(self: Box<Self>, check: Check, outcomes: OutcomeSender) -> LastOutcome {
        let (hooks, cx) = (&self.agent.0.hooks, self.hook_context());
        let verdict = match check {
            Check::Input(messages) => {
                let judged = with_time_limit(self.run.time_left(), hooks.judge_input(messages, &cx)).await?;
                let Some(judged) = judged else { return Ok(Some(self.time_is_up())) };
                CheckVerdict::Input(judged?)
            }
            Check::Calls(calls) => {
                let judged =
                    with_time_limit(self.run.time_left(), self.judge_calls(&calls, &outcomes)).await?;
                let Some(judged) = judged else { return Ok(Some(self.time_is_up())) };
                CheckVerdict::Calls(judged?)
            }
            Check::Results(calls) => {
                let check = |output| self.run.check_structure(output);
                CheckVerdict::Results(hooks.judge_results(calls, &cx, check).await?)
            }
            Check::Answer(output) => {
                let check = |output: &_, changed| self.run.check_changed_output(output, changed);
                CheckVerdict::Answer(hooks.judge_answer(*output, &cx, check).await?)
            }
        };
        Ok(Some(Outcome::Checked(verdict)))
    }

    /// Judges the calls concurrently.
    async fn judge_calls(
        &self,
        calls: &[ReadyCall],
        outcomes: &OutcomeSender,
    ) -> Result<Vec<(String, Judgement<NewArguments>)>, AgentErrorKind> {
        let inputs = self.inputs(outcomes).await?;
        let (cx, pipeline) = (self.hook_context(), self.agent.0.tools.pipeline());
        let hooks = &self.agent.0.hooks;
        let judged = calls.iter().map(|ready| hooks.judge_call(ready, pipeline, &inputs.tools, &cx));
        let judged = calls.iter().zip(join_all(judged).await);
        judged.map(|(ready, judged)| Ok((ready.call.id.clone(), judged?))).collect()
    }
}
