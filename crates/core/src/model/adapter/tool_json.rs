//! Functions that the provider formats share, for encoding tools and results and decoding calls.

use std::borrow::Cow;

use serde_json::Value;

use crate::{ToolDefinition, ToolName, ToolResult, content::Content, model::ModelError};

/// Adds the description of `definition` to `tool`, its encoded form, unless the description is
/// empty.
pub fn with_description(definition: &ToolDefinition, mut tool: Value) -> Value {
    let description = definition.description();
    if let (false, Value::Object(tool)) = (description.is_empty(), &mut tool) {
        tool.insert("description".to_owned(), description.into());
    }
    tool
}

/// Encodes the content of `result` as a list of parts if `is_readable` accepts at least one piece,
/// or else as text. `form` encodes one piece as a part. If `result` has warnings, they are the last
/// part of the list.
pub fn encode_result_content(
    result: &ToolResult,
    is_readable: impl Fn(&Content) -> bool,
    form: impl Fn(&Content) -> Value,
) -> Value {
    let content = result.output().map(|output| output.content.as_slice()).unwrap_or_default();
    if content.iter().any(is_readable) {
        content.iter().chain(&warnings_of(result)).map(form).collect()
    } else {
        Value::String(result.model_text().into_owned())
    }
}

/// Returns the warnings of `result` as a text. `None` if there are none.
pub fn warnings_of(result: &ToolResult) -> Option<Content> {
    let warnings = result.warnings.join("; ");
    (!warnings.is_empty()).then(|| Content::text(format!("Warning: {warnings}")))
}

/// Returns the string field `key` of `part`, an encoded tool call. Returns an error if the field is
/// missing or not a string, or if it is an empty name.
pub fn required_string(part: &Value, key: &str) -> Result<String, ModelError> {
    let text = part.get(key).and_then(Value::as_str).filter(|text| key != "name" || !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| ModelError::InvalidResponse(format!("a call in it has no string `{key}`")))
}

/// Returns `name`, or a valid tool name derived from it if `name` is invalid.
///
/// A model may call a tool with an invalid name. Servers reject such a name in the message history,
/// so every later request of the conversation would fail.
pub fn valid_tool_name(name: &str) -> Cow<'_, str> {
    if ToolName::new(name).is_ok() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(ToolName::sanitize(name).as_str().to_owned())
    }
}
