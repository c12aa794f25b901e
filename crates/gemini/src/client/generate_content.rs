use std::sync::Arc;

use haft_core::model::{
    ChatRequest, ChatResponse, ChatSettings, ModelError, ModelProfile, ResponseFormat, ToolChoice,
    adapter::{ResponseSchema, ResponseSchemaOptions},
    split_system_messages,
};
use haft_http::model::{Connection, ModelApi, ReplyStream, RequestTimer};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    SafetySetting, ThinkingLevel,
    body::{RESPONSE_SCHEMA, Settings, ToolsField, wire_seed},
};
use crate::{
    format::{Conversation, wire_name},
    reply::GenerateContentAccumulator,
};

/// The names of all fields of a [`Body`], except those in `extra`.
pub(super) const FIELDS: &[&str] =
    &["systemInstruction", "contents", "tools", "toolConfig", "safetySettings", "generationConfig"];

/// The API `generateContent`.
pub(super) struct GenerateContent {
    settings: Settings,
    path: String,
    stream_path: String,
}

impl GenerateContent {
    /// `has_version` is `true` if the base URL contains the version of the API.
    pub(super) fn new(settings: Settings, has_version: bool) -> Self {
        let version = if has_version { "" } else { "/v1beta" };
        let name = &settings.profile.name;
        let folder = if name.contains('/') { "" } else { "models/" };
        let path = |method: &str| format!("{version}/{folder}{name}:{method}");
        let (path, stream_path) = (path("generateContent"), path("streamGenerateContent?alt=sse"));
        Self { settings, path, stream_path }
    }
}

impl ModelApi for GenerateContent {
    type Accumulator = GenerateContentAccumulator;

    fn provider(&self) -> &str {
        "gcp.gemini"
    }

    fn profile(&self) -> &ModelProfile {
        &self.settings.profile
    }

    fn response_schema_options(&self) -> ResponseSchemaOptions {
        RESPONSE_SCHEMA
    }

    async fn send(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<(ReplyStream<GenerateContentAccumulator>, Option<ChatResponse>), ModelError> {
        let body = Body::new(&self.settings, request)?;
        let path = if is_streamed { &self.stream_path } else { &self.path };
        let reply = connection.post(path, &body, timer).await.map_err(|rejection| rejection.error)?;
        let accumulator = GenerateContentAccumulator::new(self.settings.encoding.origin.clone());
        ReplyStream::open(reply, accumulator, is_streamed).await
    }
}

/// The body of a request. Messages and tools are inserted as cached JSON text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction>,
    contents: Conversation,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<ToolsField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    safety_settings: &'a [SafetySetting],
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig<'a>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct SystemInstruction {
    parts: [TextPart; 1],
}

#[derive(Serialize)]
struct TextPart {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    function_calling_config: Option<FunctionCallingConfig<'a>>,
    /// Required for functions beside hosted tools. The reply then contains the calls of the hosted
    /// tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_server_side_tool_invocations: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[std::borrow::Cow<'a, str>; 1]>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct SamplingConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(flatten)]
    sampling: SamplingConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<WireSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

/// The JSON text of a response schema.
pub(super) struct WireSchema(Arc<ResponseSchema>);

impl Serialize for WireSchema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json().serialize(serializer)
    }
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<ThinkingLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
}

impl<'a> Body<'a> {
    fn new(settings: &'a Settings, request: &'a ChatRequest) -> Result<Self, ModelError> {
        let (system, messages) = split_system_messages(request.all_messages());
        let tools = ToolsField::new(settings, request)?;
        let tool_config = tools.as_ref().and_then(|tools| ToolConfig::new(settings, request, tools));
        Ok(Self {
            system_instruction: system.map(|text| SystemInstruction { parts: [TextPart { text }] }),
            contents: Conversation::new(messages, &settings.encoding),
            tools,
            tool_config,
            safety_settings: &settings.safety_settings,
            generation_config: GenerationConfig::new(settings, request),
            extra: &settings.extra_fields,
        })
    }
}

impl<'a> ToolConfig<'a> {
    /// Returns the configuration of `tools`. `None` if all settings are the default.
    fn new(settings: &Settings, request: &'a ChatRequest, tools: &ToolsField) -> Option<Self> {
        let config = |mode| FunctionCallingConfig { mode, allowed_function_names: None };
        let function_calling_config = match &request.tool_choice {
            _ if !tools.has_functions() => None,
            ToolChoice::Auto if settings.validates_calls => Some(config("VALIDATED")),
            ToolChoice::Auto => None,
            ToolChoice::None => Some(config("NONE")),
            ToolChoice::Required => Some(config("ANY")),
            ToolChoice::Tool(name) => {
                let names = Some([wire_name(name.as_str())]);
                Some(FunctionCallingConfig { mode: "ANY", allowed_function_names: names })
            }
        };
        let include_server_side_tool_invocations = tools.has_functions() && tools.has_hosted_tools();
        let is_default = function_calling_config.is_none() && !include_server_side_tool_invocations;
        (!is_default).then_some(Self { function_calling_config, include_server_side_tool_invocations })
    }
}

impl<'a> GenerationConfig<'a> {
    /// Returns the settings of `request`. `None` if all settings are the default.
    fn new(settings: &Settings, request: &'a ChatRequest) -> Option<Self> {
        let sampling = SamplingConfig::new(&request.settings);
        let response_json_schema = response_schema(&request.response_format);
        let is_json = request.response_format != ResponseFormat::Text;
        let thinking_config = ThinkingConfig::new(settings);
        let is_default = sampling == SamplingConfig::default() && !is_json && thinking_config.is_none();
        (!is_default).then_some(Self {
            sampling,
            response_mime_type: is_json.then_some("application/json"),
            response_json_schema,
            thinking_config,
        })
    }
}

impl<'a> SamplingConfig<'a> {
    fn new(settings: &'a ChatSettings) -> Self {
        Self {
            temperature: settings.temperature,
            top_p: settings.top_p,
            max_output_tokens: settings.max_tokens,
            stop_sequences: &settings.stop,
            seed: settings.seed.map(wire_seed),
        }
    }
}

/// Returns the schema of `format`. `None` if it has no schema.
pub(super) fn response_schema(format: &ResponseFormat) -> Option<WireSchema> {
    match format {
        ResponseFormat::JsonSchema { name, schema } => {
            Some(WireSchema(ResponseSchema::of(schema, name, RESPONSE_SCHEMA)))
        }
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    }
}

impl ThinkingConfig {
    fn new(settings: &Settings) -> Option<Self> {
        let config = Self {
            thinking_level: settings.thinking_level,
            thinking_budget: settings.thinking_budget,
            include_thoughts: settings.includes_thoughts,
        };
        let default = Self { thinking_level: None, thinking_budget: None, include_thoughts: false };
        (config != default).then_some(config)
    }
}
