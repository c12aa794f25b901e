use std::{borrow::Cow, sync::Arc};

use haft_core::{
    ToolName,
    message::MessageBody,
    model::{ChatRequest, ResponseFormat, ToolChoice, adapter::ResponseSchema},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ChatCompletionsApi, RequestVariant};
use crate::{
    client::{Client, builder::ClientSettings, unsupported_params::OptionalParam},
    format::{EncodedMessages, EncodedTools, encode_tool_for_target, encode_tools_for_target, valid_name},
};

/// The names of all fields of a [`Body`], except those in `extra`.
pub(super) const FIELDS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "random_seed",
    "stream",
    "stream_options",
    "reasoning_effort",
    "prompt_cache_key",
];

/// The body of a Chat Completions request. Messages and tools are inserted as cached JSON text.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: EncodedMessages,
    #[serde(flatten)]
    tool_fields: Option<ToolFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<WireResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// The seed, for servers that use the name `random_seed` instead of `seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<u64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// The fields of a request that concern tools. All of them are omitted from a request without
/// tools, because servers reject the other fields if `tools` is missing.
#[derive(Serialize)]
struct ToolFields<'a> {
    tools: ToolsField,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ToolsField {
    All(Arc<EncodedTools>),
    /// Only the tool that the model must call, for servers that do not support a tool name in
    /// `tool_choice`, or placeholders for the tools of earlier calls.
    Only(Vec<Value>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireToolChoice<'a> {
    Mode(&'static str),
    Tool(NamedTool<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct NamedTool<'a> {
    function: FunctionName<'a>,
}

#[derive(Serialize)]
struct FunctionName<'a> {
    name: &'a ToolName,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a ToolName,
    #[serde(flatten)]
    schema: Arc<ResponseSchema>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(
        client: &'a Client<ChatCompletionsApi>,
        request: &'a ChatRequest,
        variant: &RequestVariant,
    ) -> Self {
        let (settings, defaults) = (&request.settings, &client.defaults);
        let takes = |param| !variant.omitted.has(param);
        let seed = settings.seed.filter(|_| takes(OptionalParam::Seed));
        let encoding = client.encoding_without(variant.omitted);
        let is_random_seed = defaults.quirks.sends_seed_as_random_seed;
        Self {
            model: &client.profile.name,
            messages: if takes(OptionalParam::UserAfterTool) {
                EncodedMessages::new(request.all_messages(), encoding)
            } else {
                EncodedMessages::with_result_separators(request.all_messages(), encoding)
            },
            tool_fields: ToolFields::new(request, defaults, takes(OptionalParam::ParallelToolCalls)),
            response_format: WireResponseFormat::new(&request.response_format, defaults),
            temperature: settings.temperature.filter(|_| takes(OptionalParam::Temperature)),
            top_p: settings.top_p.filter(|_| takes(OptionalParam::TopP)),
            max_tokens: settings.max_tokens.filter(|_| !variant.uses_max_completion_tokens),
            max_completion_tokens: settings.max_tokens.filter(|_| variant.uses_max_completion_tokens),
            stop: if takes(OptionalParam::Stop) { &settings.stop } else { &[] },
            seed: seed.filter(|_| !is_random_seed),
            random_seed: seed.filter(|_| is_random_seed),
            stream: variant.is_streamed,
            stream_options: (variant.is_streamed && takes(OptionalParam::StreamOptions))
                .then_some(StreamOptions { include_usage: true }),
            reasoning_effort: defaults.reasoning_effort.as_deref(),
            prompt_cache_key: defaults.cache_key_of(request).filter(|_| takes(OptionalParam::PromptCacheKey)),
            extra: &defaults.extra_fields,
        }
    }
}

impl<'a> ToolFields<'a> {
    fn new(request: &'a ChatRequest, defaults: &ClientSettings, with_parallel: bool) -> Option<Self> {
        let quirks = defaults.quirks;
        // Gemini and Groq reject tools beside a response format.
        let is_text = request.response_format == ResponseFormat::Text;
        if request.tools.is_empty() && quirks.needs_tools_for_calls && is_text {
            return Self::for_earlier_calls(request);
        }
        let (tools, tool_choice) = match &request.tool_choice {
            ToolChoice::Auto => (None, None),
            ToolChoice::None => (None, Some(WireToolChoice::Mode("none"))),
            ToolChoice::Required => (None, Some(WireToolChoice::Mode("required"))),
            ToolChoice::Tool(name) if !quirks.accepts_named_tool_choice => {
                let named = request.tools.get(name.as_str()).map(|tool| tool.definition());
                let only =
                    named.map(|definition| vec![encode_tool_for_target(definition, quirks.schema_target)]);
                (only.map(ToolsField::Only), Some(WireToolChoice::Mode("required")))
            }
            ToolChoice::Tool(name) => {
                (None, Some(WireToolChoice::Tool(NamedTool { function: FunctionName { name } })))
            }
        };
        let parallel_tool_calls = request.settings.parallel_tool_calls.filter(|_| with_parallel);
        (!request.tools.is_empty()).then(|| Self {
            tools: tools.unwrap_or_else(|| {
                ToolsField::All(encode_tools_for_target(&request.tools, quirks.schema_target))
            }),
            tool_choice,
            parallel_tool_calls,
        })
    }
}

impl ToolFields<'_> {
    /// Returns placeholders for the tools of the calls and results in `request`, which offers no
    /// tools. Returns `None` if there are no calls. Bedrock and Anthropic behind a gateway reject a
    /// conversation with calls if the request has no `tools`.
    fn for_earlier_calls(request: &ChatRequest) -> Option<Self> {
        let mut names: Vec<Cow<'_, str>> = Vec::new();
        for message in request.messages.iter() {
            let calls = message.tool_calls().iter().map(|call| call.name.as_str());
            let result = match message.body() {
                MessageBody::Tool(result) => Some(result.name.as_str()),
                _ => None,
            };
            for name in calls.chain(result).map(valid_name) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let placeholder = |name: &Cow<'_, str>| {
            let parameters = json!({"type": "object", "properties": {}});
            let description = "Not available any more.";
            json!({"type": "function", "function": {
                "name": name, "description": description, "parameters": parameters,
            }})
        };
        (!names.is_empty()).then(|| Self {
            tools: ToolsField::Only(names.iter().map(placeholder).collect()),
            tool_choice: Some(WireToolChoice::Mode("none")),
            parallel_tool_calls: None,
        })
    }
}

impl<'a> WireResponseFormat<'a> {
    fn new(format: &'a ResponseFormat, defaults: &ClientSettings) -> Option<Self> {
        match format {
            ResponseFormat::Text => None,
            ResponseFormat::JsonObject => Some(Self::JsonObject),
            ResponseFormat::JsonSchema { name, schema } => {
                let schema = ResponseSchema::of(schema, name, defaults.quirks.response_schema_options());
                Some(Self::JsonSchema { json_schema: NamedSchema { name, schema } })
            }
        }
    }
}
