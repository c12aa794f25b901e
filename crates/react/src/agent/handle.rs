//! Control of a run in progress from other tasks: delivery of messages, and the request to stop.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{Message, RunInput, Timestamp, agent::AgentErrorKind, tool::RunContext};

use crate::{
    Effect, Run,
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
    /// `true` if the run must stop after its current step, and has not received this request yet.
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

    /// Enqueues `message` for the run. `delivery` selects the step boundary at which the message is
    /// delivered.
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

    /// Stops the run after its current step, as described at [`Run::stop_after_step`]: a model
    /// request in flight ends, its calls are executed, and the run then fails with
    /// [`AgentErrorKind::Stopped`]. The error contains the transcript, from which a later run can
    /// continue. A run that has its answer after the step returns the answer. To stop a run at
    /// once, cancel its [token](RunContext::cancellation).
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
    /// Moves the messages and the request to stop to `run`. If the run rejects a message, the
    /// message stays here as undelivered.
    fn pass_to(&mut self, run: &mut Run) {
        if mem::take(&mut self.stops) {
            run.stop_after_step(true);
        }
        while let Some((message, delivery)) = self.messages.front().cloned()
            && run.enqueue(message, delivery).is_ok()
        {
            self.messages.pop_front();
        }
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

    /// Passes the messages and the request to stop from the handle to `run`, then returns the next
    /// effect of `run`. The handle stays locked until the effect is known, so that it rejects
    /// messages as soon as the run is [done](Effect::Done). It stays open after [`Effect::Wait`],
    /// because the driver may report a decision and continue.
    pub(crate) fn next_effect(&self, run: &mut Run, now: Timestamp) -> Result<Effect, AgentErrorKind> {
        let Some(handle) = &self.0 else { return run.next(now) };
        let mut mail = handle.lock();
        mail.pass_to(run);
        let effect = run.next(now);
        if let Ok(Effect::Done(_)) = effect {
            mail.status = HandleStatus::Closed;
        }
        effect
    }

    /// Closes the handle. If `run` has ended, its undelivered messages are returned to the handle.
    /// A run that can continue keeps them: they are saved with the run and delivered later.
    pub(crate) fn close(&self, run: &Run) {
        let Some(handle) = &self.0 else { return };
        let mut mail = handle.lock();
        mail.status = HandleStatus::Closed;
        if let RunState::Ended = run.state() {
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
