//! Requests of haft as messages and options of LangChain.

use langchain_rust::{
    language_models::{llm::LLM, options::CallOptions},
    schemas::{self as foreign, FunctionCallBehavior, FunctionDefinition},
};

use haft_core::{
    message::{AssistantMessage, MessageBody},
    model::{
        CallIdFormat, CallIds, ChatRequest, ChatSettings, KeptIds, ModelProfile, ResponseFormat, ToolChoice,
        later_system_text, split_system_messages,
    },
    schema::SchemaTarget,
    toolset::ToolList,
};

use crate::message::{Images, reply_to_langchain, to_langchain_calls, to_langchain_with};

/// The form of schemas that OpenAI and the compatible servers read. The other models of LangChain
/// read it as well.
const TARGET: SchemaTarget = SchemaTarget::OpenAi;

/// A request, ready to be sent.
pub(super) struct Prepared {
    pub(super) llm: Box<dyn LLM>,
    pub(super) messages: Vec<foreign::Message>,
}

/// Returns the call ids of the model with the name `name`. The address of its server is unknown.
///
/// Unless the provider of the model has another format, the ids are valid for OpenAI (40 bytes) and
/// for Anthropic and Bedrock (letters, digits, `_` and `-`).
pub(super) fn call_ids(name: &str) -> CallIds {
    let format = CallIdFormat::of_model(name).unwrap_or(CallIdFormat::WordOfAtMost(40));
    CallIds::new(format, format!("langchain {name}"))
}

/// Returns a clone of `llm` with the options of `request`, and the messages of `request`.
pub(super) fn prepare(
    llm: &dyn LLM,
    profile: &ModelProfile,
    call_ids: &CallIds,
    request: &ChatRequest,
    is_streamed: bool,
) -> Prepared {
    let mut llm = llm.clone_box();
    // `Deepseek::add_options` replaces all earlier options, so it is called only when needed.
    if let Some(options) = options(request, is_streamed) {
        llm.add_options(options);
    }
    let images = if profile.supports_images { Images::Attach } else { Images::Describe };
    Prepared { llm, messages: messages(request, call_ids, images) }
}

/// Returns the messages of `request`, with at most one system message, the first.
fn messages(request: &ChatRequest, call_ids: &CallIds, images: Images) -> Vec<foreign::Message> {
    let (system, others) = split_system_messages(request.all_messages());
    let first = system.map(foreign::Message::new_system_message);
    let mut kept = KeptIds::default();
    let others = others.into_iter().map(|message| {
        let is_id_kept = kept.advance(message, call_ids);
        match message.body() {
            MessageBody::System { .. } => {
                foreign::Message::new_human_message(later_system_text(&message.text()))
            }
            MessageBody::Assistant(reply) => reply_to_langchain(reply, &calls(reply, call_ids)),
            MessageBody::Tool(result) => {
                let id = call_ids.id_of_result(&result.call_id, is_id_kept);
                foreign::Message::new_tool_message(result.model_text(), id)
            }
            MessageBody::User { .. } => to_langchain_with(message, images),
        }
    });
    first.into_iter().chain(others).collect()
}

/// Returns the calls of `reply` with ids and arguments that the server accepts.
fn calls(reply: &AssistantMessage, call_ids: &CallIds) -> Vec<foreign::ToolCall> {
    let mut calls = to_langchain_calls(&reply.tool_calls);
    for (call, own) in calls.iter_mut().zip(&reply.tool_calls) {
        call.id = call_ids.id_of_call(reply, &own.id).into_owned();
        call.arguments = own.arguments_object().into_owned();
    }
    calls
}

/// Returns the options of `request`, or `None` if it has only default values.
#[expect(clippy::cast_possible_truncation, reason = "LangChain's temperatures are `f32`")]
fn options(request: &ChatRequest, is_streamed: bool) -> Option<CallOptions> {
    let ChatSettings { temperature, top_p, max_tokens, stop, seed, parallel_tool_calls: _ } =
        &request.settings;
    let has_tools = !request.tools.is_empty();
    let has_format = request.response_format != ResponseFormat::Text;
    let has_settings = temperature.is_some()
        || top_p.is_some()
        || max_tokens.is_some()
        || seed.is_some()
        || !stop.is_empty();
    if !(has_tools || has_format || has_settings || is_streamed) {
        return None;
    }
    Some(CallOptions {
        temperature: temperature.map(|value| value as f32),
        top_p: top_p.map(|value| value as f32),
        max_tokens: *max_tokens,
        stop_words: (!stop.is_empty()).then(|| stop.clone()),
        seed: seed.and_then(|seed| usize::try_from(seed).ok()),
        functions: has_tools.then(|| functions(&request.tools)),
        function_call_behavior: if has_tools { behavior(request) } else { None },
        response_format: has_format.then(|| response_format(&request.response_format)),
        stream_usage: is_streamed.then_some(true),
        ..CallOptions::new()
    })
}

/// The tools of a snapshot in LangChain's format.
struct Functions(Vec<FunctionDefinition>);

fn functions(tools: &ToolList) -> Vec<FunctionDefinition> {
    let functions = tools.memoize(|tools| {
        let definitions = tools.tools().iter().map(|tool| tool.definition());
        Functions(
            definitions
                .map(|it| {
                    let schema = it.input_schema().for_provider(TARGET);
                    for change in &schema.changes {
                        tracing::debug!(tool = %it.name(), %change, "a tool schema is sent with a change");
                    }
                    FunctionDefinition::new(it.name().as_str(), it.description(), schema.value)
                })
                .collect(),
        )
    });
    functions.0.clone()
}

/// Returns the tool choice of LangChain. It can require a tool by name only, so `Required` with
/// several tools becomes `Auto`. Agents check the calls of a reply themselves.
fn behavior(request: &ChatRequest) -> Option<FunctionCallBehavior> {
    match (&request.tool_choice, request.tools.tools()) {
        (ToolChoice::None, _) => Some(FunctionCallBehavior::None),
        (ToolChoice::Tool(name), _) => Some(FunctionCallBehavior::Named(name.to_string())),
        (ToolChoice::Required, [only]) => {
            Some(FunctionCallBehavior::Named(only.definition().name().to_string()))
        }
        (ToolChoice::Auto | ToolChoice::Required, _) => None,
    }
}

fn response_format(format: &ResponseFormat) -> foreign::ResponseFormat {
    match format {
        ResponseFormat::Text => foreign::ResponseFormat::Text,
        ResponseFormat::JsonObject => foreign::ResponseFormat::JsonObject,
        ResponseFormat::JsonSchema { name, schema } => foreign::ResponseFormat::JsonSchema {
            description: None,
            name: name.to_string(),
            schema: Some(schema.for_reply(TARGET).value),
            strict: None,
        },
    }
}
