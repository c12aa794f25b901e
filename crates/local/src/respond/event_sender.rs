//! The channel from the worker thread to the receiver of a reply.

use haft_core::{
    ToolCall,
    model::{ChatEvent, ChatResponse, ModelError},
};
use rand::Rng;
use tokio::sync::mpsc;

use crate::engine::Next;

/// The receiving end of one reply.
pub(crate) type Events = mpsc::Receiver<Result<ChatEvent, ModelError>>;

/// Maximum number of non-text events of a reply: reasoning, name and arguments of each call, and
/// the end.
const OTHER_EVENTS: usize = 4 * super::MAX_CALLS;

/// The sending end of one reply. Dropping the receiver cancels the reply.
pub(crate) struct EventSender {
    events: mpsc::Sender<Result<ChatEvent, ModelError>>,
}

impl EventSender {
    /// Both ends, with a capacity for all events of a reply: one per token of the context, and the
    /// non-text events. The channel allocates memory only for the events in it.
    pub(crate) fn new(context: usize) -> (Self, Events) {
        let (sender, events) = mpsc::channel(context + OTHER_EVENTS);
        (Self { events: sender }, events)
    }

    /// `Cancel` once the receiver is dropped.
    pub(crate) fn next(&self) -> Next {
        if self.events.is_closed() { Next::Cancel } else { Next::Continue }
    }

    pub(crate) fn text(&self, text: &str) {
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

    /// Ends the reply.
    pub(crate) fn finish(&self, reply: Result<ChatResponse, ModelError>) {
        self.send(reply.map(|reply| ChatEvent::Finished(reply.into())));
    }

    /// Never blocks, because a whole reply fits into the channel: a slow reader does not delay
    /// other requests. [`next`](Self::next) detects a dropped receiver.
    fn send(&self, event: Result<ChatEvent, ModelError>) {
        let _ = self.events.try_send(event);
    }
}

/// A random id, unique across processes.
pub(crate) fn call_id() -> String {
    format!("call_{:016x}", rand::rng().random::<u64>())
}
