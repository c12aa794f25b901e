//! Calls that a model wrote as text in a dialect with native calls.

use std::mem;

use haft_core::{
    Schema, ToolCall,
    content::Content,
    message::{AssistantMessage, ProviderData},
    model::{ChatResponse, FinishReason, ToolChoice},
};
use serde_json::{Map, Value};

use super::{Run, Step, state::SentRequest};
use crate::dialect::{CallableNames, Reply, WrittenCalls, find_json_object, parse_calls};

impl Run {
    /// Takes the calls in the text of `reply`, the reply to `request`, if the whole text consists
    /// of calls of tools in `step`. Returns the reply unchanged if it has native calls, if its text
    /// is anything else, or if the dialect does not read written calls.
    pub(super) fn read_written_calls(
        &self,
        mut reply: Reply,
        request: &SentRequest,
        step: &Step<'_>,
    ) -> Reply {
        let can_be_call = can_be_call(&reply);
        let Some(names) = self.callable_names(request, step).filter(|_| can_be_call) else { return reply };
        let text = reply.message.text();
        let outputs = self.outputs_in(request);
        // The structured answer can have the same keys as a call.
        let is_answer = outputs.is_some_and(|outputs| self.is_bare_answer(&text, outputs));
        let Some(WrittenCalls { thought, calls }) = parse_calls(&text, names).filter(|_| !is_answer) else {
            return reply;
        };
        tracing::info!(calls = calls.len(), "calls in the text of a reply are taken as calls");
        let reasoning = reply.message.reasoning.take().or(thought);
        let message = AssistantMessage {
            content: Vec::new(),
            reasoning,
            tool_calls: calls.into_iter().map(|call| ToolCall::new("", call.name, call.arguments)).collect(),
            // The data of the provider describes a message without calls.
            provider_data: ProviderData::default(),
            ..mem::take(&mut reply.message)
        };
        let finish_reason = FinishReason::ToolCalls;
        let response = ChatResponse { finish_reason, usage: reply.usage, ..ChatResponse::new(message) };
        Reply { has_written_calls: true, ..self.dialect(step).parse_reply(response, outputs) }
    }

    /// Returns `true` if `text` contains a valid object of `outputs`, or is the value of the output
    /// property.
    fn is_bare_answer(&self, text: &str, outputs: &Schema) -> bool {
        let is_valid = |object: &Map<String, Value>| outputs.is_valid(&Value::Object(object.clone()));
        let property = self.head.config.output_property.as_ref();
        let value = property.and_then(|property| {
            let value = serde_json::from_str(text).ok()?;
            Some(Map::from_iter([(property.clone(), value)]))
        });
        value.is_some_and(|object| is_valid(&object)) || find_json_object(text, is_valid).is_some()
    }

    /// Returns the names that a call in the reply to `request` can have. Returns `None` if the
    /// reply can contain no calls, or if the dialect does not read written calls.
    pub(super) fn callable_names<'a>(
        &'a self,
        request: &SentRequest,
        step: &Step<'a>,
    ) -> Option<CallableNames<'a>> {
        if !self.dialect(step).reads_written_calls() {
            return None;
        }
        let is_final = request.purpose.must_answer() || request.tool_choice == ToolChoice::None;
        let tools = Some(step.tools).filter(|tools| !is_final && !tools.is_empty());
        let finish = self.outputs_in(request).filter(|_| request.tool_choice != ToolChoice::Required);
        (tools.is_some() || finish.is_some()).then_some(CallableNames::Offered { tools, finish })
    }
}

/// Returns `true` if the reply is complete and has only text, whose first character can start a
/// call or a `<think>` block.
fn can_be_call(reply: &Reply) -> bool {
    let message = &reply.message;
    let is_complete = !matches!(reply.finish_reason, FinishReason::Length | FinishReason::ContentFilter);
    let has_only_text = message.tool_calls.is_empty() && message.refusal.is_none() && reply.problem.is_none();
    let first = match message.content.first() {
        Some(Content::Text { text }) => text.trim_start().chars().next(),
        _ => None,
    };
    is_complete && has_only_text && first.is_some_and(|first| "{[<`f".contains(first))
}
