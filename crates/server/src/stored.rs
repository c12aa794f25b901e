//! Runs whose every step is stored.

mod abandoned;
mod driver;
mod error;
mod slots;
mod state;

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_core::{
    Message, RunInput, Timestamp, Transcript,
    agent::{AgentErrorKind, RunStart},
    call::Decision,
    tool::RunContext,
};
use haft_react::{ReactAgent, Run, run::Delivery};
use haft_session::{
    Conversation, Lease, NewRun, RequestKey, RunStatus, RunUpdate, SessionKey, SessionStore, StoreError,
    StoredRun,
};
use lru::LruCache;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    live::{LiveRun, LiveRuns},
    metrics::InProgress,
    sse::error_event,
};
use driver::{RunGuard, Signals};
use state::{ended_messages, is_key_of, key_of, new_id, received_event, state_of};

pub(crate) use driver::InboxMessage;
pub use error::StoredRunError;
pub(crate) use slots::{MAX_RUNS, RunSlots};
pub(crate) use state::{failure_of, load};

/// The time for which a process owns a run without a sign of life. It is renewed in a third of this
/// time.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// The number of times that a run is started again because another writer was faster.
const MAX_CONFLICTS: u32 = 8;

/// An agent whose runs are stored: every step is on disk before the next one begins.
///
/// A run belongs to a session, and continues its conversation. It runs on a task of its own, so it
/// does not depend on the client that started it. If the process ends, another process
/// [continues](Self::continue_abandoned) the run: a completed call is never repeated, and a call in
/// progress fails as unconfirmed unless its tool is idempotent.
#[derive(Clone)]
pub struct StoredAgent(Arc<Inner>);

struct Inner {
    agent: ReactAgent,
    store: Arc<dyn SessionStore>,
    live: LiveRuns,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    lease: Duration,
    slots: RunSlots,
    /// The conversations of the latest runs, so that a run reads only what is new.
    conversations: Mutex<LruCache<SessionKey, Conversation>>,
}

/// The maximum number of conversations in memory.
const MAX_CONVERSATIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// A new run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    /// The new messages of the user.
    pub messages: Vec<Message>,
    /// The context of the run, with its principal and its state.
    pub context: RunContext,
    /// `true` if the model does not receive the earlier conversation.
    pub is_fresh: bool,
    /// The identity of the request, if its client may repeat it.
    pub key: Option<RequestKey>,
}

impl StoredAgent {
    /// Creates an agent whose runs are stored in `store`. Needs a tokio runtime.
    pub fn new(agent: ReactAgent, store: Arc<dyn SessionStore>) -> Self {
        Self::with_lease(agent, store, LEASE)
    }

    /// Creates an agent like [`new`](Self::new). After the end of this process without an orderly
    /// shutdown, another process can continue its runs after the time `lease`, at least 1 s.
    /// Default: 15 s.
    pub fn with_lease(agent: ReactAgent, store: Arc<dyn SessionStore>, lease: Duration) -> Self {
        let slots = RunSlots { slots: Arc::new(Semaphore::new(MAX_RUNS)), active: None };
        Self::with_slots(agent, store, lease, slots)
    }

    pub(crate) fn with_slots(
        agent: ReactAgent,
        store: Arc<dyn SessionStore>,
        lease: Duration,
        slots: RunSlots,
    ) -> Self {
        let (live, tasks, shutdown) = (LiveRuns::default(), TaskTracker::new(), CancellationToken::new());
        let lease = lease.max(Duration::from_secs(1));
        let conversations = Mutex::new(LruCache::new(MAX_CONVERSATIONS));
        Self(Arc::new(Inner { agent, store, live, tasks, shutdown, lease, slots, conversations }))
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.0.store
    }

    /// Cancelled when the drivers of this process stop.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    pub(crate) fn live(&self) -> &LiveRuns {
        &self.0.live
    }

    /// Starts a run of the session `key`, which is created if there is none, and returns the id of
    /// the run. The messages of the user are stored.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Busy`] if the session has a run that is not over, and with
    /// [`StoreError::Repeated`] if the store knows the request.
    pub async fn start(&self, key: &SessionKey, request: RunRequest) -> Result<String, StoredRunError> {
        let (this, key) = (self.clone(), key.clone());
        // A client that leaves does not stop the start between its writes.
        run_to_end(async move { this.start_now(&key, &request).await }).await
    }

    async fn start_now(&self, key: &SessionKey, request: &RunRequest) -> Result<String, StoredRunError> {
        let store = &self.0.store;
        let (mut slot, mut conflicts) = (None, 0);
        loop {
            let active = match store.active_run(key).await {
                Err(StoreError::SessionNotFound(_)) => None,
                active => active?,
            };
            // The active run can be that of the first attempt. If it is over, it is known, too.
            if let Some(request) = &request.key
                && let Some(run) = store.handled_by(key.tenant(), request).await?
            {
                return Err(StoreError::Repeated { run }.into());
            }
            // The calls of an active run can be open in the conversation.
            if let Some(active) = active {
                return Err(StoreError::Busy(active).into());
            }
            if slot.is_none() {
                slot = Some(self.take_slot()?);
                store.create(key, None).await?;
            }
            match self.try_start(key, request, &mut slot).await {
                Err(StoredRunError::Store(StoreError::Conflict { .. })) if conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                }
                started => return started,
            }
        }
    }

    /// Starts a run that takes `slot`.
    async fn try_start(
        &self,
        key: &SessionKey,
        request: &RunRequest,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<String, StoredRunError> {
        let conversation = match request.is_fresh {
            true => None,
            false => Some(self.conversation(key).await?),
        };
        let entries = match &conversation {
            Some(conversation) => conversation.session.entries,
            None => self.0.store.session(key).await?.entries,
        };
        let id = new_id();
        let context = RunContext { run_id: id.as_str().into(), ..request.context.clone() };
        let mut input = RunInput::new("").with_context(context.clone());
        let (messages, transcript) = (request.messages.clone(), Transcript::new());
        input.start = RunStart::New { messages, transcript };
        let history = conversation.as_ref().map_or(0, |conversation| conversation.transcript.len());
        if let Some(conversation) = &conversation {
            input = input.with_history(&conversation.transcript);
        }
        if let Some(conversation) = conversation {
            self.conversations().put(key.clone(), conversation);
        }
        let run = self.0.agent.create_run(input)?;
        let messages = run.transcript().messages().get(history..).unwrap_or_default().to_vec();
        let state = state_of(&run, context.principal.as_ref())?;
        // Other readers of the session see the question, too.
        let started = json!({"type": "run_started", "messages": request.messages});
        let new = NewRun::new(id.as_str(), state, messages).after(entries).with_event(started);
        let new = if request.is_fresh { new.fresh() } else { new };
        let lease = self.0.store.start_run(key, new.of_request(request.key.clone()), self.0.lease).await?;
        self.spawn(key.clone(), run, lease, context, slot.take());
        Ok(id)
    }

    /// Returns the current conversation of a session. It is taken out of the cache.
    async fn conversation(&self, key: &SessionKey) -> Result<Conversation, StoreError> {
        let cached = self.conversations().pop(key);
        match cached {
            Some(mut conversation) => {
                conversation.refresh(&*self.0.store, key).await?;
                Ok(conversation)
            }
            None => self.0.store.conversation(key).await,
        }
    }

    fn conversations(&self) -> MutexGuard<'_, LruCache<SessionKey, Conversation>> {
        self.0.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues a run that waits or whose process has ended, with the stored decisions.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Owned`] if a process drives the run, and with
    /// [`StoreError::RunOver`] if it is over.
    pub async fn resume(&self, tenant: &str, run: &str, context: RunContext) -> Result<(), StoredRunError> {
        let (this, tenant, run) = (self.clone(), tenant.to_owned(), run.to_owned());
        run_to_end(async move { this.resume_now(&tenant, &run, context, None).await }).await
    }

    /// Resumes a run with the permit `slot`, or with another one.
    async fn resume_now(
        &self,
        tenant: &str,
        run: &str,
        context: RunContext,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<(), StoredRunError> {
        let slot = match slot {
            Some(slot) => slot,
            None => self.take_slot()?,
        };
        let _turn = self.0.live.turn(tenant, run).await;
        let lease = self.0.store.acquire(tenant, run, self.0.lease).await?;
        let stored = self.0.store.run(tenant, run).await?;
        self.drive_loaded(lease, stored, context, slot)
    }

    /// Drives a run that was loaded after its acquisition.
    fn drive_loaded(
        &self,
        lease: Lease,
        stored: StoredRun,
        context: RunContext,
        slot: OwnedSemaphorePermit,
    ) -> Result<(), StoredRunError> {
        let key = SessionKey::of_tenant(lease.tenant.as_str(), stored.session.as_str())
            .map_err(|_| StoreError::SessionNotFound(stored.session.clone()))?;
        let (run, principal) = load(stored)?;
        let run_id = lease.run.as_str().into();
        let context = RunContext { principal: context.principal.or(principal), run_id, ..context };
        self.spawn(key, run, lease, context, Some(slot));
        Ok(())
    }

    fn take_slot(&self) -> Result<OwnedSemaphorePermit, StoredRunError> {
        if self.0.shutdown.is_cancelled() {
            return Err(StoredRunError::ShuttingDown);
        }
        self.0.slots.take().ok_or(StoredRunError::Overloaded)
    }

    /// Stores the decision about a call, then continues the run if it waits. The same decision again
    /// is no error.
    ///
    /// # Errors
    ///
    /// Fails with [`StoredRunError::NotWaiting`] or [`StoredRunError::WrongDecision`] if the decision
    /// does not fit, and with [`StoreError::OtherDecision`] if the call has another decision.
    pub async fn decide(
        &self,
        tenant: &str,
        run: &str,
        call: &str,
        decision: &Decision,
        context: RunContext,
    ) -> Result<(), StoredRunError> {
        let (this, tenant, run) = (self.clone(), tenant.to_owned(), run.to_owned());
        let (call, decision) = (call.to_owned(), decision.clone());
        run_to_end(async move { this.decide_now(&tenant, &run, &call, &decision, context).await }).await
    }

    async fn decide_now(
        &self,
        tenant: &str,
        run: &str,
        call: &str,
        decision: &Decision,
        context: RunContext,
    ) -> Result<(), StoredRunError> {
        let store = &self.0.store;
        let waiting = load(store.run(tenant, run).await?)?.0.undecided_calls();
        let Some(pending) = waiting.iter().find(|pending| pending.call.id == call) else {
            let decisions = store.decisions(tenant, run).await?;
            let is_over = store.run_summary(tenant, run).await?.status.is_over();
            let earlier: Vec<_> = decisions.iter().filter(|(key, _)| is_key_of(key, call)).collect();
            return match earlier.iter().any(|(_, earlier)| *earlier == decision) {
                true => Ok(()),
                false if !earlier.is_empty() => {
                    Err(StoreError::OtherDecision { call: call.to_owned() }.into())
                }
                false if is_over => Err(StoreError::RunOver(run.to_owned()).into()),
                false => {
                    let waiting: Vec<_> = waiting.iter().map(|it| it.call.id.as_str()).collect();
                    Err(StoredRunError::NotWaiting { call: call.to_owned(), waiting: waiting.join(", ") })
                }
            };
        };
        let fits = pending.pending.clone().resume(decision.clone());
        fits.map_err(|source| StoredRunError::WrongDecision { call: call.to_owned(), source })?;
        store.decide(tenant, run, &key_of(pending), decision).await?;
        match self.resume_now(tenant, run, context, None).await {
            // The driver of the run reads the decision before the run waits.
            Err(StoredRunError::Store(StoreError::Owned { .. } | StoreError::RunOver(_))) => Ok(()),
            resumed => self.accept_unavailable(resumed),
        }
    }

    /// Returns `Ok` for a stored run that this process cannot drive at this time.
    /// [`keep_abandoned_running`](Self::keep_abandoned_running) finds it, here or in another process.
    fn accept_unavailable(&self, resumed: Result<(), StoredRunError>) -> Result<(), StoredRunError> {
        match resumed {
            Err(StoredRunError::Overloaded | StoredRunError::ShuttingDown) => Ok(()),
            resumed => resumed,
        }
    }

    /// Sends messages to the run that is not over. They are stored together. A repeated `request` is
    /// no error.
    ///
    /// # Errors
    ///
    /// Fails with [`StoredRunError::Elsewhere`] if another process drives the run, and with
    /// [`StoreError::RunOver`] if it is over.
    pub async fn send(
        &self,
        tenant: &str,
        run: &str,
        messages: Vec<Message>,
        delivery: Delivery,
        request: Option<RequestKey>,
    ) -> Result<(), StoredRunError> {
        let (this, tenant, run) = (self.clone(), tenant.to_owned(), run.to_owned());
        run_to_end(async move {
            match this.send_now(&tenant, &run, messages, delivery, request).await {
                Err(StoredRunError::Store(StoreError::Repeated { .. })) => Ok(()),
                sent => sent,
            }
        })
        .await
    }

    async fn send_now(
        &self,
        tenant: &str,
        run: &str,
        messages: Vec<Message>,
        delivery: Delivery,
        request: Option<RequestKey>,
    ) -> Result<(), StoredRunError> {
        // The run of a repeated request can be over.
        if let Some(request) = &request
            && self.0.store.handled_by(tenant, request).await?.is_some()
        {
            return Ok(());
        }
        let turn = loop {
            if let Some(live) = self.0.live.get(tenant, run) {
                let (reply, received) = oneshot::channel();
                let (messages, request) = (messages.clone(), request.clone());
                let sent = live.inbox.send(InboxMessage { messages, delivery, request, reply }).await;
                if sent.is_ok()
                    && let Ok(stored) = received.await
                {
                    return stored;
                }
                // The run is about to end or to wait.
                live.ended.cancelled().await;
            }
            let turn = self.0.live.turn(tenant, run).await;
            if self.0.live.get(tenant, run).is_none() {
                break turn;
            }
        };
        let lease = self.acquire_for_change(tenant, run).await?;
        let stored = self.0.store.run(tenant, run).await?;
        let (mut loaded, principal) = load(stored)?;
        let is_waiting = !loaded.undecided_calls().is_empty();
        let status = if is_waiting { RunStatus::Suspended } else { RunStatus::Active };
        let event = received_event(&messages, delivery);
        let mut messages = messages.into_iter();
        let saved = match messages.try_for_each(|message| loaded.enqueue(message, delivery)) {
            Ok(()) => {
                let update = RunUpdate::new(state_of(&loaded, principal.as_ref())?, Vec::new());
                let update = update.with_status(status).released().of_request(request);
                self.0
                    .store
                    .save(&lease, update.with_event(event.clone()))
                    .await
                    .map_err(StoredRunError::from)
            }
            Err(error) => Err(error.into()),
        };
        if let (Ok(number), Ok(key)) = (&saved, SessionKey::of_tenant(tenant, lease.session.as_str())) {
            self.0.live.feed(&key).push(*number, run, &[event]);
        }
        if saved.is_err() {
            self.0.store.save(&lease, RunUpdate::default().with_status(status).released()).await?;
        }
        drop(turn);
        match is_waiting {
            // A decision can have been stored in the meantime.
            true => self.resume_decided(tenant, run, None).await,
            false if saved.is_ok() => {
                let resumed = self.resume_now(tenant, run, RunContext::default(), None).await;
                self.accept_unavailable(resumed)?;
            }
            false => {}
        }
        saved.map(drop)
    }

    /// Cancels a run that is not over. Returns after the run has ended. Messages that the run has
    /// not received stay in the conversation.
    ///
    /// # Errors
    ///
    /// Fails with [`StoredRunError::Elsewhere`] if another process drives the run.
    pub async fn cancel(&self, tenant: &str, run: &str) -> Result<(), StoredRunError> {
        let (this, tenant, run) = (self.clone(), tenant.to_owned(), run.to_owned());
        run_to_end(async move { this.cancel_now(&tenant, &run).await }).await
    }

    async fn cancel_now(&self, tenant: &str, run: &str) -> Result<(), StoredRunError> {
        let _turn = loop {
            if let Some(live) = self.0.live.get(tenant, run) {
                live.cancellation.cancel();
                live.ended.cancelled().await;
            }
            let turn = self.0.live.turn(tenant, run).await;
            if self.0.live.get(tenant, run).is_none() {
                break turn;
            }
        };
        let lease = match self.acquire_for_change(tenant, run).await {
            Err(StoredRunError::Store(StoreError::RunOver(_))) => return Ok(()),
            lease => lease?,
        };
        let stored = self.0.store.run(tenant, run).await?;
        let (saved, session) = (stored.transcript.len(), stored.session.clone());
        let (mut run, principal) = load(stored)?;
        // A call that was in progress may have happened.
        run.recover();
        run.cancel();
        let messages = ended_messages(&run, saved);
        let update = RunUpdate::new(state_of(&run, principal.as_ref())?, messages);
        let update = update.with_status(RunStatus::Cancelled);
        let last = error_event(&AgentErrorKind::Cancelled);
        let number = self.0.store.save(&lease, update.with_event(last.clone())).await?;
        if let Ok(key) = SessionKey::of_tenant(tenant, session) {
            self.0.live.feed(&key).push(number, &lease.run, &[last]);
        }
        Ok(())
    }

    /// Deletes a session with its runs. Its active run is cancelled. A session that does not exist is
    /// no error.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`cancel`](Self::cancel).
    pub async fn delete(&self, key: &SessionKey) -> Result<(), StoredRunError> {
        match self.0.store.active_run(key).await {
            Ok(Some(run)) => self.cancel(key.tenant(), &run).await?,
            Ok(None) | Err(StoreError::SessionNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.0.store.delete(key).await?;
        // Another session can have its id.
        self.0.live.forget(key);
        self.conversations().pop(key);
        Ok(())
    }

    /// Acquires a run that no process drives.
    async fn acquire_for_change(&self, tenant: &str, run: &str) -> Result<Lease, StoredRunError> {
        match self.0.store.acquire(tenant, run, self.0.lease).await {
            Err(StoreError::Owned { run, until }) => {
                let seconds = (until.unix_millis() - Timestamp::now().unix_millis()).max(0) / 1000 + 1;
                Err(StoredRunError::Elsewhere { run, seconds })
            }
            lease => Ok(lease?),
        }
    }

    /// Stops the drivers of this process. Requests in progress are abandoned, and repeated by the
    /// next process; calls in progress have 20 seconds to end. The runs stay active, and another
    /// process can continue them. Returns after all drivers have ended.
    pub async fn shut_down(&self) {
        self.0.live.close();
        self.0.shutdown.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn spawn(
        &self,
        key: SessionKey,
        run: Run,
        lease: Lease,
        context: RunContext,
        slot: Option<OwnedSemaphorePermit>,
    ) {
        let (inbox, received) = mpsc::channel(1);
        let (cancellation, ended) = (context.cancellation.clone(), CancellationToken::new());
        let live = LiveRun { inbox, cancellation, ended, client_gone: CancellationToken::new() };
        self.0.live.insert(key.tenant(), &lease.run, live.clone());
        let (tenant, id) = (lease.tenant.clone(), lease.run.clone());
        let guard = RunGuard { stored: self.clone(), tenant, id, live };
        self.0.tasks.spawn(async move {
            let active = guard.stored.0.slots.active.as_ref().map(InProgress::add_one);
            let signals = Signals { inbox: received, client_gone: guard.live.client_gone.clone() };
            let is_suspended = guard.stored.drive(&key, run, lease, context, signals).await;
            drop(active);
            if is_suspended {
                let (stored, tenant, id) = (guard.stored.clone(), guard.tenant.clone(), guard.id.clone());
                drop(guard);
                stored.resume_decided(&tenant, &id, slot).await;
            }
        });
    }

    /// Continues a run for which a decision was stored while it was about to wait.
    async fn resume_decided(&self, tenant: &str, run: &str, slot: Option<OwnedSemaphorePermit>) {
        let Ok(stored) = self.0.store.run(tenant, run).await else { return };
        if stored.status != RunStatus::Suspended || self.0.shutdown.is_cancelled() {
            return;
        }
        let Ok(decisions) = self.0.store.decisions(tenant, run).await else { return };
        let Ok((waiting, _)) = load(stored) else { return };
        if waiting.undecided_calls().iter().any(|pending| decisions.contains_key(&key_of(pending))) {
            let resumed = Box::pin(self.resume_now(tenant, run, RunContext::default(), slot)).await;
            if let Err(error) = resumed {
                tracing::debug!(run, %error, "the run is continued elsewhere, or later");
            }
        }
    }
}

impl std::fmt::Debug for StoredAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredAgent").field("agent", &self.0.agent).finish_non_exhaustive()
    }
}

/// Runs `work` on a task, so that it ends even if the caller leaves.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoredRunError>> + Send + 'static,
) -> Result<T, StoredRunError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends.
        Err(_) => Err(StoredRunError::ShuttingDown),
    }
}
