//! Where a reply goes, as it comes.

use haft_core::{
    ToolCall,
    model::{ChatEvent, ChatResponse, ModelError},
};
use rand::Rng;
use tokio::sync::mpsc;

use crate::engine::Attention;

/// The receiving end of one reply.
pub(crate) type Events = mpsc::Receiver<Result<ChatEvent, ModelError>>;

/// The events of a reply that tell no text: what each call needs, its name and arguments, and the end.
const OTHERS: usize = 4 * super::CALLS;

/// The sending end of one reply. When the other end is dropped, the reply is given up.
pub(crate) struct Outlet {
    events: mpsc::Sender<Result<ChatEvent, ModelError>>,
}

impl Outlet {
    /// Both ends, with room for every event of a reply: one for each token that the context holds, and the others.
    /// The channel takes memory only for what is in it.
    pub(crate) fn new(context: usize) -> (Self, Events) {
        let (sender, events) = mpsc::channel(context + OTHERS);
        (Self { events: sender }, events)
    }

    /// Whether somebody still waits for the reply.
    pub(crate) fn attention(&self) -> Attention {
        if self.events.is_closed() { Attention::Gone } else { Attention::Listening }
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
        self.send(Ok(ChatEvent::ToolCallDelta { index, arguments: call.arguments.clone() }));
    }

    /// Ends the reply.
    pub(crate) fn finish(&self, reply: Result<ChatResponse, ModelError>) {
        self.send(reply.map(|reply| ChatEvent::Finished(reply.into())));
    }

    /// Never waits, as a whole reply fits into the channel: a reader that stands still must not hold up the others.
    /// That nobody reads any more is noticed by [`attention`](Self::attention).
    fn send(&self, event: Result<ChatEvent, ModelError>) {
        let _ = self.events.try_send(event);
    }
}

/// An id that no other call has, in this process or the next.
pub(super) fn call_id() -> String {
    format!("call_{:016x}", rand::rng().random::<u64>())
}
