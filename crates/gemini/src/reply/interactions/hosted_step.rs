//! Steps of hosted tools.

use haft_core::{message::HostedCall, model::adapter::excerpt};
use serde_json::Value;

/// Returns the call in the complete `step`. `None` if it is the result of a call, or another step.
pub(super) fn started_call(step: &Value) -> Option<HostedCall> {
    let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
    let tool = match text("type").strip_suffix("_call")? {
        "google_search" => "web_search".to_owned(),
        "mcp_server_tool" => format!("mcp:{}/{}", text("server_name"), text("name")),
        other => other.to_owned(),
    };
    let input = step.get("arguments").cloned().unwrap_or_default();
    Some(HostedCall { input, ..HostedCall::new(text("id"), tool) })
}

/// Returns the call whose result is the complete `step`, with its output. `None` for any other step.
/// `started` are the earlier calls.
pub(super) fn finished_call(step: &Value, started: &[HostedCall]) -> Option<HostedCall> {
    let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
    text("type").strip_suffix("_result")?;
    let id = text("call_id");
    let known = started.iter().rfind(|call| call.id == id).cloned();
    let output = step.get("result").cloned().unwrap_or_default();
    let is_error = step.get("is_error").and_then(Value::as_bool) == Some(true);
    let error = is_error.then(|| match &output {
        Value::String(text) => excerpt(text),
        other => excerpt(&other.to_string()),
    });
    Some(HostedCall { output, error, ..known.unwrap_or_else(|| HostedCall::new(id, text("type"))) })
}

/// Adds `delta` to `step`. A result is continued, and other fields are replaced.
pub(super) fn merge(step: &mut Value, delta: Value) {
    let (Some(step), Value::Object(delta)) = (step.as_object_mut(), delta) else { return };
    for (key, value) in delta.into_iter().filter(|(key, value)| key != "type" && !value.is_null()) {
        match (step.get_mut(&key), value) {
            (Some(Value::String(known)), Value::String(more)) if key == "result" => known.push_str(&more),
            (Some(Value::Array(known)), Value::Array(more)) if key == "result" => known.extend(more),
            (_, value) => {
                step.insert(key, value);
            }
        }
    }
}
