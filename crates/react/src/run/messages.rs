//! Messages added to a run in progress.

use std::mem;

use haft_core::{Message, agent::StopReason, message::MessageBody};
use serde::{Deserialize, Serialize};

use super::{
    Run, RunError,
    state::{End, State, Transition},
};
use crate::transcript::marks::mark_enqueued;

/// The delivery time of an [enqueued](Run::enqueue) message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// Before the next model request that is not prepared yet. A run that already has its answer
    /// makes one more request for the message.
    #[default]
    NextRequest,
    /// When the run has its answer. The run then continues with the message instead of ending.
    Idle,
}

/// An enqueued message that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EnqueuedMessage {
    message: Message,
    delivery: Delivery,
}

impl Run {
    /// Enqueues a message for the model, for example a correction that the user sends while tools
    /// are executed.
    ///
    /// Messages are delivered at a step boundary, never between calls and their results. Messages
    /// with the same [`Delivery`] are delivered in the order in which they were enqueued.
    /// Undelivered messages are saved with the run. If the run has its answer and a limit allows no
    /// further request, the messages stay undelivered, and
    /// [`undelivered_messages`](Self::undelivered_messages) returns them.
    ///
    /// With a [`ReactAgent`](crate::ReactAgent), use a [`RunHandle`](crate::RunHandle).
    ///
    /// # Errors
    ///
    /// Fails if the run was [cancelled](RunError::Ended), if [too many
    /// messages](RunError::TooManyMessages) are undelivered, or if the message is [not a user or
    /// system message](RunError::NotEnqueueable).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Timestamp;
    /// use haft_react::{Effect, Run, RunConfig, run::Delivery};
    ///
    /// let mut run = Run::new(&RunConfig::default(), "Write a poem.".into())?;
    /// run.enqueue("About the sea, please.", Delivery::NextRequest)?;
    /// assert!(matches!(run.next(Timestamp::default())?, Effect::Prepare));
    /// assert_eq!(run.view().len(), 2);
    /// # Ok::<(), haft_core::agent::AgentError>(())
    /// ```
    pub fn enqueue(&mut self, message: impl Into<Message>, delivery: Delivery) -> Result<(), RunError> {
        if let State::Ended(End::Cancelled) = self.data.state {
            return Err(RunError::Ended);
        }
        self.push_message(message.into(), delivery)
    }

    /// Enqueues `message`. While a request is prepared, it is prepared again.
    pub(super) fn add_message(&mut self, state: State, message: Message, delivery: Delivery) -> Transition {
        if let State::Ended(End::Cancelled) = state {
            return state.fail(RunError::Ended);
        }
        match (self.push_message(message, delivery), state) {
            (Err(error), state) => state.fail(error),
            (Ok(()), State::Preparing { request: None }) => State::Ready.go(),
            (Ok(()), state) => state.go(),
        }
    }

    fn push_message(&mut self, message: Message, delivery: Delivery) -> Result<(), RunError> {
        check_enqueueable(&message)?;
        if self.data.enqueued.len() >= Self::MAX_ENQUEUED {
            return Err(RunError::TooManyMessages(Self::MAX_ENQUEUED));
        }
        self.data.enqueued.push(EnqueuedMessage { message, delivery });
        Ok(())
    }

    /// Returns the undelivered messages, in the order in which they were enqueued.
    pub fn undelivered_messages(&self) -> impl Iterator<Item = (&Message, Delivery)> {
        self.data.enqueued.iter().map(|enqueued| (&enqueued.message, enqueued.delivery))
    }

    /// Delivers the messages that were enqueued with [`Delivery::NextRequest`].
    pub(super) fn deliver_next(&mut self) {
        if !self.data.enqueued.is_empty() {
            let (next, idle) = mem::take(&mut self.data.enqueued)
                .into_iter()
                .partition(|it| it.delivery == Delivery::NextRequest);
            self.data.enqueued = idle;
            self.deliver(next);
        }
    }

    /// Delivers all enqueued messages.
    pub(super) fn deliver_all(&mut self) {
        let enqueued = mem::take(&mut self.data.enqueued);
        self.deliver(enqueued);
    }

    fn deliver(&mut self, enqueued: Vec<EnqueuedMessage>) {
        for EnqueuedMessage { message, .. } in enqueued {
            let time = message.created_at().unwrap_or(self.data.clock.now);
            self.transcript.push(mark_enqueued(message).with_created_at(time));
        }
    }

    /// Returns `true` if enqueued messages continue a run that already has an answer. If a limit
    /// allows no further request, returns `false`, so that the run ends with its answer and not
    /// with an error.
    pub(super) fn has_follow_up(&self, stop_reason: StopReason) -> bool {
        !self.data.enqueued.is_empty()
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
pub(crate) fn check_enqueueable(message: &Message) -> Result<(), RunError> {
    match message.body() {
        MessageBody::User { .. } | MessageBody::System { .. } => Ok(()),
        _ => Err(RunError::NotEnqueueable),
    }
}
