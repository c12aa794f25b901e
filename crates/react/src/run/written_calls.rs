//! Calls that a model wrote as text in a dialect with native calls.

use std::mem;

use haft_core::{
    Schema, ToolCall,
    agent::AgentErrorKind,
    content::Content,
    message::{AssistantMessage, ProviderData},
    model::{ChatResponse, FinishReason, ModelError, ToolChoice},
    schema::parse_json,
    usage::Usage,
};
use serde_json::{Map, Value};

use super::{Run, Step, state::SentRequest};
use crate::{
    dialect::{CallableNames, Reply, WrittenCalls, declares_keys, join_reasoning, parse_calls, strip_fence},
    host_panic::catch_dialect_panic,
};

impl Run {
    /// Takes the calls in the text of `reply`, the reply to `request`, if the whole text consists
    /// of calls of tools in `step`. Returns the reply unchanged if it has native calls, if its text
    /// is anything else, or if the dialect does not read written calls.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    pub(super) fn read_written_calls(
        &self,
        mut reply: Reply,
        request: &SentRequest,
        step: &Step<'_>,
    ) -> Result<Reply, AgentErrorKind> {
        if !can_be_call(&reply) {
            return Ok(reply);
        }
        let Some(names) = self.callable_names(request, step)? else { return Ok(reply) };
        let text = reply.message.text();
        let outputs = self.outputs_in(request);
        // The structured answer can have the same keys as a call.
        let is_answer = || outputs.is_some_and(|outputs| self.is_bare_answer(&text, outputs));
        let Some(WrittenCalls { thought, calls }) = parse_calls(&text, names).filter(|_| !is_answer()) else {
            return Ok(reply);
        };
        tracing::info!(calls = calls.len(), "calls in the text of a reply are taken as calls");
        let reasoning = join_reasoning(reply.message.reasoning.take(), thought);
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
        let reply = self.parse_in_dialect(response, step, outputs)?;
        Ok(Reply { has_written_calls: true, ..reply })
    }

    /// Reads the calls in the text that the model generated and its server could not use
    /// ([`ModelError::InvalidGeneration`]), the reply to the request in flight. `step` contains the
    /// inputs of the request. Returns `error` unchanged if the text does not consist of calls of
    /// offered tools, or if the dialect does not read written calls. A driver reports the result
    /// with [`on_chat`](Self::on_chat).
    ///
    /// The calls count as native calls: the server supports them and failed to read these only, so
    /// [`AutoDialect`](crate::dialect::AutoDialect) does not move to JSON.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    pub fn read_failed_generation(
        &self,
        error: ModelError,
        step: &Step<'_>,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        let (Some(request), ModelError::InvalidGeneration { generation: Some(text), .. }) =
            (self.head.state.sent_request(), &error)
        else {
            return Ok(Err(error));
        };
        let usage = Usage::failed_request();
        let response = ChatResponse { usage, ..ChatResponse::new(text.as_str()) };
        let reply = self.read_written_calls(Reply::from(response), request, step)?;
        Ok(if reply.has_written_calls { Ok(Reply { has_written_calls: false, ..reply }) } else { Err(error) })
    }

    /// Returns `true` if `text`, which parses as calls, is a valid value of `outputs` or of the
    /// output property, whose schema declares all keys of the value. A schema that accepts any keys
    /// also accepts a call.
    fn is_bare_answer(&self, text: &str, outputs: &Schema) -> bool {
        let Ok(value) = parse_json(strip_fence(text.trim())) else { return false };
        let is_in_property = |property: &String| {
            let object = Map::from_iter([(property.clone(), value.clone())]);
            outputs.is_valid(&Value::Object(object)) && declares_keys(outputs, Some(property), &value)
        };
        self.head.config.output_property.as_ref().is_some_and(is_in_property)
            || (outputs.is_valid(&value) && declares_keys(outputs, None, &value))
    }

    /// Returns the names that a call in the reply to `request` can have. Returns `None` if the
    /// reply can contain no calls, or if the dialect does not read written calls.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    pub(super) fn callable_names<'a>(
        &'a self,
        request: &SentRequest,
        step: &Step<'a>,
    ) -> Result<Option<CallableNames<'a>>, AgentErrorKind> {
        let dialect = self.try_dialect(step)?;
        if !catch_dialect_panic("Dialect::reads_written_calls", || dialect.reads_written_calls())? {
            return Ok(None);
        }
        let is_final = request.purpose.must_answer() || request.tool_choice == ToolChoice::None;
        let tools = Some(step.tools).filter(|tools| !is_final && !tools.is_empty());
        let finish = self.outputs_in(request).filter(|_| request.tool_choice != ToolChoice::Required);
        Ok((tools.is_some() || finish.is_some()).then_some(CallableNames::Offered { tools, finish }))
    }
}

/// Returns `true` if the reply is complete and has only text, whose first character can start a
/// call or a `<think>` block.
fn can_be_call(reply: &Reply) -> bool {
    let message = &reply.message;
    let has_only_text = message.tool_calls.is_empty() && message.refusal.is_none() && reply.problem.is_none();
    let first = match message.content.first() {
        Some(Content::Text { text }) => text.trim_start().chars().next(),
        _ => None,
    };
    !reply.finish_reason.is_cut() && has_only_text && first.is_some_and(|first| "{[<`f".contains(first))
}
