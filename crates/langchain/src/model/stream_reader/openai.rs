//! Chunks of OpenAI's Chat Completions.

use serde_json::Value;

use haft_core::{
    model::{CallPiece, FinishReason, ModelError},
    usage::Usage,
};

use super::{Accumulator, filled, json_text, number, text};

/// Parses a chunk. `None` if `value` is not a chunk.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Result<Option<()>, ModelError> {
    let Some(choices) = value.get("choices").and_then(Value::as_array) else { return Ok(None) };
    if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
        reply.usage = Usage {
            cached_input_tokens: number(usage, "/prompt_tokens_details/cached_tokens"),
            reasoning_tokens: number(usage, "/completion_tokens_details/reasoning_tokens"),
            ..Usage::one_request(number(usage, "/prompt_tokens"), number(usage, "/completion_tokens"))
        };
    }
    for (member, field) in [("/id", &mut reply.id), ("/model", &mut reply.model)] {
        let received = text(value, member);
        if field.is_none() && !received.is_empty() {
            *field = Some(received.to_owned());
        }
    }
    let Some(choice) = choices.iter().find(|choice| number(choice, "/index") == 0) else {
        return Ok(Some(()));
    };
    reply.push_text(text(choice, "/delta/content"));
    reply.push_refusal(text(choice, "/delta/refusal"));
    let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
    for part in calls.into_iter().flatten() {
        reply.push_call(CallPiece {
            index: part.get("index").and_then(Value::as_i64),
            id: filled(part, "/id"),
            name: filled(part, "/function/name"),
            arguments: json_text(part.pointer("/function/arguments")),
        })?;
    }
    let reason = text(choice, "/finish_reason");
    if !reason.is_empty() {
        reply.finish_reason = Some(match reason {
            "stop" => FinishReason::Stop,
            "tool_calls" | "function_call" => FinishReason::ToolCalls,
            "length" => FinishReason::Length,
            "content_filter" => FinishReason::ContentFilter,
            other => FinishReason::Other(other.to_owned()),
        });
        reply.is_complete = true;
    }
    Ok(Some(()))
}
