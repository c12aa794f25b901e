//! The driver of a run: a loop over its effects.

use futures::StreamExt as _;
use haft_core::{
    RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind},
    tool::RunContext,
};
use tracing::Instrument as _;

use super::{ReactAgent, events::EventSink, handle::Mailbox, perform::Outcomes, scope::RunScope};
use crate::{Effect, Run, host_panic::model_name};

/// An agent or a group of agents that performs the effects of a run.
pub(crate) trait Perform: Sync {
    fn perform_effect(&self, run: &Run, effect: Effect, scope: &RunScope) -> Outcomes;
}

impl Perform for ReactAgent {
    fn perform_effect(&self, run: &Run, effect: Effect, scope: &RunScope) -> Outcomes {
        self.perform(run, effect, scope)
    }
}

impl ReactAgent {
    /// Creates a run from `input`, and drives it until it ends or is suspended.
    pub(super) async fn run_to_end(
        &self,
        input: RunInput,
        events: &EventSink,
    ) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        // Dropping the mailbox closes the handle, even if no run can be created.
        let mailbox = Mailbox::attach(&context);
        let mut run = self.create_run(input)?;
        let scope = RunScope::attach(&mut run, context, mailbox, events.clone());
        let span = self.span(&scope);
        drive_owned(self, run, scope).instrument(span).await.map(|(output, _)| output)
    }

    /// Drives `run` until it ends or is suspended. After an error, the caller can continue the run.
    pub(super) async fn drive_to_end(
        &self,
        run: &mut Run,
        context: RunContext,
        events: &EventSink,
    ) -> Result<RunOutput, AgentError> {
        run.set_checks(self.0.config.checks);
        let mailbox = Mailbox::attach(&context);
        let scope = RunScope::attach(run, context, mailbox, events.clone());
        let output = drive(self, run, &scope).instrument(self.span(&scope)).await;
        scope.close(run);
        output
    }

    pub(crate) fn span(&self, scope: &RunScope) -> tracing::Span {
        tracing::info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.request.model = model_name(&*self.0.model),
            haft.run.id = scope.run_id(),
        )
    }
}

/// Drives `run` until it ends or is suspended. Returns the output and the name of the last agent in
/// a group. A run that fails is cancelled, so that the scope returns its undelivered messages to
/// the [`RunHandle`](crate::RunHandle).
pub(crate) async fn drive_owned(
    performer: &impl Perform,
    mut run: Run,
    scope: RunScope,
) -> Result<(RunOutput, Option<String>), AgentError> {
    let output = drive(performer, &mut run, &scope).await;
    if output.is_err() {
        run.cancel();
    }
    scope.close(&mut run);
    Ok((output?, run.agent().map(str::to_owned)))
}

/// Performs the effects of `run` until it ends or is suspended. A cancelled run is
/// [cancelled](Run::cancel), which closes its open calls.
pub(crate) async fn drive(
    performer: &impl Perform,
    run: &mut Run,
    scope: &RunScope,
) -> Result<RunOutput, AgentError> {
    let result = perform_effects(performer, run, scope).await;
    if let Err(AgentErrorKind::Cancelled) = result {
        run.cancel();
    }
    scope.settle(run);
    result.map_err(|kind| {
        AgentError::from(kind).with_transcript_and_usage(run.closed_transcript(), run.usage())
    })
}

async fn perform_effects(
    performer: &impl Perform,
    run: &mut Run,
    scope: &RunScope,
) -> Result<RunOutput, AgentErrorKind> {
    loop {
        if scope.is_cancelled() {
            return Err(AgentErrorKind::Cancelled);
        }
        scope.emit_events(run).await;
        let effect = run.next(scope.now())?;
        let output = match &effect {
            Effect::Wait(_) => Some(RunOutput::Suspended(run.to_suspended()?)),
            Effect::Done(answer) => Some(RunOutput::Answer(answer.clone())),
            _ => None,
        };
        let mut outcomes = performer.perform_effect(run, effect, scope);
        let mut has_outcome = false;
        while let Some(outcome) = outcomes.next().await {
            has_outcome = true;
            let applied = outcome.and_then(|outcome| run.apply(outcome, scope.now()));
            scope.emit_events(run).await;
            applied?;
        }
        if let Some(output) = output.filter(|_| !has_outcome) {
            return Ok(output);
        }
    }
}
