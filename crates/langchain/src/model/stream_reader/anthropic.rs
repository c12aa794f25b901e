//! Events of Anthropic's Messages API.

use serde_json::Value;

use haft_core::{model::FinishReason, usage::Usage};

use super::{Accumulator, number, text};

/// Parses an event. `None` if `value` is not an event.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Option<()> {
    let index = number(value, "/index");
    match value.get("type")?.as_str()? {
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
                reply.start_call(index, text(value, "/content_block/id"), text(value, "/content_block/name"));
                // The input is complete here only if no delta follows.
                let input = value.pointer("/content_block/input").and_then(Value::as_object);
                if let Some(input) = input.filter(|input| !input.is_empty()) {
                    reply.push_arguments(index, &Value::Object(input.clone()).to_string())?;
                }
            }
            "text" => reply.push_text(text(value, "/content_block/text")),
            _ => {}
        },
        "content_block_delta" => match text(value, "/delta/type") {
            "text_delta" => reply.push_text(text(value, "/delta/text")),
            "thinking_delta" => reply.push_reasoning(text(value, "/delta/thinking")),
            "input_json_delta" => reply.push_arguments(index, text(value, "/delta/partial_json"))?,
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
    Some(())
}
