use haft_core::ToolResult;
use serde_json::{Value, json};

use super::names::wire_name;

/// Encodes the results of all calls of one reply as the next content of the conversation. The order
/// of `results` is kept.
///
/// The output of a call is sent in the field `output`. Structured output is sent as JSON, or as
/// text if it was shortened, has a warning, has a separate text for the model, or has a key `$ref`,
/// which Gemini rejects. A failure is sent in the field `error`. Media are replaced by a
/// description.
pub fn encode_tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Value {
    let parts: Vec<_> =
        results.into_iter().map(|result| encode_tool_result(result, Some(&result.call_id), &[])).collect();
    json!({"role": "user", "parts": parts})
}

/// Encodes `result` as a part. `id` is the id of the call that is sent, if it has one. `media` are
/// the encoded media of the result.
pub(super) fn encode_tool_result(result: &ToolResult, id: Option<&str>, media: &[Value]) -> Value {
    let text = result.model_text();
    let structured = result.output().and_then(|output| output.structured.as_ref());
    let data = structured
        .filter(|data| serde_json::from_str::<Value>(&text).is_ok_and(|read| read == **data))
        .filter(|data| !has_reference(data));
    let value = data.cloned().unwrap_or_else(|| Value::String(text.into_owned()));
    let key = if result.failure().is_some() { "error" } else { "output" };
    let mut response = json!({"name": wire_name(&result.name), "response": {key: value}});
    if let (Some(id), Value::Object(response)) = (id.filter(|id| !id.is_empty()), &mut response) {
        response.insert("id".to_owned(), id.into());
    }
    if let (false, Value::Object(response)) = (media.is_empty(), &mut response) {
        response.insert("parts".to_owned(), media.to_vec().into());
    }
    json!({"functionResponse": response})
}

/// Returns `true` if `data` has a key `$ref` at any depth. Gemini interprets its value as the name
/// of a part of the result, and rejects any other value
/// (<https://github.com/vercel/ai/issues/14369>).
fn has_reference(data: &Value) -> bool {
    match data {
        Value::Object(members) => members.iter().any(|(key, value)| key == "$ref" || has_reference(value)),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}
