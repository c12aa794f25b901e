use std::{borrow::Cow, sync::Arc};

use haft_core::{
    ToolName,
    model::{ChatRequest, ResponseFormat, ToolChoice, adapter::ResponseSchema, split_system_messages},
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{RequestVariant, ResponsesApi};
use crate::{
    client::{Client, unsupported_params::OptionalParam},
    format::{Input, ResponsesTools, ToolFormat, cached_tools, included_results},
    reply::ResponsesAccumulator,
};

/// The names of all fields of a [`Body`], except those in `extra`.
pub(super) const FIELDS: &[&str] = &[
    "model",
    "instructions",
    "input",
    "previous_response_id",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "temperature",
    "top_p",
    "max_output_tokens",
    "prompt_cache_key",
    "store",
    "include",
    "stream",
];

/// The body of a Responses request. Input items and tools are inserted as cached JSON text.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Input,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_response_id: Option<String>,
    #[serde(flatten)]
    tool_fields: Option<ToolFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    stream: bool,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// The fields of a request that concern tools. All of them are omitted from a request without
/// tools.
#[derive(Serialize)]
struct ToolFields<'a> {
    tools: ResponsesTools,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
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
    name: &'a ToolName,
}

#[derive(Serialize)]
struct Text<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat<'a> {
    JsonObject,
    JsonSchema {
        name: &'a ToolName,
        #[serde(flatten)]
        schema: Arc<ResponseSchema>,
    },
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

impl<'a> Body<'a> {
    /// Creates the body for `request` and the accumulator for its reply. Clears
    /// `variant.sends_previous_id` if the body has no `previous_response_id` of an earlier reply.
    pub(super) fn new(
        client: &'a Client<ResponsesApi>,
        request: &'a ChatRequest,
        variant: &mut RequestVariant,
    ) -> (Self, ResponsesAccumulator) {
        let (settings, options) = (&request.settings, &client.api.options);
        let (effort, summary) =
            (client.defaults.reasoning_effort.as_deref(), options.reasoning_summary.as_deref());
        let omitted = variant.omitted;
        let takes = |param| !omitted.has(param);
        let encoding = client.encoding_without(omitted);
        // Only a message can have a cache breakpoint. The instructions of a request are not stored
        // with its response, so a request that continues a response sends them in their field.
        let sends_instructions_as_message = encoding.cache_breakpoints.is_some()
            && !options.uses_previous_response_id
            && options.first_response_id.is_none();
        let (instructions, messages) = if sends_instructions_as_message {
            (None, request.all_messages().collect())
        } else if encoding.has_one_system_message {
            split_system_messages(request.all_messages())
        } else {
            (request.instructions.as_ref().map(|message| message.text()), request.messages.iter().collect())
        };
        let whole = Input::new(messages, encoding);
        // The digest is needed only to recognize the conversation in a later request with
        // `previous_response_id`.
        let stored = options.uses_previous_response_id.then(|| whole.digest());
        let since = if variant.sends_previous_id { whole.after_stored_response() } else { None };
        let (previous, input) = match since {
            Some((id, input)) => (Some(id.to_owned()), Some(input)),
            None => (None, None),
        };
        variant.sends_previous_id = previous.is_some();
        let body = Self {
            model: &client.profile.name,
            instructions,
            input: input.unwrap_or(whole),
            previous_response_id: previous.or_else(|| options.first_response_id.clone()),
            tool_fields: ToolFields::new(client, request, takes(OptionalParam::ParallelToolCalls)),
            text: TextFormat::new(&request.response_format, client).map(|format| Text { format }),
            reasoning: effort.or(summary).map(|_| Reasoning { effort, summary }),
            temperature: settings.temperature.filter(|_| takes(OptionalParam::Temperature)),
            top_p: settings.top_p.filter(|_| takes(OptionalParam::TopP)),
            max_output_tokens: settings.max_tokens,
            prompt_cache_key: client
                .defaults
                .cache_key_of(request)
                .filter(|_| takes(OptionalParam::PromptCacheKey)),
            store: options.stores_responses(),
            include: takes(OptionalParam::EncryptedReasoning)
                .then_some("reasoning.encrypted_content")
                .into_iter()
                .chain(included_results(&request.hosted_tools))
                .collect(),
            stream: variant.is_streamed,
            extra: &client.defaults.extra_fields,
        };
        (body, ResponsesAccumulator::new(encoding, stored))
    }
}

impl<'a> ToolFields<'a> {
    fn new(client: &Client<ResponsesApi>, request: &'a ChatRequest, with_parallel: bool) -> Option<Self> {
        let tool_choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(WireToolChoice::Mode("none")),
            ToolChoice::Required => Some(WireToolChoice::Mode("required")),
            ToolChoice::Tool(name) => Some(WireToolChoice::Tool(NamedTool { name })),
        };
        (!request.tools.is_empty() || !request.hosted_tools.is_empty()).then(|| Self {
            tools: Self::tools(client, request),
            tool_choice,
            parallel_tool_calls: request.settings.parallel_tool_calls.filter(|_| with_parallel),
        })
    }
}

impl ToolFields<'_> {
    /// Returns the hosted tools and the functions. If there are more functions than the limit of the
    /// client, the model finds them with the hosted tool search, unless it has to call one by its
    /// name.
    fn tools(client: &Client<ResponsesApi>, request: &ChatRequest) -> ResponsesTools {
        let is_large = client.api.options.tool_search_threshold.is_some_and(|max| request.tools.len() > max);
        let is_deferred = is_large && !matches!(request.tool_choice, ToolChoice::Tool(_));
        let format = if is_deferred { ToolFormat::DeferredResponses } else { ToolFormat::Responses };
        let functions = cached_tools(&request.tools, format, client.defaults.quirks.schema_target);
        let mut tools = ResponsesTools::new(&request.hosted_tools, functions);
        if is_deferred {
            tools.add_tool_search();
        }
        tools
    }
}

impl<'a> TextFormat<'a> {
    fn new(format: &'a ResponseFormat, client: &Client<ResponsesApi>) -> Option<Self> {
        match format {
            ResponseFormat::Text => None,
            ResponseFormat::JsonObject => Some(Self::JsonObject),
            ResponseFormat::JsonSchema { name, schema } => {
                let schema =
                    ResponseSchema::of(schema, name, client.defaults.quirks.response_schema_options());
                Some(Self::JsonSchema { name, schema })
            }
        }
    }
}
