//! Chunks of OpenAI's Chat Completions.

use serde_json::Value;

use haft_core::{model::FinishReason, usage::Usage};

use super::{Accumulator, number, text};

/// Parses a chunk. `None` if `value` is not a chunk.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Option<()> {
    let choices = value.get("choices")?.as_array()?;
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
    let Some(choice) = choices.iter().find(|choice| number(choice, "/index") == 0) else { return Some(()) };
    reply.push_text(text(choice, "/delta/content"));
    reply.push_refusal(text(choice, "/delta/refusal"));
    let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
    for (position, part) in calls.into_iter().flatten().enumerate() {
        parse_call(reply, position, part);
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
    Some(())
}

/// Adds a part of a call. A part with a new id and a name starts another call, because some servers
/// send the same index for each call. A repeated id continues its call: vLLM repeats it in each
/// part.
fn parse_call(reply: &mut Accumulator, position: usize, part: &Value) {
    let index = part.get("index").and_then(Value::as_u64).unwrap_or(position as u64);
    let (id, name) = (text(part, "/id"), text(part, "/function/name"));
    let is_continued =
        reply.find_call(index).and_then(|position| reply.calls.get(position)).is_some_and(|call| {
            id.is_empty() || name.is_empty() || call.received_id.is_empty() || call.received_id == id
        });
    if !is_continued {
        reply.start_call(index, id, name);
    }
    // The call exists: it was just started, or it is continued.
    let _ = reply.push_arguments(index, text(part, "/function/arguments"));
}
