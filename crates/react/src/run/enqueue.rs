//! Messages for a run under way.

use std::mem;

use haft_core::{Message, agent::StopReason, message::MessageBody};
use serde::{Deserialize, Serialize};

use super::{Run, RunError, RunState, marks};

/// The time at which an [enqueued](Run::enqueue) message is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum When {
    /// Before the next request. If the run would finish before that, it continues with the message.
    #[default]
    NextRequest,
    /// When the run would otherwise finish. The run then continues.
    Idle,
}

/// An enqueued message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EnqueuedMessage {
    message: Message,
    when: When,
}

impl Run {
    /// Maximum number of messages that wait for their delivery.
    pub const MAX_ENQUEUED: usize = 64;

    /// Enqueues a message for the model, for example a correction by the user while tools are
    /// running.
    ///
    /// It is delivered at a step boundary, never between calls and their results, in the order of
    /// the calls of this method. It is saved with the run. The limits apply: if a limit allows no
    /// further request, the message is not delivered, see [`undelivered`](Self::undelivered).
    ///
    /// With a [`ReactAgent`](crate::ReactAgent), use a [`RunHandle`](crate::RunHandle).
    ///
    /// # Errors
    ///
    /// Fails if the run is [over](RunError::Over), if [too many
    /// messages](RunError::TooManyMessages) wait, and if the message is [not from a user or the
    /// system](RunError::NotEnqueueable).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Timestamp, toolset::ToolList};
    /// use haft_react::{Effect, NativeCalls, Run, RunConfig, Step, run::When};
    ///
    /// let mut run = Run::new(&RunConfig::default(), "Write a poem.".into())?;
    /// run.enqueue("About the sea, please.", When::NextRequest)?;
    ///
    /// let tools = ToolList::default();
    /// let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    /// assert!(matches!(run.next(&step)?, Effect::Prepare));
    /// let Effect::Chat(request) = run.next(&step)? else { unreachable!() };
    /// assert_eq!(request.messages.len(), 2);
    /// # Ok::<(), haft_core::agent::AgentError>(())
    /// ```
    pub fn enqueue(&mut self, message: impl Into<Message>, when: When) -> Result<(), RunError> {
        if let RunState::Finished | RunState::Cancelled = self.state() {
            return Err(RunError::Over);
        }
        let message = message.into();
        check_enqueued(&message)?;
        if self.head.enqueued.len() >= Self::MAX_ENQUEUED {
            return Err(RunError::TooManyMessages(Self::MAX_ENQUEUED));
        }
        self.head.enqueued.push(EnqueuedMessage { message, when });
        Ok(())
    }

    /// The enqueued messages that are not delivered yet, in order.
    pub fn undelivered(&self) -> impl Iterator<Item = (&Message, When)> {
        self.head.enqueued.iter().map(|enqueued| (&enqueued.message, enqueued.when))
    }

    /// Appends a message at a step boundary: while the run is [ready to
    /// request](RunState::ReadyToRequest) or [preparing](RunState::Preparing).
    ///
    /// # Errors
    ///
    /// Fails in other states, and if the message is not from a user or the system.
    pub fn append(&mut self, message: impl Into<Message>) -> Result<(), RunError> {
        let message = message.into();
        check_enqueued(&message)?;
        let state = self.state();
        match state {
            RunState::ReadyToRequest | RunState::Preparing => {
                self.push(message);
                Ok(())
            }
            _ => Err(RunError::NotAtBoundary(state)),
        }
    }

    /// Delivers the messages for the next request.
    pub(super) fn deliver_next(&mut self) {
        if !self.head.enqueued.is_empty() {
            let (next, idle) =
                mem::take(&mut self.head.enqueued).into_iter().partition(|it| it.when == When::NextRequest);
            self.head.enqueued = idle;
            self.deliver(next);
        }
    }

    /// Delivers all messages.
    pub(super) fn deliver_all(&mut self) {
        let enqueued = mem::take(&mut self.head.enqueued);
        self.deliver(enqueued);
    }

    fn deliver(&mut self, enqueued: Vec<EnqueuedMessage>) {
        for EnqueuedMessage { message, .. } in enqueued {
            let time = message.created_at().unwrap_or(self.head.now());
            self.transcript.push(marks::enqueued(message).at(time));
        }
    }

    /// Returns `true` if enqueued messages continue a run that has an answer. If a
    /// limit allows no further request, the run finishes with its answer instead of an error.
    pub(super) fn has_follow_up(&self, stop_reason: StopReason) -> bool {
        !self.head.enqueued.is_empty()
            && stop_reason != StopReason::LimitReached
            && self.exhausted().is_none()
    }
}

/// Checks that a message can be [enqueued](Run::enqueue) without separating calls from their
/// results.
///
/// # Errors
///
/// Fails with [`RunError::NotEnqueueable`] for messages of the model and results of tools.
pub fn check_enqueued(message: &Message) -> Result<(), RunError> {
    match message.body() {
        MessageBody::User { .. } | MessageBody::System { .. } => Ok(()),
        _ => Err(RunError::NotEnqueueable),
    }
}
