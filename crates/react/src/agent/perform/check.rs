//! The judgement of hooks about inputs, calls, results and answers.

use futures::future::join_all;
use haft_core::agent::AgentErrorKind;

use super::{OutcomeSender, Performance};
use crate::{
    Outcome,
    agent::clock::with_time_limit,
    run::{Check, CheckVerdict, Checked, ReadyCall},
};

impl Performance {
    /// Performs [`Effect::Check`](crate::Effect::Check). Inputs and calls are judged within the
    /// remaining time of the run. A received answer waits for the hooks, whose own timeout applies.
    pub(super) async fn check(
        self,
        check: Check,
        outcomes: OutcomeSender,
    ) -> Result<Option<Outcome>, AgentErrorKind> {
        let (hooks, cx) = (&self.agent.0.hooks, self.hook_context());
        let checked = match check {
            Check::Input(messages) => {
                let judged = with_time_limit(self.run.time_left(), hooks.judge_input(messages, &cx)).await?;
                let Some(judged) = judged else { return Ok(Some(self.time_is_up())) };
                let (verdict, reports) = judged?;
                Checked { verdict: CheckVerdict::Input(verdict), reports }
            }
            Check::Calls(calls) => {
                let judged =
                    with_time_limit(self.run.time_left(), self.judge_calls(&calls, &outcomes)).await?;
                let Some(judged) = judged else { return Ok(Some(self.time_is_up())) };
                judged?
            }
            Check::Results(calls) => {
                let (verdict, reports) = hooks.judge_results(calls, &cx).await?;
                Checked { verdict: CheckVerdict::Results(verdict), reports }
            }
            Check::Answer(output) => {
                let (verdict, reports) = hooks.judge_answer(*output, &cx).await?;
                Checked { verdict: CheckVerdict::Answer(verdict), reports }
            }
        };
        Ok(Some(Outcome::Checked(checked)))
    }

    /// Judges the calls concurrently.
    async fn judge_calls(
        &self,
        calls: &[ReadyCall],
        outcomes: &OutcomeSender,
    ) -> Result<Checked, AgentErrorKind> {
        let inputs = self.inputs(outcomes).await?;
        let (cx, pipeline) = (self.hook_context(), self.agent.0.tools.pipeline());
        let hooks = &self.agent.0.hooks;
        let judged = calls.iter().map(|ready| hooks.judge_call(ready, pipeline, &inputs.tools, &cx));
        let (mut verdicts, mut reports) = (Vec::new(), Vec::new());
        for (ready, judged) in calls.iter().zip(join_all(judged).await) {
            let (verdict, new) = judged?;
            verdicts.push((ready.call.id.clone(), verdict));
            reports.extend(new);
        }
        Ok(Checked { verdict: CheckVerdict::Calls(verdicts), reports })
    }
}
