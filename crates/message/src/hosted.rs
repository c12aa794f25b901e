//! Calls of hosted tools, which the provider of a model executes, and citations.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call of a hosted tool: the provider has executed it while the model wrote its reply. No tool
/// of the program runs, and the call has no [`ToolResult`](crate::call::ToolResult).
///
/// # Examples
///
/// ```
/// use haft_message::message::HostedCall;
/// use serde_json::json;
///
/// let search = HostedCall { input: json!({"query": "haft"}), ..HostedCall::new("ws_1", "web_search") };
/// assert!(search.output.is_null() && search.error.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostedCall {
    /// The id of the call, from the provider. Empty if it sends none.
    pub id: String,
    /// The name of the tool: `web_search`, `code_execution`, `file_search`, `tool_search`, `mcp:SERVER/TOOL`, or
    /// another name that the provider sends.
    pub tool: String,
    /// The input of the tool, such as `{"query": "…"}`. Null if the provider does not send it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// The output as the provider sends it. Null if the provider does not send it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// The error of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HostedCall {
    /// Creates a call without input and output.
    pub fn new(id: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { id: id.into(), tool: tool.into(), ..Self::default() }
    }
}

/// A source that the model cites in its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Citation {
    /// The part of the [text](crate::message::AssistantMessage::text) that the source supports, in
    /// bytes. `None` if the provider sends no position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<usize>>,
    /// The title of the source, for example of a web page or a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The URL of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The provider's id of a file or document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The cited passage of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}
