use std::sync::Arc;

use haft_core::{
    ToolName,
    model::{ChatRequest, ResponseFormat, ToolChoice},
};
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use super::{Completions, Delivery};
use crate::{
    client::{Client, profile::Habits, refusals::Part},
    format::{AnswerSchema, Arranged, Tools, tool_as, tools_as},
};

/// The fields of a [`Body`], without those that are added to it.
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
];

/// The body of a request: new fields around messages and tools that were serialised before.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Arranged,
    #[serde(flatten)]
    calling: Option<Calling<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<WireFormat<'a>>,
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
    /// The seed, where it is called so.
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<u64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// What is sent together with tools, and refused without them.
#[derive(Serialize)]
struct Calling<'a> {
    tools: Offered,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Offered {
    All(Arc<Tools>),
    /// The one that is to be called, for a server that cannot be told its name.
    Only(Vec<Value>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireChoice<'a> {
    Mode(&'static str),
    Tool(NamedTool<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct NamedTool<'a> {
    function: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a ToolName,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a ToolName,
    #[serde(flatten)]
    schema: Arc<AnswerSchema>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(client: &'a Client<Completions>, request: &'a ChatRequest, form: &Delivery) -> Self {
        let (settings, habits) = (&request.settings, &client.habits);
        let takes = |part| !form.refused.has(part);
        let seed = settings.seed.filter(|_| takes(Part::Seed));
        let is_random_seed = habits.quirks.random_seed;
        Self {
            model: &client.profile.name,
            messages: if takes(Part::UserAfterTool) {
                Arranged::new(request.all_messages(), &client.style)
            } else {
                Arranged::bridged(request.all_messages(), &client.style)
            },
            calling: Calling::new(request, habits, takes(Part::ParallelToolCalls)),
            response_format: WireFormat::new(&request.response_format, habits),
            temperature: settings.temperature.filter(|_| takes(Part::Temperature)),
            top_p: settings.top_p.filter(|_| takes(Part::TopP)),
            max_tokens: settings.max_tokens.filter(|_| !form.newer_limit),
            max_completion_tokens: settings.max_tokens.filter(|_| form.newer_limit),
            stop: if takes(Part::Stop) { &settings.stop } else { &[] },
            seed: seed.filter(|_| !is_random_seed),
            random_seed: seed.filter(|_| is_random_seed),
            stream: form.is_streamed,
            stream_options: (form.is_streamed && takes(Part::StreamOptions))
                .then_some(StreamOptions { include_usage: true }),
            reasoning_effort: habits.effort.as_deref(),
            extra: &habits.extra_body,
        }
    }
}

impl<'a> Calling<'a> {
    fn new(request: &'a ChatRequest, habits: &Habits, with_parallel: bool) -> Option<Self> {
        let quirks = habits.quirks;
        let (tools, tool_choice) = match &request.tool_choice {
            ToolChoice::Auto => (None, None),
            ToolChoice::None => (None, Some(WireChoice::Mode("none"))),
            ToolChoice::Required => (None, Some(WireChoice::Mode("required"))),
            ToolChoice::Tool(name) if !quirks.named_choice => {
                let named = request.tools.get(name.as_str()).map(|tool| tool.definition());
                let only = named.map(|definition| vec![tool_as(definition, quirks.tool_schemas)]);
                (only.map(Offered::Only), Some(WireChoice::Mode("required")))
            }
            ToolChoice::Tool(name) => (None, Some(WireChoice::Tool(NamedTool { function: Named { name } }))),
        };
        let parallel_tool_calls = request.settings.parallel_tool_calls.filter(|_| with_parallel);
        (!request.tools.is_empty()).then(|| Self {
            tools: tools.unwrap_or_else(|| Offered::All(tools_as(&request.tools, quirks.tool_schemas))),
            tool_choice,
            parallel_tool_calls,
        })
    }
}

impl<'a> WireFormat<'a> {
    fn new(format: &'a ResponseFormat, habits: &Habits) -> Option<Self> {
        match format {
            ResponseFormat::Text => None,
            ResponseFormat::JsonObject => Some(Self::JsonObject),
            ResponseFormat::JsonSchema { name, schema } => {
                let schema = AnswerSchema::of(schema, name, habits.quirks.answers());
                Some(Self::JsonSchema { json_schema: NamedSchema { name, schema } })
            }
        }
    }
}
