//! Chat responses of Ollama.

use serde_json::Value;

use haft_core::{model::FinishReason, usage::Usage};

use super::{Accumulator, number, text};

/// Parses a response. `None` if `value` is not a response.
pub(super) fn parse(reply: &mut Accumulator, value: &Value) -> Option<()> {
    let is_done = value.get("done")?.as_bool()?;
    reply.model = Some(text(value, "/model").to_owned()).filter(|name| !name.is_empty());
    reply.push_reasoning(text(value, "/message/thinking"));
    reply.push_text(text(value, "/message/content"));
    let calls = value.pointer("/message/tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let index = reply.calls.len() as u64;
        reply.start_call(index, "", text(call, "/function/name"));
        let arguments = call.pointer("/function/arguments").map(Value::to_string).unwrap_or_default();
        reply.push_arguments(index, &arguments)?;
    }
    if is_done {
        reply.usage = Usage::one_request(number(value, "/prompt_eval_count"), number(value, "/eval_count"));
        // The client of LangChain drops `done_reason`.
        reply.finish_reason = Some(FinishReason::Stop);
        reply.is_complete = true;
    }
    Some(())
}
