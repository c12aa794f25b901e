//! Where a reply goes, as it comes.

use haft_core::{ChatEvent, ChatResponse, ModelError, ToolCall};
use rand::Rng;
use tokio::sync::mpsc;

use crate::engine::Attention;

/// The sending end of one reply. When the other end is dropped, the reply is given up.
pub(crate) struct Outlet {
    events: mpsc::Sender<Result<ChatEvent, ModelError>>,
}

impl Outlet {
    pub(crate) fn new(events: mpsc::Sender<Result<ChatEvent, ModelError>>) -> Self {
        Self { events }
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
        self.send(reply.map(ChatEvent::Finished));
    }

    /// Waits while the reader is behind. That nobody reads any more is noticed by [`attention`](Self::attention).
    fn send(&self, event: Result<ChatEvent, ModelError>) {
        let _ = self.events.blocking_send(event);
    }
}

/// An id that no other call has, in this process or the next.
pub(super) fn call_id() -> String {
    format!("call_{:016x}", rand::rng().random::<u64>())
}
