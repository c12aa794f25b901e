//! Messages and options of LangChain as requests of haft.

use langchain_rust::{
    language_models::{LLMError, options::CallOptions},
    schemas::{self as foreign, FunctionCallBehavior, FunctionDefinition},
};

use haft_core::{
    Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput,
    model::{ChatRequest, ChatSettings, ResponseFormat, ToolChoice},
    tool::DynamicTool,
    toolset::ToolList,
};

use crate::message::from_langchain;

/// The functions of LangChain for a model, as tools. They are never called.
#[derive(Clone, Default)]
pub(super) struct Functions {
    definitions: Vec<FunctionDefinition>,
    tools: ToolList,
}

impl Functions {
    /// Adds `new`. A function replaces an earlier function with the same name.
    pub(super) fn add(&mut self, new: Vec<FunctionDefinition>) {
        self.definitions.retain(|earlier| new.iter().all(|function| function.name != earlier.name));
        self.definitions.extend(new);
        self.tools = ToolList::new("langchain", self.definitions.iter().map(offered_tool));
    }

    /// Returns the name in LangChain of the tool named `name`.
    pub(super) fn original_name(&self, name: &str) -> Option<&str> {
        let mut definitions = self.definitions.iter();
        definitions.find(|it| ToolName::sanitize(&it.name) == *name).map(|it| it.name.as_str())
    }
}

/// Returns a tool with the definition of `function`. LangChain executes the calls.
fn offered_tool(function: &FunctionDefinition) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::sanitize(&function.name), Schema::object())
        .with_description(function.description.as_str())
        .with_input_schema(function.parameters.clone());
    DynamicTool::new(definition, |_, _| async {
        Err::<ToolOutput, _>(ToolError::failed("LangChain executes the calls of this model"))
    })
}

/// Creates the request for `messages`. The first message becomes the instructions if it is a system
/// message.
pub(super) fn build(
    messages: &[foreign::Message],
    options: &CallOptions,
    functions: &Functions,
) -> Result<ChatRequest, LLMError> {
    if let Some(diagnostic) = functions.tools.diagnostics().first() {
        return Err(LLMError::OtherError(diagnostic.to_string()));
    }
    let messages = from_langchain(messages.iter().cloned());
    let mut messages =
        messages.map_err(|error| LLMError::OtherError(error.to_string()))?.into_iter().peekable();
    let is_system =
        |message: &Message| matches!(message.body(), haft_core::message::MessageBody::System { .. });
    let instructions = messages.next_if(is_system).map(Into::into);
    Ok(ChatRequest {
        instructions,
        messages: messages.collect(),
        tools: functions.tools.clone(),
        tool_choice: tool_choice(options.function_call_behavior.as_ref()),
        response_format: response_format(options.response_format.as_ref())?,
        settings: ChatSettings {
            temperature: options.temperature.map(shortest_decimal),
            top_p: options.top_p.map(shortest_decimal),
            max_tokens: options.max_tokens,
            stop: options.stop_words.clone().unwrap_or_default(),
            seed: options.seed.and_then(|seed| seed.try_into().ok()),
            parallel_tool_calls: None,
        },
        ..ChatRequest::default()
    })
}

/// Converts `0.7_f32` to `0.7`, where `f64::from` returns 0.699999988079071.
fn shortest_decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

fn tool_choice(behavior: Option<&FunctionCallBehavior>) -> ToolChoice {
    match behavior {
        None | Some(FunctionCallBehavior::Auto) => ToolChoice::Auto,
        Some(FunctionCallBehavior::None) => ToolChoice::None,
        Some(FunctionCallBehavior::Named(name)) => ToolChoice::Tool(ToolName::sanitize(name)),
    }
}

fn response_format(format: Option<&foreign::ResponseFormat>) -> Result<ResponseFormat, LLMError> {
    Ok(match format {
        None | Some(foreign::ResponseFormat::Text) => ResponseFormat::Text,
        Some(
            foreign::ResponseFormat::JsonObject | foreign::ResponseFormat::JsonSchema { schema: None, .. },
        ) => ResponseFormat::JsonObject,
        Some(foreign::ResponseFormat::JsonSchema { name, schema: Some(schema), .. }) => {
            let schema = Schema::new(schema.clone()).map_err(|error| {
                LLMError::OtherError(format!("the schema of the response format {name:?}: {error}"))
            })?;
            ResponseFormat::JsonSchema { name: ToolName::sanitize(name), schema }
        }
    })
}
