//! Events of a streamed reply: text, reasoning, calls and structured output.

use std::collections::BTreeMap;

use haft_core::{RunEvent, ToolCall, content::Content};
use serde_json::Value;

use crate::{
    Run,
    dialect::{PartialJson, Reply, ReplyDelta},
};

/// The events of one streamed reply. Announced calls have their final ids.
pub(super) struct ReplyEvents<'r> {
    run: &'r Run,
    /// The announced calls, by their index in the stream.
    announced: BTreeMap<usize, AnnouncedCall>,
    /// The ids of all announced calls.
    ids: Vec<String>,
    output: PartialJson,
}

struct AnnouncedCall {
    id: String,
    name: String,
    /// `true` if the call was found in the complete reply.
    is_matched: bool,
}

impl<'r> ReplyEvents<'r> {
    pub(super) fn new(run: &'r Run) -> Self {
        Self { run, announced: BTreeMap::new(), ids: Vec::new(), output: PartialJson::default() }
    }

    /// Converts `delta` to an event. `None` if there is nothing to report yet.
    pub(super) fn convert(&mut self, delta: ReplyDelta) -> Option<RunEvent> {
        match delta {
            ReplyDelta::Text(text) => Some(RunEvent::TextDelta { text }),
            ReplyDelta::Reasoning(text) => Some(RunEvent::ReasoningDelta { text }),
            ReplyDelta::CallStarted { index, id, name } => {
                let call_id = self.new_id(&id);
                let call = AnnouncedCall { id: call_id.clone(), name: name.clone(), is_matched: false };
                self.announced.insert(index, call);
                Some(RunEvent::CallAnnounced { call_id, tool_name: name })
            }
            ReplyDelta::CallArguments { index, arguments } => {
                let call = self.announced.get(&index).filter(|_| !arguments.is_empty())?;
                Some(RunEvent::ArgumentsDelta { call_id: call.id.clone(), arguments })
            }
            ReplyDelta::Output(text) => {
                self.output.push(&text);
                let snapshot = self.output.take_snapshot()?;
                self.partial_output(snapshot)
            }
            _ => None,
        }
    }

    /// Sets the ids of the calls in `reply`, the complete reply, to the announced ids. Returns the
    /// events of calls and of the output that the deltas did not contain.
    pub(super) fn complete(mut self, reply: &mut Reply) -> Vec<RunEvent> {
        let mut events = Vec::new();
        // Like the run, give the ids of answers last.
        let is_answer = |call: &&mut ToolCall| self.run.is_answer_call(call);
        let (answers, others): (Vec<_>, Vec<_>) = reply.message.tool_calls.iter_mut().partition(is_answer);
        for call in others.into_iter().chain(answers) {
            let mut announced = self.announced.values_mut();
            if let Some(announced) = announced.find(|it| !it.is_matched && it.name == call.name) {
                announced.is_matched = true;
                call.id.clone_from(&announced.id);
            } else if reply.problem.is_none() {
                call.id = self.new_id(&call.id);
                events
                    .push(RunEvent::CallAnnounced { call_id: call.id.clone(), tool_name: call.name.clone() });
                let arguments = call.arguments.to_string();
                events.push(RunEvent::ArgumentsDelta { call_id: call.id.clone(), arguments });
            }
        }
        match (reply.message.content.as_slice(), &reply.problem) {
            ([Content::Json { value }], None) if self.output.has_emitted(value) => {}
            ([Content::Json { value }], None) if value.is_object() => {
                events.extend(self.partial_output(value.clone()));
            }
            _ => {
                let written = self.run.written_output(reply);
                events.extend(written.and_then(|outputs| self.partial_output(outputs)));
            }
        }
        events
    }

    /// Returns the event for `outputs`, the arguments of the call that ends the run.
    fn partial_output(&self, mut outputs: Value) -> Option<RunEvent> {
        let value = match &self.run.config().output_property {
            None => outputs,
            Some(property) => outputs.get_mut(property)?.take(),
        };
        Some(RunEvent::PartialOutput { value })
    }

    fn new_id(&mut self, id: &str) -> String {
        let id = self.run.unique_call_id(id, &self.ids);
        self.ids.push(id.clone());
        id
    }
}
