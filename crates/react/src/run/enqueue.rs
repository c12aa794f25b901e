//! Messages added to a run in progress.

use std::mem;

use haft_core::{Message, agent::StopReason, message::MessageBody};
use serde::{Deserialize, Serialize};

use super::{Run, RunError, RunState, message_metadata};

/// The delivery time of an [enqueued](Run::enqueue) message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// Before the next model request. A run that already has its answer makes one more request for
    /// the message.
    #[default]
    NextRequest,
    /// When the run has its answer. The run then continues with the message instead of finishing.
    Idle,
}

/// An enqueued message that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EnqueuedMessage {
    message: Message,
    delivery: Delivery,
}

impl Run {
    /// The maximum number of enqueued messages that are not delivered yet.
    pub const MAX_ENQUEUED: usize = 64;

    /// Enqueues a message for the model, for example a correction that the user sends while tools
    /// are running.
    ///
    /// Messages are delivered at a step boundary, never between calls and their results. Messages
    /// with the same [`Delivery`] are delivered in the order in which they were enqueued.
    /// Undelivered messages are saved with the run. If the run has its answer and a limit allows no
    /// further request, the run ends with this answer: the messages stay undelivered, and
    /// [`undelivered_messages`](Self::undelivered_messages) returns them.
    ///
    /// With a [`ReactAgent`](crate::ReactAgent), use a [`RunHandle`](crate::RunHandle).
    ///
    /// # Errors
    ///
    /// Fails if the run has [ended](RunError::Ended), if [too many
    /// messages](RunError::TooManyMessages) are undelivered, or if the message is [not a user or
    /// system message](RunError::NotEnqueueable).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Timestamp, toolset::ToolList};
    /// use haft_react::{Effect, NativeCalls, Run, RunConfig, Step, run::Delivery};
    ///
    /// let mut run = Run::new(&RunConfig::default(), "Write a poem.".into())?;
    /// run.enqueue("About the sea, please.", Delivery::NextRequest)?;
    ///
    /// let tools = ToolList::default();
    /// let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    /// assert!(matches!(run.next(&step)?, Effect::Prepare));
    /// let Effect::Chat(request) = run.next(&step)? else { unreachable!() };
    /// assert_eq!(request.messages.len(), 2);
    /// # Ok::<(), haft_core::agent::AgentError>(())
    /// ```
    pub fn enqueue(&mut self, message: impl Into<Message>, delivery: Delivery) -> Result<(), RunError> {
        if let RunState::Finished | RunState::Cancelled = self.state() {
            return Err(RunError::Ended);
        }
        let message = message.into();
        check_enqueueable(&message)?;
        if self.head.enqueued.len() >= Self::MAX_ENQUEUED {
            return Err(RunError::TooManyMessages(Self::MAX_ENQUEUED));
        }
        self.head.enqueued.push(EnqueuedMessage { message, delivery });
        Ok(())
    }

    /// Returns the undelivered messages, in the order in which they were enqueued.
    pub fn undelivered_messages(&self) -> impl Iterator<Item = (&Message, Delivery)> {
        self.head.enqueued.iter().map(|enqueued| (&enqueued.message, enqueued.delivery))
    }

    /// Appends `message` to the transcript at a step boundary: while the run is [ready to
    /// request](RunState::ReadyToRequest) or [preparing](RunState::Preparing).
    ///
    /// # Errors
    ///
    /// Fails if the run is in another state, or if the message is not a user or system message.
    pub fn append(&mut self, message: impl Into<Message>) -> Result<(), RunError> {
        let message = message.into();
        check_enqueueable(&message)?;
        let state = self.state();
        match state {
            RunState::ReadyToRequest | RunState::Preparing => {
                self.push(message);
                Ok(())
            }
            _ => Err(RunError::NotAtBoundary(state)),
        }
    }

    /// Delivers the messages that were enqueued with [`Delivery::NextRequest`].
    pub(super) fn deliver_next(&mut self) {
        if !self.head.enqueued.is_empty() {
            let (next, idle) = mem::take(&mut self.head.enqueued)
                .into_iter()
                .partition(|it| it.delivery == Delivery::NextRequest);
            self.head.enqueued = idle;
            self.deliver(next);
        }
    }

    /// Delivers all enqueued messages.
    pub(super) fn deliver_all(&mut self) {
        let enqueued = mem::take(&mut self.head.enqueued);
        self.deliver(enqueued);
    }

    fn deliver(&mut self, enqueued: Vec<EnqueuedMessage>) {
        for EnqueuedMessage { message, .. } in enqueued {
            let time = message.created_at().unwrap_or(self.head.now());
            self.transcript.push(message_metadata::mark_enqueued(message).with_created_at(time));
        }
    }

    /// Returns `true` if enqueued messages continue a run that already has an answer. If the run
    /// stops after this step, or a limit allows no further request, returns `false`, so that the
    /// run finishes with its answer and not with an error.
    pub(super) fn has_follow_up(&self, stop_reason: StopReason) -> bool {
        !self.head.enqueued.is_empty()
            && !self.is_stopping()
            && stop_reason != StopReason::LimitReached
            && self.reached_limit().is_none()
    }
}

/// Checks that `message` can be [enqueued](Run::enqueue). Only user and system messages can be
/// enqueued, because an enqueued message is inserted between two steps.
///
/// # Errors
///
/// Fails with [`RunError::NotEnqueueable`] for assistant messages and tool results.
pub fn check_enqueueable(message: &Message) -> Result<(), RunError> {
    match message.body() {
        MessageBody::User { .. } | MessageBody::System { .. } => Ok(()),
        _ => Err(RunError::NotEnqueueable),
    }
}
