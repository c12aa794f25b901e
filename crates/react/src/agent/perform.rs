//! Performs the effects of a run: everything that is I/O or code of the host program.

mod calls;
mod chat;
mod check;
mod prepare;
mod pushed;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    future::{BoxFuture, FutureExt as _, ready},
    stream::{BoxStream, Stream, StreamExt as _},
};
use haft_core::{
    Message,
    agent::{AgentErrorKind, Limit},
    call::Approvals,
    message::TranscriptView,
    tool::RunContext,
};
use tokio::{runtime::Handle, sync::mpsc};
use tracing::Instrument as _;

use super::{ReactAgent, clock::with_time_limit, scope::RunScope};
use crate::{Effect, Outcome, Run, compaction, hook::HookContext, run::Delivery};

/// The outcomes of an effect.
pub(crate) type Outcomes = BoxStream<'static, Result<Outcome, AgentErrorKind>>;

/// The last outcome of an effect, if it has one.
type LastOutcome = Result<Option<Outcome>, AgentErrorKind>;

/// Sends outcomes to the driver before the effect has ended.
type OutcomeSender = mpsc::Sender<Outcome>;

/// An effect that is being performed.
struct Performer {
    agent: ReactAgent,
    /// The run when the effect was returned. It shares its transcript with the run of the driver,
    /// so it is dropped before the last outcome is yielded.
    run: Run,
    scope: RunScope,
    context: Arc<RunContext>,
}

impl ReactAgent {
    /// Performs `effect`, the last effect of `run`, and yields its outcomes for [`Run::apply`]: one
    /// for each call of [`Effect::Call`], and one for the other effects. Changed entries of
    /// extensions, the usage of a reply and the use of nested runs are outcomes of their own. See
    /// [`RunScope`] for a driver.
    ///
    /// Messages from a [`RunHandle`](crate::RunHandle) are outcomes of [`Effect::Prepare`],
    /// [`Effect::Wait`] and [`Effect::Done`]. [`Effect::Wait`] also yields the remembered
    /// [decisions](haft_core::call::Approvals). If [`Effect::Wait`] or [`Effect::Done`] yields
    /// nothing, the driver has nothing more to do.
    ///
    /// The stream lists the tools, runs the hooks, sends model requests and executes calls. It
    /// emits the events of the run, if they have a reader. An error is its last item: the driver
    /// stops, and `run` stays valid. It needs a tokio runtime with a timer.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts the effect. An aborted call may have had side effects. If the
    /// token in the context of the run is cancelled, a model request is aborted, and calls and
    /// hooks get the time to end. The stream then ends with [`AgentErrorKind::Cancelled`].
    pub fn perform(&self, run: &Run, effect: Effect, scope: &RunScope) -> Outcomes {
        scope.budget().report(run);
        let context = scope.context_of(self);
        let this = Performer { agent: self.clone(), run: run.clone(), scope: scope.clone(), context };
        let this = Box::new(this);
        outcome_stream(scope, |outcomes| match effect {
            Effect::Prepare => this.prepare_request(outcomes).boxed(),
            Effect::Chat => this.chat(outcomes).boxed(),
            Effect::Call(batch) => this.call(batch, outcomes).boxed(),
            Effect::Check(check) => this.check(check, outcomes).boxed(),
            Effect::Compact(part) => this.compact(part).boxed(),
            Effect::Handoff(handoff) => {
                let problem = format!("a hand-off by {:?} needs a `HandoffGroup`", handoff.tool);
                ready(Err(AgentErrorKind::UnexpectedOutcome(problem))).boxed()
            }
            Effect::Wait(_) => this.decide(outcomes).boxed(),
            Effect::Done(_) => this.continue_or_close(outcomes).boxed(),
        })
    }
}

impl Performer {
    fn hook_context(&self) -> HookContext {
        self.scope.hook_context(&self.run, &self.context)
    }

    /// Returns the outcome of an effect that the time limit of the run has ended.
    fn time_is_up(&self) -> Outcome {
        Outcome::LimitReached(Limit::Time(self.run.config().limits.time.unwrap_or_default()))
    }

    /// Awaits `work`, or returns [`AgentErrorKind::Cancelled`] when the run is cancelled.
    async fn or_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, AgentErrorKind>>,
    ) -> Result<T, AgentErrorKind> {
        tokio::select! {
            biased;
            output = work => output,
            () = self.context.cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
        }
    }

    /// Performs [`Effect::Wait`]: decides the waiting calls that a remembered decision covers, and
    /// reports all messages, which are saved with the run.
    async fn decide(self: Box<Self>, outcomes: OutcomeSender) -> LastOutcome {
        send_messages(self.scope.mailbox().take_all(&self.run), &outcomes).await;
        let rules = self.context.approvals.as_ref().map(Approvals::rules).unwrap_or_default();
        for (id, decision) in self.run.covered_decisions(&rules) {
            send(&outcomes, Outcome::Decided { id, decision }).await;
        }
        Ok(None)
    }

    /// Performs [`Effect::Done`]: reports the messages that continue the run, or closes the
    /// [`RunHandle`](crate::RunHandle).
    async fn continue_or_close(self: Box<Self>, outcomes: OutcomeSender) -> LastOutcome {
        send_messages(self.scope.mailbox().take_or_close(&self.run), &outcomes).await;
        Ok(None)
    }

    /// Performs [`Effect::Compact`]: summarizes `part` with the compactor model within the
    /// remaining time of the run.
    async fn compact(self: Box<Self>, part: TranscriptView) -> LastOutcome {
        self.scope.mailbox().check_stop()?;
        let span = tracing::info_span!("compact", haft.messages = part.len());
        self.scope.budget().take_request().map_err(AgentErrorKind::LimitReached)?;
        let compactor = Arc::clone(&self.agent.0.compactor);
        let summary = async move { compaction::summarize(&*compactor, &part).await }.instrument(span);
        let summary = self.or_cancelled(with_time_limit(self.run.time_left(), summary)).await?;
        Ok(Some(match summary {
            Some(summary) => Outcome::Compacted(summary.map(Box::new)),
            None => self.time_is_up(),
        }))
    }
}

/// Creates the stream of the outcomes that `perform` sends, followed by the changed entries and the
/// outcome that it returns.
pub(crate) fn outcome_stream(
    scope: &RunScope,
    perform: impl FnOnce(OutcomeSender) -> BoxFuture<'static, LastOutcome>,
) -> Outcomes {
    let (sender, sent) = mpsc::channel(1);
    let work = perform(sender);
    let work = async move {
        // Timers and tasks panic without a runtime.
        Handle::try_current().map_err(|_| AgentErrorKind::NoRuntime)?;
        work.await
    };
    OutcomeStream { scope: scope.clone(), sent, work: Some(work.boxed()), last: None }.boxed()
}

/// Sends `outcome` to the driver. If the driver was dropped, the effect is being dropped, too.
async fn send(outcomes: &OutcomeSender, outcome: Outcome) {
    let _ = outcomes.send(outcome).await;
}

/// Sends the messages for the model to the driver.
async fn send_messages(messages: Vec<(Message, Delivery)>, outcomes: &OutcomeSender) {
    for (message, delivery) in messages {
        send(outcomes, Outcome::Enqueued { message: Box::new(message), delivery }).await;
    }
}

/// Sends the outcome that `take` returns. `take` is called when the driver can receive it, so that
/// the outcome is not lost if the driver stops before.
async fn send_if(outcomes: &OutcomeSender, take: impl FnOnce() -> Option<Outcome>) {
    if let Ok(permit) = outcomes.reserve().await
        && let Some(outcome) = take()
    {
        permit.send(outcome);
    }
}

struct OutcomeStream {
    scope: RunScope,
    sent: mpsc::Receiver<Outcome>,
    /// The future that performs the effect. `None` after it has ended: it is dropped before its
    /// last outcome is yielded.
    work: Option<BoxFuture<'static, LastOutcome>>,
    last: Option<Result<Outcome, AgentErrorKind>>,
}

impl Stream for OutcomeStream {
    type Item = Result<Outcome, AgentErrorKind>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(ended) = work.poll_unpin(cx)
        {
            (self.work, self.last) = (None, ended.transpose());
            self.sent.close();
        }
        match self.sent.poll_recv(cx) {
            Poll::Ready(Some(outcome)) => Poll::Ready(Some(Ok(outcome))),
            // An effect that sends nothing has dropped its sender.
            Poll::Ready(None) if self.work.is_none() => {
                let entries = self.scope.changed_entries().map(Ok);
                Poll::Ready(entries.or_else(|| self.last.take()))
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
