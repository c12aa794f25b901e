//! The driver of a stored run.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use haft_core::{
    Message, RunOutput, Timestamp,
    agent::AgentErrorKind,
    tool::{Principal, RunContext},
};
use haft_react::{Effect, Outcome, Run, RunScope, run::Delivery};
use haft_session::{Lease, RequestKey, RunStatus, RunUpdate, SessionKey, SessionStore, StoreError};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    StoredAgent, StoredRunError,
    state::{ended_messages, failed_state_of, key_of, received_event},
};
use crate::{
    live::{Feed, LiveRun, write_events},
    sse::{error_event, output_event},
};

/// The time for which the events of a run are awaited after its end.
const WRITER_GRACE: Duration = Duration::from_secs(2);

/// The time for which calls in progress may end at the shutdown.
const CALL_GRACE: Duration = Duration::from_secs(20);

/// Messages for a run in progress.
pub(crate) struct InboxMessage {
    pub(crate) messages: Vec<Message>,
    pub(crate) delivery: Delivery,
    pub(crate) request: Option<RequestKey>,
    /// The receiver of the reply: the messages are stored, or the run does not accept them.
    pub(crate) reply: oneshot::Sender<Result<(), StoredRunError>>,
}

/// The signals for a run in progress.
pub(super) struct Signals {
    pub(super) inbox: mpsc::Receiver<InboxMessage>,
    /// Cancelled when the client of the run has left. The run is cancelled, unless it waits.
    pub(super) client_gone: CancellationToken,
}

/// The guard of a run that this process drives. Dropping it, also by a panic, reports the end of the
/// run.
pub(super) struct RunGuard {
    pub(super) stored: StoredAgent,
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) live: LiveRun,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.stored.0.live.remove(&self.tenant, &self.id, &self.live);
        self.live.ended.cancel();
    }
}

/// The reason why a driver stopped.
enum Stop {
    Agent(AgentErrorKind),
    Store(StoreError),
    /// The process ends: the run continues elsewhere.
    Shutdown,
}

impl From<AgentErrorKind> for Stop {
    fn from(error: AgentErrorKind) -> Self {
        Self::Agent(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl StoredAgent {
    /// Drives `run` until it ends or waits, and stores its end. Returns `true` if it waits.
    pub(super) async fn drive(
        &self,
        key: &SessionKey,
        mut run: Run,
        lease: Lease,
        context: RunContext,
        signals: Signals,
    ) -> bool {
        let (principal, cancellation) = (context.principal.clone(), context.cancellation.clone());
        let (scope, events) = RunScope::with_events(&mut run, context);
        let store = Arc::clone(&self.0.store);
        let feed = self.0.live.feed(key);
        let writer = write_events(Arc::clone(&store), key.clone(), lease.run.clone(), events, feed.clone());
        let writer = tokio::spawn(writer);
        let saved = run.transcript().len();
        let mut stored =
            Stored { store: &*store, lease, saved, principal, signals, cancellation, feed: feed.clone() };
        let driven = self.perform_all(&mut run, &scope, &mut stored).await;
        let is_cancelled = matches!(driven, Err(Stop::Agent(AgentErrorKind::Cancelled)));
        if let Err(Stop::Agent(_)) = driven {
            run.cancel();
        }
        scope.close(&mut run);
        let update = RunUpdate::default().with_usage(run.usage());
        let (update, last) = match driven {
            Ok(output) => {
                let status = match &output {
                    RunOutput::Answer(_) => RunStatus::Finished,
                    RunOutput::Suspended(_) => RunStatus::Suspended,
                };
                (update.with_status(status), Some(output_event(&output)))
            }
            Err(Stop::Agent(error)) => {
                let status = if is_cancelled { RunStatus::Cancelled } else { RunStatus::Failed };
                (update.with_status(status), Some(error_event(&error)))
            }
            Err(Stop::Shutdown) => (update.released(), None),
            Err(Stop::Store(error)) => {
                // Another process owns the run, or the store is away. The run is found again.
                tracing::error!(run = stored.lease.run, %error, "a run cannot be stored");
                writer.abort();
                return false;
            }
        };
        scope.emit_events(&mut run).await;
        drop(scope);
        // A blocked tool can hold a sender of events for ever.
        let mut writer = writer;
        if timeout(WRITER_GRACE, &mut writer).await.is_err() {
            writer.abort();
        }
        let is_suspended = update.status == Some(RunStatus::Suspended);
        // The last event is part of the end, and follows the others.
        let update = match last.clone() {
            Some(last) => update.with_event(last),
            None => update,
        };
        match stored.save_with(&run, update).await {
            Ok(number) => feed.push(number, &stored.lease.run, last.as_slice()),
            Err(error) => {
                tracing::error!(run = stored.lease.run, %error, "the end of a run cannot be stored");
            }
        }
        is_suspended
    }

    async fn perform_all(
        &self,
        run: &mut Run,
        scope: &RunScope,
        stored: &mut Stored<'_>,
    ) -> Result<RunOutput, Stop> {
        let mut beats = interval(self.0.lease / 3);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        stored.apply_decisions(run, scope.now()).await?;
        let mut is_client_gone = false;
        loop {
            stored.check_cancelled()?;
            let effect = run.next(scope.now())?;
            let output = match &effect {
                Effect::Wait(_) => {
                    if stored.apply_decisions(run, scope.now()).await? {
                        continue;
                    }
                    Some(RunOutput::Suspended(run.to_suspended()?))
                }
                Effect::Done(answer) => Some(RunOutput::Answer(answer.clone())),
                _ => None,
            };
            // After a crash, a request or a call in progress is known.
            if matches!(effect, Effect::Chat | Effect::Call(_)) {
                stored.save(run).await?;
            }
            let is_call = matches!(effect, Effect::Call(_));
            let mut stop = pin!(async {
                self.0.shutdown.cancelled().await;
                tokio::time::sleep(if is_call { CALL_GRACE } else { Duration::ZERO }).await;
            });
            let mut outcomes = self.0.agent.perform(run, effect, scope);
            let mut is_over = true;
            loop {
                let outcome = tokio::select! {
                    biased;
                    outcome = outcomes.next() => outcome,
                    Some(sent) = stored.signals.inbox.recv() => {
                        stored.receive(run, sent).await?;
                        continue;
                    }
                    () = stored.signals.client_gone.cancelled(), if !is_client_gone => {
                        is_client_gone = true;
                        // An approval outlives its client.
                        if run.undecided_calls().is_empty() {
                            stored.cancellation.cancel();
                        }
                        continue;
                    }
                    _ = beats.tick() => {
                        stored.renew(self.0.lease).await?;
                        continue;
                    }
                    () = &mut stop => return Err(Stop::Shutdown),
                };
                let Some(outcome) = outcome else { break };
                is_over = false;
                run.apply(outcome?, scope.now())?;
                // A result and an approval are stored before they are shown.
                stored.save(run).await?;
                scope.emit_events(run).await;
            }
            if let Some(output) = output.filter(|_| is_over) {
                let mut has_message = false;
                while let Ok(sent) = stored.signals.inbox.try_recv() {
                    stored.receive(run, sent).await?;
                    has_message = true;
                }
                if !has_message {
                    // Later messages wait until the end is stored.
                    stored.signals.inbox.close();
                    while let Some(sent) = stored.signals.inbox.recv().await {
                        stored.receive(run, sent).await?;
                        has_message = true;
                    }
                }
                stored.check_cancelled()?;
                if !has_message {
                    return Ok(output);
                }
                // The run ends or waits again, with the messages.
            }
            if self.0.shutdown.is_cancelled() {
                return Err(Stop::Shutdown);
            }
        }
    }
}

/// The stored part of a run.
struct Stored<'s> {
    store: &'s dyn SessionStore,
    lease: Lease,
    /// The number of stored messages of the transcript.
    saved: usize,
    principal: Option<Principal>,
    signals: Signals,
    cancellation: CancellationToken,
    feed: Feed,
}

impl Stored<'_> {
    async fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        self.save_with(run, RunUpdate::default()).await.map(drop)
    }

    /// Stores the run. Returns the number of the last event of the session.
    async fn save_with(&mut self, run: &Run, mut update: RunUpdate) -> Result<u64, StoreError> {
        let is_over = update.status.is_some_and(RunStatus::is_over);
        // The last event of a run that has failed.
        let error = update.events.iter().find_map(|event| event["error"].as_str().map(str::to_owned));
        let new = run.transcript().messages().get(self.saved..).unwrap_or_default();
        update.messages = if is_over { ended_messages(run, self.saved) } else { new.to_vec() };
        update.state = Some(failed_state_of(run, self.principal.as_ref(), error)?);
        let number = self.store.save(&self.lease, update).await?;
        self.saved = run.transcript().len();
        Ok(number)
    }

    /// Enqueues messages, and replies when they are stored.
    async fn receive(&mut self, run: &mut Run, sent: InboxMessage) -> Result<(), StoreError> {
        let InboxMessage { messages, delivery, request, reply } = sent;
        let mut next = run.clone();
        let event = received_event(&messages, delivery);
        let enqueued = messages.into_iter().try_for_each(|message| next.enqueue(message, delivery));
        let stored = match enqueued {
            Err(error) => Err(error.into()),
            Ok(()) => match self
                .save_with(&next, RunUpdate::default().of_request(request).with_event(event.clone()))
                .await
            {
                Ok(number) => {
                    *run = next;
                    self.feed.push(number, &self.lease.run, &[event]);
                    Ok(())
                }
                Err(error @ (StoreError::Repeated { .. } | StoreError::OtherRequest(_))) => Err(error.into()),
                Err(error) => return Err(error),
            },
        };
        // The sender may have left.
        let _ = reply.send(stored);
        Ok(())
    }

    /// Extends the lease. A store that is away for a short time is no reason to stop.
    async fn renew(&mut self, time: Duration) -> Result<(), StoreError> {
        match self.store.renew(&self.lease, time).await {
            Ok(lease) => self.lease = lease,
            Err(error @ (StoreError::LeaseLost(_) | StoreError::RunNotFound(_))) => return Err(error),
            Err(error) => tracing::warn!(run = self.lease.run, %error, "a lease cannot be extended"),
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), AgentErrorKind> {
        if self.cancellation.is_cancelled() { Err(AgentErrorKind::Cancelled) } else { Ok(()) }
    }

    /// Applies the stored decisions about waiting calls. Returns `true` if there was one.
    async fn apply_decisions(&self, run: &mut Run, now: Timestamp) -> Result<bool, Stop> {
        let waiting = run.undecided_calls();
        if waiting.is_empty() {
            return Ok(false);
        }
        let mut decisions = self.store.decisions(&self.lease.tenant, &self.lease.run).await?;
        let mut has_decided = false;
        for pending in waiting {
            if let Some(decision) = decisions.remove(&key_of(&pending)) {
                run.apply(Outcome::Decided { id: pending.call.id, decision }, now)?;
                has_decided = true;
            }
        }
        Ok(has_decided)
    }
}
