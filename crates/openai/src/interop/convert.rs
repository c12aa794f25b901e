use std::{collections::HashMap, sync::Arc};

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestDeveloperMessageContent, ChatCompletionRequestDeveloperMessageContentPart,
    ChatCompletionRequestMessage, ChatCompletionRequestSystemMessageContent,
    ChatCompletionRequestSystemMessageContentPart, ChatCompletionRequestToolMessage,
    ChatCompletionRequestToolMessageContent, ChatCompletionRequestToolMessageContentPart,
    ChatCompletionRequestUserMessageContent, ChatCompletionRequestUserMessageContentPart,
    ChatCompletionResponseMessage, ChatCompletionTool, ChatCompletionTools, CompletionTokensDetails,
    CompletionUsage, CreateChatCompletionResponse, FunctionCall, FunctionObject, InputAudioFormat,
    PromptTokensDetails,
};
use haft_core::{
    Message, Schema, ToolCall, ToolDefinition, ToolName, ToolResult,
    content::{BinaryData, Content},
    message::{AssistantMessage, MessageBody},
    model::{
        ChatResponse, ModelError,
        adapter::{Origin, provider_schema, provider_schemas},
    },
    schema::SchemaTarget,
    toolset::ToolList,
    usage::Usage,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::InteropError;
use crate::{
    format::{EncodedMessages, EncodingOptions, encode_message_with},
    reply::{ChatAccumulator, decode_response_with},
};

/// Converts a tool definition to a tool of `async-openai`. The input schema is reduced to
/// `target`, the JSON Schema subset that the server supports.
pub fn to_tool(definition: &ToolDefinition, target: SchemaTarget) -> ChatCompletionTools {
    let schema = provider_schema(definition, target);
    function_tool(definition, schema.value, schema.is_strict)
}

/// Converts the tools of `list` to the `tools` field of an `async-openai` request. The input
/// schemas are reduced to `target`, the JSON Schema subset that the server supports.
///
/// # Examples
///
/// ```
/// use haft_core::{schema::SchemaTarget, toolset::ToolList};
/// use haft_openai::interop::to_tools;
///
/// assert!(to_tools(&ToolList::default(), SchemaTarget::OpenAiStrict).is_empty());
/// ```
pub fn to_tools(list: &ToolList, target: SchemaTarget) -> Vec<ChatCompletionTools> {
    let schemas = provider_schemas(list, target).into_iter();
    schemas.map(|(definition, schema)| function_tool(definition, schema.value, schema.is_strict)).collect()
}

fn function_tool(definition: &ToolDefinition, parameters: Value, is_strict: bool) -> ChatCompletionTools {
    let description = definition.description();
    let function = FunctionObject {
        name: definition.name().to_string(),
        description: (!description.is_empty()).then(|| description.to_owned()),
        parameters: Some(parameters),
        strict: is_strict.then_some(true),
    };
    ChatCompletionTools::Function(ChatCompletionTool { function })
}

/// Converts a function tool of `async-openai` to a tool definition. `strict` has no counterpart and
/// is dropped.
///
/// # Errors
///
/// Returns an error for a custom tool, an invalid tool name, or parameters that are not a valid
/// argument schema.
pub fn from_tool(tool: &ChatCompletionTools) -> Result<ToolDefinition, InteropError> {
    let ChatCompletionTools::Function(ChatCompletionTool { function }) = tool else {
        return Err(InteropError::Unsupported { kind: "a custom tool" });
    };
    let name = ToolName::new(&function.name)?;
    let schema = match &function.parameters {
        Some(parameters) => Schema::for_arguments(parameters.clone()),
        None => Ok(Schema::object()),
    };
    let schema =
        schema.map_err(|source| InteropError::InvalidSchema { tool: function.name.clone(), source })?;
    let definition = ToolDefinition::new(name, schema);
    Ok(match &function.description {
        Some(description) => definition.with_description(description),
        None => definition,
    })
}

/// Returns the options for OpenAI's API, without opaque provider data: the types of `async-openai`
/// cannot represent it.
fn encoding() -> EncodingOptions {
    EncodingOptions { origin: Origin::Unsupported, ..EncodingOptions::default() }
}

/// Converts a haft message to an `async-openai` request message. Opaque provider data is dropped.
///
/// The media of a tool result are not included. Use [`to_messages`] to include them.
///
/// # Errors
///
/// Returns an error if `async-openai` cannot represent the message.
pub fn to_message(message: &Message) -> Result<ChatCompletionRequestMessage, InteropError> {
    Ok(serde_json::from_value(encode_message_with(message, &encoding()))?)
}

/// Converts haft messages to the `messages` field of an `async-openai` request. Opaque provider
/// data is dropped.
///
/// The media of tool results are sent in additional user messages after the results of all calls of
/// a reply.
///
/// # Errors
///
/// Returns an error if `async-openai` cannot represent a message.
pub fn to_messages<'a>(
    messages: impl IntoIterator<Item = &'a Arc<Message>>,
) -> Result<Vec<ChatCompletionRequestMessage>, InteropError> {
    let encoded = EncodedMessages::new(messages, &Arc::new(encoding()));
    encoded.iter().map(|message| Ok(serde_json::from_value(json!(message))?)).collect()
}

/// Converts the messages of an `async-openai` request to haft messages. A tool message contains no
/// tool name, so the name is taken from the earlier call with the same id.
///
/// # Errors
///
/// Returns an error for media that are given as a link or a file id, or are not valid base64. Also
/// returns an error for custom tool calls, for function messages, and for tool messages without an
/// earlier call.
pub fn from_messages<'a>(
    messages: impl IntoIterator<Item = &'a ChatCompletionRequestMessage>,
) -> Result<Vec<Message>, InteropError> {
    let mut names = HashMap::new();
    messages.into_iter().map(|message| from_message(message, &mut names)).collect()
}

/// Converts one request message. `names` maps the ids of earlier calls to tool names. The calls of
/// `message` are added to `names`.
fn from_message(
    message: &ChatCompletionRequestMessage,
    names: &mut HashMap<String, String>,
) -> Result<Message, InteropError> {
    use ChatCompletionRequestMessage as Wire;
    match message {
        Wire::System(message) => Ok(system_message(match &message.content {
            ChatCompletionRequestSystemMessageContent::Text(text) => vec![Content::text(text)],
            ChatCompletionRequestSystemMessageContent::Array(parts) => parts
                .iter()
                .map(|ChatCompletionRequestSystemMessageContentPart::Text(part)| Content::text(&part.text))
                .collect(),
        })),
        Wire::Developer(message) => Ok(system_message(match &message.content {
            ChatCompletionRequestDeveloperMessageContent::Text(text) => vec![Content::text(text)],
            ChatCompletionRequestDeveloperMessageContent::Array(parts) => parts
                .iter()
                .map(|ChatCompletionRequestDeveloperMessageContentPart::Text(part)| Content::text(&part.text))
                .collect(),
        })),
        Wire::User(message) => {
            let content = match &message.content {
                ChatCompletionRequestUserMessageContent::Text(text) => vec![Content::text(text)],
                ChatCompletionRequestUserMessageContent::Array(parts) => {
                    parts.iter().map(user_part).collect::<Result<_, _>>()?
                }
            };
            Ok(Message::new(MessageBody::User { content }))
        }
        Wire::Assistant(message) => {
            from_tool_calls(message.tool_calls.iter().flatten())?;
            let message = crate::decode_message(&json_of(message)?)?;
            names.extend(message.tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())));
            Ok(Message::assistant(message))
        }
        Wire::Tool(message) => {
            let id = &message.tool_call_id;
            let name = names.get(id).ok_or_else(|| InteropError::UnknownCall { id: id.clone() })?;
            let text = match &message.content {
                ChatCompletionRequestToolMessageContent::Text(text) => text.clone(),
                ChatCompletionRequestToolMessageContent::Array(parts) => {
                    let text = |part: &ChatCompletionRequestToolMessageContentPart| {
                        let ChatCompletionRequestToolMessageContentPart::Text(part) = part;
                        part.text.clone()
                    };
                    parts.iter().map(text).collect::<Vec<_>>().join("\n")
                }
            };
            Ok(Message::tool(ToolResult::done(id, name, text.into())))
        }
        Wire::Function(_) => Err(InteropError::Unsupported { kind: "a function message" }),
    }
}

fn system_message(content: Vec<Content>) -> Message {
    Message::new(MessageBody::System { content })
}

fn user_part(part: &ChatCompletionRequestUserMessageContentPart) -> Result<Content, InteropError> {
    use ChatCompletionRequestUserMessageContentPart as Part;
    match part {
        Part::Text(part) => Ok(Content::text(&part.text)),
        Part::ImageUrl(part) => from_data_url(&part.image_url.url, "an image"),
        Part::InputAudio(part) => {
            let media_type = match part.input_audio.format {
                InputAudioFormat::Wav => "audio/wav",
                InputAudioFormat::Mp3 => "audio/mpeg",
            };
            from_base64(&part.input_audio.data, media_type, "audio")
        }
        Part::File(part) => match &part.file.file_data {
            Some(data) => from_data_url(data, "a file"),
            None => Err(InteropError::Unsupported { kind: "a file id" }),
        },
    }
}

/// Decodes a data URL such as `data:image/png;base64,…`. `kind` describes the content in error
/// messages.
fn from_data_url(url: &str, kind: &'static str) -> Result<Content, InteropError> {
    let data = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
    let (media_type, data) = data.ok_or(InteropError::Unsupported { kind })?;
    from_base64(data, media_type, kind)
}

fn from_base64(data: &str, media_type: &str, kind: &'static str) -> Result<Content, InteropError> {
    let data = BinaryData::from_base64(data).map_err(|_| InteropError::InvalidBase64 { kind })?;
    Ok(Content::from_bytes(data, media_type))
}

/// Converts a haft tool call to an `async-openai` tool call.
pub fn to_tool_call(call: &ToolCall) -> ChatCompletionMessageToolCalls {
    let function = FunctionCall { name: call.name.clone(), arguments: call.arguments.to_string() };
    ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall { id: call.id.clone(), function })
}

/// Converts the tool calls of an `async-openai` reply to haft tool calls.
///
/// # Errors
///
/// Returns an error for a custom tool call.
pub fn from_tool_calls<'a>(
    calls: impl IntoIterator<Item = &'a ChatCompletionMessageToolCalls>,
) -> Result<Vec<ToolCall>, InteropError> {
    let call = |call: &ChatCompletionMessageToolCalls| match call {
        ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall { id, function }) => {
            Ok(ToolCall::new(id, &function.name, &function.arguments))
        }
        ChatCompletionMessageToolCalls::Custom(_) => {
            Err(InteropError::Unsupported { kind: "a custom tool call" })
        }
    };
    calls.into_iter().map(call).collect()
}

/// Converts a haft tool result to an `async-openai` tool message. Media are replaced by a
/// description, because the API accepts only text in a tool message.
pub fn to_tool_message(result: &ToolResult) -> ChatCompletionRequestToolMessage {
    ChatCompletionRequestToolMessage {
        content: ChatCompletionRequestToolMessageContent::Text(result.model_text().into_owned()),
        tool_call_id: result.call_id.clone(),
    }
}

/// Converts the assistant message of an `async-openai` reply to a haft [`AssistantMessage`].
///
/// # Errors
///
/// Returns an error for a custom tool call, or if the message exceeds a [size limit](crate#limits).
pub fn from_response_message(
    message: &ChatCompletionResponseMessage,
) -> Result<AssistantMessage, InteropError> {
    from_tool_calls(message.tool_calls.iter().flatten())?;
    Ok(crate::decode_message(&json_of(message)?)?)
}

/// Converts a non-streamed `async-openai` reply to a haft [`ChatResponse`].
///
/// # Errors
///
/// Returns the same errors as [`decode_response`](crate::decode_response), for example for an empty
/// reply or an incomplete call. Also fails for calls to custom tools.
pub fn from_response(response: &CreateChatCompletionResponse) -> Result<ChatResponse, ModelError> {
    from_response_with(response, &EncodingOptions::default())
}

/// Converts a reply to requests with the options `encoding`.
pub(super) fn from_response_with(
    response: &CreateChatCompletionResponse,
    encoding: &EncodingOptions,
) -> Result<ChatResponse, ModelError> {
    let calls = response.choices.iter().flat_map(|choice| choice.message.tool_calls.iter().flatten());
    from_tool_calls(calls).map_err(|error| ModelError::InvalidResponse(error.to_string()))?;
    let response = json_of(response).map_err(|error| ModelError::InvalidResponse(error.to_string()))?;
    decode_response_with(ChatAccumulator::new(encoding), &response)
}

/// Converts the token counts of one request to [`CompletionUsage`]. Counts above [`u32::MAX`]
/// become [`u32::MAX`].
pub fn to_usage(usage: &Usage) -> CompletionUsage {
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    CompletionUsage {
        prompt_tokens: count(usage.input_tokens),
        completion_tokens: count(usage.output_tokens),
        total_tokens: count(usage.total_tokens()),
        prompt_tokens_details: Some(PromptTokensDetails {
            cached_tokens: Some(count(usage.cached_input_tokens)),
            ..PromptTokensDetails::default()
        }),
        completion_tokens_details: Some(CompletionTokensDetails {
            reasoning_tokens: Some(count(usage.reasoning_tokens)),
            ..CompletionTokensDetails::default()
        }),
    }
}

/// Converts the token counts of one `async-openai` reply to [`Usage`].
pub fn from_usage(usage: &CompletionUsage) -> Usage {
    let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
    let reasoning = usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
    Usage {
        cached_input_tokens: cached.unwrap_or_default().into(),
        reasoning_tokens: reasoning.unwrap_or_default().into(),
        ..Usage::one_request(usage.prompt_tokens.into(), usage.completion_tokens.into())
    }
}

fn json_of(value: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::to_value(value)
}
