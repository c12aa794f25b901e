//! Control of a run in progress from other tasks: delivery of messages, and the request to stop.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{Message, RunInput, agent::AgentErrorKind, tool::RunContext};

use crate::{
    Run,
    run::{Delivery, RunError, RunState, check_enqueueable},
};

/// A handle that sends messages to a run in progress or stops it after a step, from another task or
/// from a tool. Cheap to clone.
///
/// A handle belongs to the run that it is [bound](Self::bind) to. If a tool of this run is an
/// agent, the runs of that agent do not receive the messages. Messages are delivered at step
/// boundaries, as described at [`Run::enqueue`]. Messages can also be sent before the run starts.
///
/// # Examples
///
/// ```
/// use haft_core::Toolset;
/// use haft_testing::ScriptedModel;
/// use haft_react::{ReactAgent, run::Delivery, RunHandle};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_text("A poem about the sea.").reply_text("A poem about the sky.");
/// let agent = ReactAgent::new(model, Toolset::new())?;
///
/// let handle = RunHandle::new();
/// handle.enqueue("And the sky?", Delivery::Idle)?;
/// let output = agent.run(handle.bind("Write a poem about the sea.")).await?;
/// assert_eq!(output.text()?, "A poem about the sky.");
/// assert!(handle.enqueue("Too late.", Delivery::Idle).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct RunHandle(Arc<Mutex<HandleState>>);

#[derive(Default)]
struct HandleState {
    messages: VecDeque<(Message, Delivery)>,
    status: HandleStatus,
    /// `true` if the run must stop after its current step.
    stops: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HandleStatus {
    /// No driver is attached to the handle yet.
    #[default]
    Unattached,
    /// The driver of a run is attached to the handle, and delivers its messages to the run.
    Attached,
    /// The run ended, or its driver stopped. The handle accepts no more messages.
    Closed,
}

impl RunHandle {
    /// Creates a handle that is not bound to a run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds this handle to the run that `input` starts. Returns `input` with the handle in its
    /// state.
    #[must_use]
    pub fn bind(&self, input: impl Into<RunInput>) -> RunInput {
        input.into().with_state(self.clone())
    }

    /// Binds this handle to the run with the context `context`, for example of a
    /// [`RunScope`](crate::RunScope) of a run loaded from storage.
    #[must_use]
    pub fn bind_context(&self, context: RunContext) -> RunContext {
        RunContext { state: context.state.with_value(self.clone()), ..context }
    }

    /// Enqueues `message` for the run. `delivery` selects the step boundary at which the message is
    /// delivered. Until then, the message is in the memory of this process: for a message that must
    /// survive a crash, use [`Run::enqueue`] and save the run.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`Run::enqueue`]. Also fails with [`RunError::Ended`] after the
    /// run failed or was suspended. Use a new handle to resume a suspended run.
    pub fn enqueue(&self, message: impl Into<Message>, delivery: Delivery) -> Result<(), RunError> {
        let message = message.into();
        check_enqueueable(&message)?;
        let mut mail = self.lock();
        if mail.status == HandleStatus::Closed {
            return Err(RunError::Ended);
        }
        if mail.messages.len() >= Run::MAX_ENQUEUED {
            return Err(RunError::TooManyMessages(Run::MAX_ENQUEUED));
        }
        mail.messages.push_back((message, delivery));
        Ok(())
    }

    /// Stops the run after its current step: a model request in flight is not interrupted, its
    /// calls are executed, and their results are recorded. The run then fails with
    /// [`AgentErrorKind::Stopped`] before its next model request, also if this is a request for a
    /// summary. The error contains the transcript, from which a later run can continue. A run that
    /// has its answer after the step returns the answer. Messages are not delivered any more. If
    /// calls wait for decisions, the run waits. To stop a run at once, cancel its
    /// [token](RunContext::cancellation).
    ///
    /// A run that has not started yet stops before its first model request. Agents that are called
    /// as tools in the step run to their end.
    ///
    /// # Errors
    ///
    /// Fails with [`RunError::Ended`] if the run has ended, failed or was suspended.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use haft_core::{RunEvent, RunInput, Toolset, agent::AgentErrorKind, tool};
    /// use haft_react::{ReactAgent, RunHandle};
    /// use haft_testing::ScriptedModel;
    ///
    /// /// Looks up a price.
    /// #[tool]
    /// fn price(item: String) -> usize {
    ///     item.len()
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "price", r#"{"item":"pen"}"#)]).reply_text("It costs 3.");
    /// let agent = ReactAgent::new(model, Toolset::new().with_tool(Price))?;
    ///
    /// let handle = RunHandle::new();
    /// let mut events = agent.stream(handle.bind("What is the price of a pen?"));
    /// let error = loop {
    ///     match events.next().await {
    ///         Some(Ok(RunEvent::CallStarted { .. })) => handle.stop_after_step()?,
    ///         Some(Ok(_)) => {}
    ///         Some(Err(error)) => break error,
    ///         None => unreachable!("the last item is an error"),
    ///     }
    /// };
    /// assert!(matches!(*error.kind, AgentErrorKind::Stopped));
    /// assert_eq!(error.transcript.messages().last().unwrap().text(), "3");
    ///
    /// let output = agent.run(RunInput::new("Go on.").with_history(error.transcript)).await?;
    /// assert_eq!(output.text()?, "It costs 3.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_after_step(&self) -> Result<(), RunError> {
        let mut state = self.lock();
        if state.status == HandleStatus::Closed {
            return Err(RunError::Ended);
        }
        state.stops = true;
        Ok(())
    }

    /// Returns the messages that the run has not received yet. After the run has ended, for example
    /// because of a limit or a cancellation, these are all messages that are not in its transcript.
    ///
    /// A run that can continue keeps the messages that it has received, so they are not returned: a
    /// suspended run, and a run that failed in [`ReactAgent::drive`](crate::ReactAgent::drive),
    /// which the caller owns. See [`Run::undelivered_messages`].
    pub fn undelivered_messages(&self) -> Vec<Message> {
        self.lock().messages.iter().map(|(message, _)| message.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HandleState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mail = self.lock();
        f.debug_struct("RunHandle")
            .field("messages", &mail.messages.len())
            .field("status", &mail.status)
            .finish()
    }
}

impl HandleState {
    /// Takes the messages whose delivery `is_wanted`, as many as `run` can enqueue.
    fn take(&mut self, run: &Run, is_wanted: impl Fn(Delivery) -> bool) -> Vec<(Message, Delivery)> {
        let room = Run::MAX_ENQUEUED.saturating_sub(run.undelivered_messages().count());
        let mut taken = Vec::new();
        for message in mem::take(&mut self.messages) {
            if taken.len() < room && is_wanted(message.1) {
                taken.push(message);
            } else {
                self.messages.push_back(message);
            }
        }
        taken
    }
}

/// The receiving end of a [`RunHandle`], for the driver of a run. Dropping the mailbox closes the
/// handle.
#[derive(Debug)]
pub(crate) struct Mailbox(Option<RunHandle>);

impl Mailbox {
    /// Attaches a mailbox to the [`RunHandle`] in `context`. The mailbox delivers no messages if
    /// there is no handle, or if the handle is already attached or closed. For example, the run of
    /// an agent used as a tool has the context of the calling run, whose handle is already
    /// attached.
    pub(crate) fn attach(context: &RunContext) -> Self {
        let handle = context.state.get::<RunHandle>().cloned().filter(|handle| {
            let mut mail = handle.lock();
            let is_free = mail.status == HandleStatus::Unattached;
            if is_free {
                mail.status = HandleStatus::Attached;
            }
            is_free
        });
        Self(handle)
    }

    /// Fails with [`AgentErrorKind::Stopped`] if the run must stop. The error withdraws the request to
    /// stop.
    pub(crate) fn check_stop(&self) -> Result<(), AgentErrorKind> {
        match &self.0 {
            Some(handle) if mem::take(&mut handle.lock().stops) => Err(AgentErrorKind::Stopped),
            _ => Ok(()),
        }
    }

    /// Takes the messages for the next request of `run`.
    pub(crate) fn take_next(&self, run: &Run) -> Vec<(Message, Delivery)> {
        self.take(run, |delivery| delivery == Delivery::NextRequest)
    }

    /// Takes all messages, because `run` waits for decisions and may be saved.
    pub(crate) fn take_all(&self, run: &Run) -> Vec<(Message, Delivery)> {
        self.take(run, |_| true)
    }

    fn take(&self, run: &Run, is_wanted: impl Fn(Delivery) -> bool) -> Vec<(Message, Delivery)> {
        self.0.as_ref().map(|handle| handle.lock().take(run, is_wanted)).unwrap_or_default()
    }

    /// Takes the messages that continue `run`, which has its answer. If there are none, or if the
    /// run must stop, closes the handle at the same time, so that it rejects later messages.
    pub(crate) fn take_or_close(&self, run: &Run) -> Vec<(Message, Delivery)> {
        let Some(handle) = &self.0 else { return Vec::new() };
        let mut state = handle.lock();
        let messages = if state.stops { Vec::new() } else { state.take(run, |_| true) };
        if messages.is_empty() {
            state.status = HandleStatus::Closed;
        }
        messages
    }

    /// Closes the handle. If `run` has ended, its undelivered messages are returned to the handle.
    /// A run that can continue receives the messages: they are saved with the run and delivered
    /// later.
    pub(crate) fn close(&self, run: &mut Run) {
        let Some(handle) = &self.0 else { return };
        let mut mail = handle.lock();
        mail.status = HandleStatus::Closed;
        if run.state() != RunState::Ended {
            for (message, delivery) in mail.take(run, |_| true) {
                // There is room for the message.
                let _ = run.enqueue(message, delivery);
            }
        } else {
            let undelivered =
                run.undelivered_messages().map(|(message, delivery)| (message.clone(), delivery));
            let rest = mem::take(&mut mail.messages);
            mail.messages = undelivered.chain(rest).collect();
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.lock().status = HandleStatus::Closed;
        }
    }
}
