use std::borrow::Cow;

use haft_core::model::{
    ChatRequest, ChatResponse, ModelError, ModelProfile, ResponseFormat, ToolChoice,
    adapter::ResponseSchemaOptions, split_system_messages,
};
use haft_http::model::{Connection, ModelApi, ReplyStream, RequestTimer};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    SafetySetting,
    body::{RESPONSE_SCHEMA, Settings, ToolsField, wire_seed},
    generate_content::{WireSchema, response_schema},
};
use crate::{
    format::{Conversation, wire_name},
    reply::InteractionsAccumulator,
};

/// The names of all fields of a [`Body`], except those in `extra`.
pub(super) const FIELDS: &[&str] = &[
    "model",
    "system_instruction",
    "input",
    "tools",
    "response_format",
    "safety_settings",
    "generation_config",
    "store",
    "stream",
];

/// The Interactions API.
pub(super) struct Interactions {
    settings: Settings,
    path: &'static str,
}

impl Interactions {
    /// `has_version` is `true` if the base URL contains the version of the API.
    pub(super) fn new(settings: Settings, has_version: bool) -> Self {
        Self { settings, path: if has_version { "/interactions" } else { "/v1/interactions" } }
    }
}

impl ModelApi for Interactions {
    type Accumulator = InteractionsAccumulator;

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
    ) -> Result<(ReplyStream<InteractionsAccumulator>, Option<ChatResponse>), ModelError> {
        let body = Body::new(&self.settings, request, is_streamed)?;
        let reply = connection.post(self.path, &body, timer).await.map_err(|rejection| rejection.error)?;
        let accumulator = InteractionsAccumulator::new(self.settings.encoding.origin.clone());
        ReplyStream::open(reply, accumulator, is_streamed).await
    }
}

/// The body of a request. Messages and tools are inserted as cached JSON text.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<String>,
    input: Conversation,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<ToolsField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<TextFormat>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    safety_settings: Vec<WireSafetySetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig<'a>>,
    store: bool,
    stream: bool,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextFormat {
    mime_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<WireSchema>,
}

#[derive(Serialize)]
struct WireSafetySetting {
    r#type: &'static str,
    threshold: &'static str,
}

#[derive(Default, Serialize)]
struct GenerationConfig<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_summaries: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireToolChoice<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireToolChoice<'a> {
    Mode(&'static str),
    Tool { allowed_tools: AllowedTools<'a> },
}

#[derive(Serialize)]
struct AllowedTools<'a> {
    mode: &'static str,
    tools: [Cow<'a, str>; 1],
}

impl<'a> Body<'a> {
    fn new(settings: &'a Settings, request: &'a ChatRequest, stream: bool) -> Result<Self, ModelError> {
        let (system_instruction, messages) = split_system_messages(request.all_messages());
        let tools = ToolsField::new(settings, request)?;
        let has_functions = tools.as_ref().is_some_and(ToolsField::has_functions);
        let is_json = request.response_format != ResponseFormat::Text;
        let mime_type = "application/json";
        let safety = settings.safety_settings.iter().map(WireSafetySetting::from);
        Ok(Self {
            model: &settings.profile.name,
            system_instruction,
            input: Conversation::new(messages, &settings.encoding),
            tools,
            response_format: is_json
                .then(|| TextFormat { mime_type, schema: response_schema(&request.response_format) }),
            safety_settings: safety.collect(),
            generation_config: GenerationConfig::new(settings, request, has_functions),
            store: false,
            stream,
            extra: &settings.extra_fields,
        })
    }
}

impl<'a> GenerationConfig<'a> {
    /// Returns the settings of `request`. `None` if all settings are the default.
    fn new(settings: &Settings, request: &'a ChatRequest, has_functions: bool) -> Option<Self> {
        let choice = WireToolChoice::new(&request.tool_choice, settings.validates_calls);
        let sampling = &request.settings;
        let config = Self {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            max_output_tokens: sampling.max_tokens,
            stop_sequences: &sampling.stop,
            seed: sampling.seed.map(wire_seed),
            thinking_level: settings.thinking_level.map(super::ThinkingLevel::name),
            thinking_summaries: settings.includes_thoughts.then_some("auto"),
            tool_choice: choice.filter(|_| has_functions),
        };
        let is_default = matches!(
            config,
            Self {
                temperature: None,
                top_p: None,
                max_output_tokens: None,
                stop_sequences: [],
                seed: None,
                thinking_level: None,
                thinking_summaries: None,
                tool_choice: None,
            }
        );
        (!is_default).then_some(config)
    }
}

impl<'a> WireToolChoice<'a> {
    fn new(choice: &'a ToolChoice, validates_calls: bool) -> Option<Self> {
        match choice {
            ToolChoice::Auto if validates_calls => Some(Self::Mode("validated")),
            ToolChoice::Auto => None,
            ToolChoice::None => Some(Self::Mode("none")),
            ToolChoice::Required => Some(Self::Mode("any")),
            ToolChoice::Tool(name) => {
                let tools = [wire_name(name.as_str())];
                Some(Self::Tool { allowed_tools: AllowedTools { mode: "any", tools } })
            }
        }
    }
}

impl From<&SafetySetting> for WireSafetySetting {
    fn from(setting: &SafetySetting) -> Self {
        Self { r#type: setting.category.name(), threshold: setting.threshold.name() }
    }
}
