use haft_core::message::HostedCall;
use serde_json::{Map, Value};

/// A block of a hosted tool.
pub(super) enum HostedBlock {
    Call(HostedCall),
    Result(HostedCall),
}

impl HostedBlock {
    /// Returns the call or the result in `block`. `calls` are the earlier calls. `None` for a block
    /// of another type.
    pub(super) fn of(block: &Map<String, Value>, calls: &[HostedCall]) -> Option<Self> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type");
        if matches!(kind, "server_tool_use" | "mcp_tool_use") {
            let tool = match kind {
                "mcp_tool_use" => format!("mcp:{}/{}", text("server_name"), text("name")),
                _ => tool_name(text("name")).to_owned(),
            };
            let input = block.get("input").cloned().unwrap_or_default();
            return Some(Self::Call(HostedCall { input, ..HostedCall::new(text("id"), tool) }));
        }
        let tool = kind.strip_suffix("_tool_result")?;
        let id = text("tool_use_id");
        let started = calls.iter().rfind(|call| call.id == id).cloned();
        let call = started.unwrap_or_else(|| HostedCall::new(id, tool_name(tool)));
        let output = block.get("content").cloned().unwrap_or_default();
        let is_error = block.get("is_error") == Some(&Value::Bool(true));
        let error = error_of(&output).or_else(|| is_error.then(|| text_of(&output)));
        Some(Self::Result(HostedCall { output, error, ..call }))
    }
}

/// Returns haft's name for the hosted tool that the API calls `name`.
fn tool_name(name: &str) -> &str {
    match name {
        "bash_code_execution" | "text_editor_code_execution" => "code_execution",
        name if name.starts_with("tool_search") => "tool_search",
        other => other,
    }
}

/// Returns the error code of `output`, an object such as
/// `{"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}`.
fn error_of(output: &Value) -> Option<String> {
    output.get("error_code").and_then(Value::as_str).map(str::to_owned)
}

fn text_of(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}
