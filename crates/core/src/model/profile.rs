use serde::{Deserialize, Serialize};

use super::HostedToolKind;

/// The name and the capabilities of a model. Agents and provider adapters adjust their requests to
/// these capabilities. In JSON, the field names do not have the prefix `supports_`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The name of the model in the provider's API.
    pub name: String,
    /// `true` if the model supports tool definitions and tool calls (function calling).
    #[serde(rename = "native_tools")]
    pub supports_native_tools: bool,
    /// `true` if the model supports replies constrained by a JSON Schema (structured output).
    #[serde(rename = "json_schema")]
    pub supports_json_schema: bool,
    /// `true` if the model accepts images.
    #[serde(rename = "images", default)]
    pub supports_images: bool,
    /// `true` if the model accepts audio.
    #[serde(rename = "audio", default, skip_serializing_if = "std::ops::Not::not")]
    pub supports_audio: bool,
    /// `true` if the model accepts document files, such as PDF.
    #[serde(rename = "files", default, skip_serializing_if = "std::ops::Not::not")]
    pub supports_files: bool,
    /// The maximum total number of tokens in a request and its reply. `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The hosted tools that the model can use through its adapter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted_tools: Vec<HostedToolKind>,
}

impl ModelProfile {
    /// Creates the profile of a text model that supports tool calls and structured output.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            supports_native_tools: true,
            supports_json_schema: true,
            supports_images: false,
            supports_audio: false,
            supports_files: false,
            context_window: None,
            hosted_tools: Vec::new(),
        }
    }
}
