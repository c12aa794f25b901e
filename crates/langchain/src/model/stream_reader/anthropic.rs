//! Events of Anthropic's Messages API.

use serde_json::Value;

use haft_core::{
    model::{CallPiece, FinishReason, ModelError},
    usage::Usage,
};

use super::{Accumulator, filled, number, text};

/// Parses an event. `None` if `value` is not an event.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Result<Option<()>, ModelError> {
    let index = value.get("index").and_then(Value::as_i64);
    let Some(kind) = value.get("type").and_then(Value::as_str) else { return Ok(None) };
    match kind {
        "message_start" => {
            let usage = value.pointer("/message/usage").unwrap_or(&Value::Null);
            let cached = number(usage, "/cache_read_input_tokens");
            let written = number(usage, "/cache_creation_input_tokens");
            let input = number(usage, "/input_tokens").saturating_add(cached).saturating_add(written);
            reply.usage = Usage {
                cached_input_tokens: cached,
                ..Usage::one_request(input, number(usage, "/output_tokens"))
            };
            reply.id = Some(text(value, "/message/id").to_owned()).filter(|id| !id.is_empty());
            reply.model = Some(text(value, "/message/model").to_owned()).filter(|name| !name.is_empty());
        }
        "content_block_start" => match text(value, "/content_block/type") {
            "tool_use" => {
                reply.other_block = reply.other_block.filter(|other| Some(*other) != index);
                // The input is complete here only if no delta follows.
                let input = value.pointer("/content_block/input").and_then(Value::as_object);
                let input = input.filter(|input| !input.is_empty());
                reply.push_call(CallPiece {
                    index,
                    id: filled(value, "/content_block/id"),
                    name: filled(value, "/content_block/name"),
                    arguments: input
                        .map(|input| Value::Object(input.clone()).to_string())
                        .unwrap_or_default(),
                })?;
            }
            kind => {
                // Calls of the server's own tools have the same deltas.
                reply.other_block = index;
                if kind == "text" {
                    reply.push_text(text(value, "/content_block/text"));
                }
            }
        },
        "content_block_delta" => match text(value, "/delta/type") {
            "text_delta" => reply.push_text(text(value, "/delta/text")),
            "thinking_delta" => reply.push_reasoning(text(value, "/delta/thinking")),
            "input_json_delta" if index.is_none() || index != reply.other_block => {
                let arguments = text(value, "/delta/partial_json").to_owned();
                reply.push_call(CallPiece { index, arguments, ..CallPiece::default() })?;
            }
            _ => {}
        },
        "message_delta" => {
            let output = number(value, "/usage/output_tokens");
            if output > 0 {
                reply.usage.output_tokens = output;
            }
            reply.finish_reason = Some(match text(value, "/delta/stop_reason") {
                "end_turn" | "stop_sequence" => FinishReason::Stop,
                "tool_use" => FinishReason::ToolCalls,
                "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
                "refusal" => FinishReason::ContentFilter,
                other => FinishReason::Other(other.to_owned()),
            });
        }
        "message_stop" => reply.is_complete = true,
        // `ping`, `content_block_stop` and events of later versions.
        _ => {}
    }
    Ok(Some(()))
}
