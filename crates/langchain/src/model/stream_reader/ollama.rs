//! Chat responses of Ollama.

use serde_json::Value;

use haft_core::{
    model::{CallPiece, FinishReason, ModelError},
    usage::Usage,
};

use super::{Accumulator, filled, json_text, number, text};

/// Parses a response. `None` if `value` is not a response.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Result<Option<()>, ModelError> {
    let Some(is_done) = value.get("done").and_then(Value::as_bool) else { return Ok(None) };
    reply.model = Some(text(value, "/model").to_owned()).filter(|name| !name.is_empty());
    reply.push_reasoning(text(value, "/message/thinking"));
    reply.push_text(text(value, "/message/content"));
    let calls = value.pointer("/message/tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        // Each element is a whole call.
        reply.push_whole_call(CallPiece {
            name: filled(call, "/function/name"),
            arguments: json_text(call.pointer("/function/arguments")),
            ..CallPiece::default()
        })?;
    }
    if is_done {
        reply.usage = Usage::one_request(number(value, "/prompt_eval_count"), number(value, "/eval_count"));
        // The client of LangChain drops `done_reason`.
        reply.finish_reason = Some(FinishReason::Stop);
        reply.is_complete = true;
    }
    Ok(Some(()))
}
