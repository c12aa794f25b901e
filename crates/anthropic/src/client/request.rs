use haft_core::model::{ChatRequest, ModelError, ResponseFormat, adapter::ResponseSchema};
use haft_http::model::JsonValue;
use serde::{Serialize, Serializer};
use serde_json::{Map, json, value::RawValue, value::to_raw_value};

use super::{
    MessagesApi, OptionalParams,
    thinking::WireThinking,
    tools::{ToolFields, WireMcpServer, mcp_servers},
};
use crate::format::{Conversation, Messages, write_list};

/// The names of all fields of a [`Body`], except those in `extra`.
pub(super) const FIELDS: &[&str] = &[
    "model",
    "max_tokens",
    "system",
    "messages",
    "tools",
    "tool_choice",
    "mcp_servers",
    "thinking",
    "output_config",
    "temperature",
    "top_p",
    "stop_sequences",
    "stream",
];

/// The body of a request. Blocks and tools are inserted as cached JSON text.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "System::is_empty")]
    system: System<'a>,
    messages: Messages<'a>,
    #[serde(flatten)]
    tool_fields: Option<ToolFields<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mcp_servers: Vec<WireMcpServer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WireThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(flatten)]
    extra: Option<&'a Map<String, JsonValue>>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat>,
}

#[derive(Serialize)]
struct OutputFormat {
    r#type: &'static str,
    schema: Box<RawValue>,
}

impl<'a> Body<'a> {
    /// Creates the body for `request`, whose messages are `conversation`, without `omitted`.
    pub(super) fn new(
        api: &'a MessagesApi,
        request: &'a ChatRequest,
        conversation: &'a Conversation,
        omitted: OptionalParams,
    ) -> Result<Self, ModelError> {
        let (settings, requested) = (&api.settings, &request.settings);
        let max_tokens = requested.max_tokens.unwrap_or(settings.max_tokens);
        let thinking = WireThinking::of(api, request, conversation, max_tokens, omitted);
        let (format, instruction) = output_format(api, request);
        let effort = settings.effort.as_deref().filter(|_| !omitted.has(OptionalParams::EFFORT));
        let has_config = effort.is_some() || format.is_some();
        // The API rejects sampling parameters with thinking, and the two together.
        let samples = api.family.has_sampling && !thinking.is_some_and(WireThinking::is_on);
        let temperature =
            requested.temperature.filter(|_| samples && !omitted.has(OptionalParams::TEMPERATURE));
        let top_p = requested
            .top_p
            .filter(|_| samples && temperature.is_none() && !omitted.has(OptionalParams::TOP_P));
        Ok(Self {
            model: &api.profile.name,
            max_tokens: Some(max_tokens.max(1)),
            system: System { conversation, instruction, cache_control: settings.cache_control },
            messages: conversation.messages(settings.cache_control),
            tool_fields: ToolFields::new(api, request)?,
            mcp_servers: mcp_servers(request),
            thinking,
            output_config: has_config.then_some(OutputConfig { effort, format }),
            // The highest temperature of OpenAI is 2, and that of Anthropic is 1.
            temperature: temperature.map(|temperature| temperature.min(1.0)),
            top_p,
            // The API rejects sequences of whitespace.
            stop_sequences: requested
                .stop
                .iter()
                .map(String::as_str)
                .filter(|text| !text.trim().is_empty())
                .collect(),
            stream: None,
            extra: Some(&settings.extra_fields),
        })
    }

    /// Returns the body for a reply.
    pub(super) fn for_reply(self, is_streamed: bool) -> Self {
        Self { stream: Some(is_streamed), ..self }
    }

    /// Returns the body for the endpoint that counts tokens, which rejects some fields.
    pub(super) fn for_counting(self) -> Self {
        let stop_sequences = Vec::new();
        Self { max_tokens: None, temperature: None, top_p: None, stop_sequences, extra: None, ..self }
    }
}

/// Returns the `format` for the reply to `request`, or else a system block that states the format.
///
/// The API has no format for any JSON object. A schema without a strict form is not accepted, nor is
/// a schema with citations.
fn output_format(api: &MessagesApi, request: &ChatRequest) -> (Option<OutputFormat>, Option<Box<RawValue>>) {
    let instruction = |text: String| to_raw_value(&json!({"type": "text", "text": text})).ok();
    match &request.response_format {
        ResponseFormat::Text => (None, None),
        ResponseFormat::JsonObject => {
            (None, instruction("Reply with one JSON object and no other text.".to_owned()))
        }
        ResponseFormat::JsonSchema { name, schema } => {
            let sent = ResponseSchema::of(schema, name, api.schema_options());
            if api.accepts_schema(&sent) {
                return (Some(OutputFormat { r#type: "json_schema", schema: sent.json().to_owned() }), None);
            }
            let text = format!(
                "Reply with one JSON value that is valid for this JSON Schema, and no other text:\n{}",
                schema.as_value()
            );
            (None, instruction(text))
        }
    }
}

/// The `system` field: the system messages at the start of the conversation, and the instruction of
/// the format.
struct System<'a> {
    conversation: &'a Conversation,
    instruction: Option<Box<RawValue>>,
    cache_control: Option<&'a str>,
}

impl System<'_> {
    fn blocks(&self) -> impl Iterator<Item = &RawValue> {
        self.conversation.system().chain(self.instruction.as_deref())
    }

    fn is_empty(&self) -> bool {
        self.blocks().next().is_none()
    }
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.blocks().count().checked_sub(1);
        write_list(serializer, self.blocks(), last, self.cache_control)
    }
}
