//! Unique ids for the calls of a conversation.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{Message, ToolCall};

/// The ids of all calls of a conversation, used to keep the ids of new calls unique. The set is not
/// saved: a restored run computes it again from the transcript and its open calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallIds(BTreeSet<String>);

impl CallIds {
    /// Collects the ids of the calls in `messages` and the ids in `open`.
    pub(crate) fn collect<'a>(messages: &'a [Arc<Message>], open: impl Iterator<Item = &'a str>) -> Self {
        let calls = messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.as_str());
        Self(calls.chain(open).map(str::to_owned).collect())
    }

    /// Inserts the ids of the new `calls`. If the id of a call is empty or already used, the call
    /// gets a new id first.
    pub(crate) fn insert_unique<'c>(&mut self, calls: impl IntoIterator<Item = &'c mut ToolCall>) {
        for call in calls {
            if call.id.is_empty() || !self.0.insert(call.id.clone()) {
                call.id = self.unique_id("", &[]);
                self.0.insert(call.id.clone());
            }
        }
    }

    /// Returns `id`, or an unused id such as `call_3` if `id` is empty, already used or in
    /// `reserved`.
    pub(crate) fn unique_id(&self, id: &str, reserved: &[String]) -> String {
        let is_used = |id: &str| self.0.contains(id) || reserved.iter().any(|reserved| reserved == id);
        if !id.is_empty() && !is_used(id) {
            return id.to_owned();
        }
        let mut number = self.0.len() + reserved.len() + 1;
        loop {
            let id = format!("call_{number}");
            if !is_used(&id) {
                return id;
            }
            number += 1;
        }
    }
}
