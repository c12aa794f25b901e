use std::{collections::BTreeSet, sync::Arc};

use haft_core::{Message, ToolCall, message::MessageBody};

/// The ids of all calls of a conversation. Derived from the transcript, never saved.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CallIds(BTreeSet<String>);

impl CallIds {
    pub(super) fn of(messages: &[Arc<Message>]) -> Self {
        let calls = messages.iter().flat_map(|message| message.tool_calls());
        Self(calls.map(|call| call.id.clone()).collect())
    }

    /// Keeps the ids of new calls where they are unique in the conversation, and replaces the others.
    pub(super) fn adopt(&mut self, calls: &mut [ToolCall]) {
        for call in calls {
            if call.id.is_empty() || !self.0.insert(call.id.clone()) {
                call.id = self.unused();
                self.0.insert(call.id.clone());
            }
        }
    }

    fn unused(&self) -> String {
        let mut number = self.0.len() + 1;
        loop {
            let id = format!("call_{number}");
            if !self.0.contains(&id) {
                return id;
            }
            number += 1;
        }
    }
}

/// The calls that have no result.
pub(super) fn open_calls(messages: &[Arc<Message>]) -> Vec<&ToolCall> {
    let mut open: Vec<&ToolCall> = Vec::new();
    for message in messages {
        match message.body() {
            MessageBody::Tool(result) => open.retain(|call| call.id != result.call_id),
            _ => open.extend(message.tool_calls()),
        }
    }
    open
}
