//! What the bodies of both APIs share.

use std::sync::Arc;

use haft_core::{
    model::{ChatRequest, ModelError, ModelProfile, adapter::ResponseSchemaOptions},
    schema::SchemaTarget,
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{Map, Value};

use super::{SafetySetting, ThinkingLevel, hosted_tools::encode_hosted_tool};
use crate::format::{EncodedTools, EncodingOptions, cached_tools};

/// The settings that a client applies to all its requests.
pub(super) struct Settings {
    pub(super) profile: ModelProfile,
    pub(super) encoding: Arc<EncodingOptions>,
    pub(super) thinking_level: Option<ThinkingLevel>,
    pub(super) thinking_budget: Option<i32>,
    pub(super) includes_thoughts: bool,
    pub(super) validates_calls: bool,
    pub(super) safety_settings: Vec<SafetySetting>,
    pub(super) extra_fields: Map<String, Value>,
}

/// The restrictions that the server imposes on response schemas.
pub(super) const RESPONSE_SCHEMA: ResponseSchemaOptions =
    ResponseSchemaOptions { target: SchemaTarget::GeminiJsonSchema, needs_object_root: false };

/// The field `tools` of a request: the cached declarations of functions, and the hosted tools.
pub(super) struct ToolsField {
    functions: Arc<EncodedTools>,
    hosted: Vec<Value>,
}

impl ToolsField {
    /// Returns the tools of `request`. `None` if it has none.
    pub(super) fn new(settings: &Settings, request: &ChatRequest) -> Result<Option<Self>, ModelError> {
        let api = settings.encoding.api;
        let functions = cached_tools(&request.tools, api);
        let hosted = request.hosted_tools.iter().map(|tool| encode_hosted_tool(tool, api));
        let hosted = hosted.collect::<Result<Vec<_>, _>>()?;
        let is_empty = functions.is_empty() && hosted.is_empty();
        Ok((!is_empty).then_some(Self { functions, hosted }))
    }

    pub(super) fn has_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    pub(super) fn has_hosted_tools(&self) -> bool {
        !self.hosted.is_empty()
    }
}

impl Serialize for ToolsField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.functions.len() + self.hosted.len()))?;
        self.functions.iter().try_for_each(|tool| list.serialize_element(tool))?;
        self.hosted.iter().try_for_each(|tool| list.serialize_element(tool))?;
        list.end()
    }
}

/// Returns `seed` in the range of a seed of Gemini, from 0 to 2³¹ - 1.
pub(super) fn wire_seed(seed: u64) -> u64 {
    seed % (1 << 31)
}
