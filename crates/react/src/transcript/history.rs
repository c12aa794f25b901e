//! Unpaired calls and results in an earlier conversation, and their repair.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    ops::Range,
    sync::Arc,
};

use haft_core::{
    Message, Timestamp, ToolCall, ToolResult,
    call::FailureKind,
    message::{MessageBody, TranscriptView},
};

use crate::run::failure_result;

/// The calls and results of a conversation that are not paired as providers require: the results
/// of a reply directly follow it, one result for each call.
#[derive(Debug, Default)]
pub(crate) struct UnpairedCalls<'a> {
    /// The calls without a result, with the index of the last message of their reply: the reply
    /// itself, or the last result that directly follows it.
    open: Vec<(usize, &'a ToolCall)>,
    /// The indices of the results without a call, and of further results of a call.
    orphans: Vec<(usize, &'a ToolResult)>,
    /// The indices of the results that are separated from their reply, with the index of the last
    /// message of the reply.
    separated: Vec<(usize, usize, &'a ToolResult)>,
}

impl<'a> UnpairedCalls<'a> {
    pub(crate) fn find(messages: &'a [Arc<Message>]) -> Self {
        let mut found = Self::default();
        let mut open: Vec<(usize, &ToolCall)> = Vec::new();
        // The index of the last reply with calls, and of the last result that directly follows it.
        let (mut reply, mut last) = (0, 0);
        for (index, message) in messages.iter().enumerate() {
            let MessageBody::Tool(result) = message.body() else {
                if !message.tool_calls().is_empty() {
                    (reply, last) = (index, index);
                    open.extend(message.tool_calls().iter().map(|call| (index, call)));
                }
                continue;
            };
            // An id can be used again by a later reply. The result belongs to the latest reply, and
            // there to the first call with the id.
            let of_call = |(at, call): &(usize, &ToolCall)| (*at, call.id == result.call_id);
            let owner = open.iter().filter(|it| of_call(it).1).map(|(at, _)| *at).max();
            let Some(owner) = owner else {
                found.orphans.push((index, result));
                // An orphan between results does not separate them: a repair omits it.
                last += usize::from(last + 1 == index);
                continue;
            };
            if let Some(position) = open.iter().position(|it| of_call(it) == (owner, true)) {
                open.remove(position);
            }
            if owner == reply && last + 1 == index {
                last = index;
            } else {
                found.separated.push((index, owner, result));
            }
        }
        let omitted = found.omitted();
        let last_of = |reply: usize| {
            let results = messages.iter().enumerate().skip(reply + 1);
            let results = results.take_while(|(_, message)| matches!(message.body(), MessageBody::Tool(_)));
            results.map(|(index, _)| index).filter(|index| !omitted.contains(index)).last().unwrap_or(reply)
        };
        found.open = open.into_iter().map(|(reply, call)| (last_of(reply), call)).collect();
        found.separated.iter_mut().for_each(|(_, reply, _)| *reply = last_of(*reply));
        found
    }

    /// Returns the indices of the results that a repaired view omits at their current place.
    fn omitted(&self) -> BTreeSet<usize> {
        let orphans = self.orphans.iter().map(|(index, _)| *index);
        orphans.chain(self.separated.iter().map(|(index, ..)| *index)).collect()
    }

    /// Describes the problem in an error message. `None` if every call has its result in the right
    /// place.
    pub(crate) fn describe(&self) -> Option<String> {
        let mut text = String::new();
        if !self.open.is_empty() {
            let open = self.open.iter().map(|(_, call)| format!("{:?} ({})", call.id, call.name));
            text = format!(
                "calls of the conversation are still open: {}; resume the run that waits with `RunInput::resume` and \
                 their answers, or close them with `Run::cancel` and go on with the transcript of that run",
                open.collect::<Vec<_>>().join(", ")
            );
        }
        let orphans =
            self.orphans.iter().map(|(index, result)| (index, result, "has no open call before it"));
        let separated = self.separated.iter();
        let separated =
            separated.map(|(index, _, result)| (index, result, "does not directly follow its call"));
        for (index, result, problem) in orphans.chain(separated) {
            let separator = if text.is_empty() { "" } else { "; " };
            let (id, name) = (&result.call_id, &result.name);
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}the result of {id:?} ({name}) in message {index} {problem}");
        }
        if text.is_empty() {
            return None;
        }
        text.push_str("; or repair the conversation with `RunConfig::repair_history`");
        Some(text)
    }
}

/// The changes to a view of an earlier conversation that give each call one result in the right
/// place. The transcript stays unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HistoryRepairs {
    /// The indices of the results that the view omits.
    omitted: BTreeSet<usize>,
    /// The results that the view inserts, by the index of the message before them.
    inserted: BTreeMap<usize, Vec<Arc<Message>>>,
}

impl HistoryRepairs {
    /// Returns the repairs of `messages`. `None` if no repair is needed.
    pub(crate) fn find(messages: &[Arc<Message>]) -> Option<Self> {
        let unpaired = UnpairedCalls::find(messages);
        let omitted = unpaired.omitted();
        let UnpairedCalls { open, orphans, separated } = unpaired;
        if open.is_empty() && orphans.is_empty() && separated.is_empty() {
            return None;
        }
        let mut inserted: BTreeMap<usize, Vec<Arc<Message>>> = BTreeMap::new();
        for (index, reply, _) in &separated {
            if let Some(message) = messages.get(*index) {
                inserted.entry(*reply).or_default().push(Arc::clone(message));
            }
        }
        for (reply, call) in open {
            tracing::warn!(tool = call.name, call = call.id, "a call of the history has no result");
            let why = "no result: the call was interrupted, and it may or may not have happened";
            let result = failure_result(call, FailureKind::Unconfirmed, why, Timestamp::default());
            inserted.entry(reply).or_default().push(Arc::new(Message::tool(result)));
        }
        for (index, result) in &orphans {
            let (tool, call) = (&result.name, &result.call_id);
            tracing::warn!(
                tool,
                call,
                message = index,
                "a result of the history has no call: it is not sent"
            );
        }
        Some(Self { omitted, inserted })
    }

    /// Returns a view of the messages in `ranges`, with the repairs and with `replacements` for
    /// individual messages.
    pub(crate) fn view(
        &self,
        messages: &[Arc<Message>],
        ranges: impl Iterator<Item = Range<usize>>,
        replacements: &BTreeMap<usize, Arc<Message>>,
    ) -> TranscriptView {
        let sent = ranges.flatten().filter(|index| !self.omitted.contains(index)).flat_map(|index| {
            let message = replacements.get(&index).or_else(|| messages.get(index));
            message.into_iter().chain(self.inserted.get(&index).into_iter().flatten()).cloned()
        });
        sent.collect()
    }
}
