use haft_core::{
    content::{BinaryData, Content},
    message::HostedCall,
    model::{
        CallPiece, ChatResponse, ModelError,
        adapter::{EventSink, Origin, PieceKind, ReplyAccumulator, excerpt, in_band_error, surrogates},
    },
};
use serde_json::{Value, json, value::RawValue};

use super::{
    grounding::{Sources, TextPlace},
    part_log::{PartLog, SentId},
    wire::{
        InlineData, PromptFeedback, WireCall, WireCandidate, WirePart, WireReplies, WireReply, WireUsage,
        arguments_text,
    },
};
use crate::format::{WireApi, tool_name};

/// An accumulator that builds a reply of `generateContent` from the chunks of a stream or from a
/// whole body.
#[derive(Debug, Default)]
pub(crate) struct GenerateContentAccumulator {
    reply: ReplyAccumulator,
    log: PartLog,
    origin: Origin,
    usage: WireUsage,
    sources: Sources,
    has_stand_ins: bool,
}

impl GenerateContentAccumulator {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    pub(super) fn reply(&self) -> &ReplyAccumulator {
        &self.reply
    }

    /// Adds the chunks of an event. Events for new content are pushed to `sink`, if it is `Some`.
    pub(super) fn add(&mut self, event: WireReplies, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        self.has_stand_ins = event.has_stand_ins;
        self.reply.set_has_stand_ins(event.has_stand_ins);
        event.replies.into_iter().try_for_each(|reply| self.add_reply(reply, sink))
    }

    fn add_reply(&mut self, mut reply: WireReply, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        if let Some(error) = reply.take_error() {
            return Err(in_band_error(&error));
        }
        if let Some(error) = reply.prompt_feedback.and_then(PromptFeedback::into_error) {
            return Err(error);
        }
        if let Some(usage) = reply.usage_metadata {
            self.usage = self.usage.merged(usage);
            self.reply.usage = Some(self.usage.into());
        }
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.reply.id = self.reply.id.take().or_else(|| non_empty(reply.response_id));
        self.reply.model = self.reply.model.take().or_else(|| non_empty(reply.model_version));
        let candidate = reply.candidates.into_iter().flatten().find(|candidate| candidate.index == 0);
        candidate.map_or(Ok(()), |candidate| self.add_candidate(candidate, sink))
    }

    fn add_candidate(
        &mut self,
        candidate: WireCandidate,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let size = self.reply.size();
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.add_part(&part, sink)?;
        }
        self.sources.set(
            candidate.grounding_metadata,
            candidate.url_context_metadata,
            candidate.citation_metadata,
        );
        // Some models send a finish reason with each chunk.
        if self.reply.size() > size {
            self.reply.finish_state.reopen();
        }
        if let Some(reason) = candidate.finish_reason {
            self.reply.finish_state.set_reason(reason);
        }
        self.reply.finish_state.set_message(candidate.finish_message.unwrap_or_default());
        Ok(())
    }

    fn add_part(&mut self, raw: &RawValue, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let part: WirePart = serde_json::from_str(raw.get())
            .map_err(|error| ModelError::InvalidResponse(format!("{error}: {}", excerpt(raw.get()))))?;
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        self.reply.try_add_size(signature.as_ref().map_or(0, String::len))?;
        if let Some(call) = part.function_call {
            return self.add_call(call, signature, sink);
        }
        if let Some(data) = part.inline_data.filter(|_| part.thought != Some(true)) {
            return self.add_media(&data, signature);
        }
        if let Some(text) = part.text {
            return self.add_text(text, part.thought == Some(true), signature, sink);
        }
        self.sources.end_part();
        if let Some(code) = part.executable_code {
            let input = json!({"language": code.get("language"), "code": code.get("code")});
            self.start_hosted_call("code_execution", code.get("id"), input, sink)?;
        } else if let Some(result) = part.code_execution_result {
            self.finish_code_execution(&result, sink)?;
        } else if let Some(call) = part.tool_call {
            let input = call.get("args").cloned().unwrap_or_default();
            self.start_hosted_call(&hosted_tool_name(&call), call.get("id"), input, sink)?;
        } else if let Some(response) = part.tool_response {
            self.finish_tool_call(&response, sink)?;
        } else if signature.is_some() {
            // Gemini rejects a part without data, so the signature is sent back with an empty text.
            return self.add_text(String::new(), false, signature, sink);
        }
        let mut other: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        if self.has_stand_ins {
            surrogates::join_surrogates(&mut other);
        }
        if other.as_object().is_some_and(|fields| !fields.is_empty()) {
            self.reply.try_add_size(raw.get().len())?;
            self.log.add_other(other);
        }
        Ok(())
    }

    fn add_text(
        &mut self,
        text: String,
        is_thought: bool,
        signature: Option<String>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if is_thought {
            let start = self.reply.reasoning().len();
            self.reply.add_reasoning(text, sink)?;
            self.log.add_thought(start, self.reply.reasoning().len(), signature);
            self.sources.end_part();
        } else {
            let start = self.reply.text().len();
            self.reply.add_text(text, sink)?;
            let end = self.reply.text().len();
            self.sources.add_text(TextPlace { start, end });
            self.log.add_text(start, end, signature);
        }
        Ok(())
    }

    fn add_call(
        &mut self,
        call: WireCall,
        signature: Option<String>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let id = call.id.filter(|id| !id.is_empty());
        let name = call.name.unwrap_or_default();
        let piece = CallPiece {
            index: None,
            id: id.clone(),
            name: Some(tool_name(&name).to_owned()),
            arguments: arguments_text(call.args.as_deref()),
        };
        self.sources.end_part();
        self.reply.calls.begin_chunk();
        self.reply.add_call(piece, None, PieceKind::Whole, sink)?;
        self.log.add_call(SentId::Received(id), signature);
        Ok(())
    }

    fn add_media(&mut self, data: &InlineData, signature: Option<String>) -> Result<(), ModelError> {
        let bytes = BinaryData::from_base64(&data.data).map_err(|error| {
            ModelError::InvalidResponse(format!("its {} is no base64: {error}", data.mime_type))
        })?;
        self.sources.end_part();
        self.reply.add_media(Content::from_bytes(bytes, data.mime_type.as_str()))?;
        self.log.add_media(signature);
        Ok(())
    }

    fn start_hosted_call(
        &mut self,
        tool: &str,
        id: Option<&Value>,
        input: Value,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let id = id.and_then(Value::as_str).unwrap_or_default();
        self.reply.start_hosted_call(HostedCall { input, ..HostedCall::new(id, tool) }, sink)
    }

    /// Returns the call of a hosted tool with the id in `result`, or a new call of `tool`.
    fn started_call(&self, tool: &str, result: &Value) -> HostedCall {
        let id = result.get("id").and_then(Value::as_str).unwrap_or_default();
        let started = self.reply.hosted_calls().iter().rfind(|call| call.id == id && call.tool == tool);
        started.cloned().unwrap_or_else(|| HostedCall::new(id, tool))
    }

    fn finish_code_execution(&mut self, result: &Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
        let (outcome, output) = (text("outcome"), text("output"));
        let failure = if output.is_empty() { outcome } else { output };
        let call = HostedCall {
            output: json!({"outcome": outcome, "output": output}),
            error: (outcome != "OUTCOME_OK").then(|| excerpt(failure)),
            ..self.started_call("code_execution", result)
        };
        self.reply.finish_hosted_call(call, sink)
    }

    fn finish_tool_call(&mut self, response: &Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let output = response.get("response").cloned().unwrap_or_default();
        let call = HostedCall { output, ..self.started_call(&hosted_tool_name(response), response) };
        self.reply.finish_hosted_call(call, sink)
    }

    pub(super) fn finish(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        self.reply.flush(sink)?;
        self.sources.add_to(&mut self.reply, sink)?;
        let mut response = self.reply.finish()?;
        self.log.store(&mut response.message, WireApi::GenerateContent.stored_field(), &self.origin);
        Ok(response)
    }

    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        // An error about the size limit is ignored, because the reply has failed already.
        let _ = self.reply.flush(&mut None);
        self.reply.into_truncated(reason)
    }
}

/// Returns the name of the hosted tool in `call`, a `toolCall` or a `toolResponse`.
fn hosted_tool_name(call: &Value) -> String {
    let kind = call.get("toolType").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "GOOGLE_SEARCH_WEB" => "web_search".to_owned(),
        other => other.to_ascii_lowercase(),
    }
}

impl PromptFeedback {
    /// Returns the error for a blocked prompt. `None` if the prompt is not blocked.
    fn into_error(self) -> Option<ModelError> {
        let reason = self.block_reason.filter(|reason| !reason.is_empty())?;
        let message = self.block_reason_message.filter(|message| !message.is_empty());
        let message = message.map(|message| format!(": {}", excerpt(&message))).unwrap_or_default();
        Some(ModelError::ContentFiltered(format!("the prompt was blocked ({reason}){message}")))
    }
}
