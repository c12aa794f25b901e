//! The channel for the events of a reply, from the model's thread to the caller.

use haft_core::{
    ToolCall,
    model::{ChatEvent, ChatResponse, ModelError},
};
use rand::Rng;
use tokio::sync::mpsc;

use crate::engine::NextAction;

/// The receiver of the events of one reply.
pub(crate) type EventReceiver = mpsc::Receiver<Result<ChatEvent, ModelError>>;

/// An upper bound on the number of events of a reply that are not text deltas: at most three per
/// call (reasoning, name and arguments), the reasoning of the answer, and the end of the reply.
const MAX_OTHER_EVENTS: usize = 4 * super::MAX_CALLS;

/// The sender of the events of one reply. Dropping the receiver cancels the reply.
pub(crate) struct EventSender {
    events: mpsc::Sender<Result<ChatEvent, ModelError>>,
}

impl EventSender {
    /// Creates a channel that can hold all events of a reply. A reply has at most `context` text
    /// deltas, one per token of the context window, and at most [`MAX_OTHER_EVENTS`] other events.
    /// The channel allocates memory only for queued events.
    pub(crate) fn new(context: usize) -> (Self, EventReceiver) {
        let (sender, events) = mpsc::channel(context + MAX_OTHER_EVENTS);
        (Self { events: sender }, events)
    }

    /// Returns [`NextAction::Cancel`] if the receiver of the events was dropped, and
    /// [`NextAction::Continue`] if not.
    pub(crate) fn continue_or_cancel(&self) -> NextAction {
        if self.events.is_closed() { NextAction::Cancel } else { NextAction::Continue }
    }

    pub(crate) fn send_text(&self, text: &str) {
        if !text.is_empty() {
            self.send(Ok(ChatEvent::TextDelta { text: text.to_owned() }));
        }
    }

    pub(crate) fn reasoning(&self, text: String) {
        self.send(Ok(ChatEvent::ReasoningDelta { text }));
    }

    pub(crate) fn call(&self, index: usize, call: &ToolCall) {
        self.send(Ok(ChatEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() }));
        self.send(Ok(ChatEvent::ToolCallDelta { index, arguments: call.arguments.to_string() }));
    }

    /// Sends the last event of the reply, which contains the complete response or an error.
    pub(crate) fn finish(&self, reply: Result<ChatResponse, ModelError>) {
        self.send(reply.map(|reply| ChatEvent::Finished(reply.into())));
    }

    /// Sends `event` without blocking. The channel has room for a whole reply, so a slow reader
    /// does not delay other requests.
    ///
    /// The error for a dropped receiver is ignored, because
    /// [`continue_or_cancel`](Self::continue_or_cancel) detects this case.
    fn send(&self, event: Result<ChatEvent, ModelError>) {
        let _ = self.events.try_send(event);
    }
}

/// Creates a random 64-bit id for a tool call, such as `call_0123456789abcdef`.
pub(crate) fn call_id() -> String {
    format!("call_{:016x}", rand::rng().random::<u64>())
}
