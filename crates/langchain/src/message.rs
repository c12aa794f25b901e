//! Messages of LangChain as messages of haft, and back.

use std::collections::{HashMap, HashSet};

use langchain_rust::schemas::{self as foreign, ImageContent, MessageType};

use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult, Transcript,
    content::{BinaryData, Content},
    message::{AssistantMessage, MessageBody},
};

/// The media type of an image with a URL.
const ANY_IMAGE: &str = "image/*";

/// The error for a LangChain message without an equivalent in haft.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The field `tool_calls` is not a list of calls in OpenAI's format.
    #[error(
        "message {index}: `tool_calls` is not a list of calls in OpenAI's format; create it with `Message::new_ai_message_with_tool_calls`"
    )]
    InvalidToolCalls {
        /// The index of the message in its list, counted from 0.
        index: usize,
    },
    /// An inline image is not valid base64.
    #[error("message {index}: image {image} is neither a URL nor base64 data")]
    InvalidImage {
        /// The index of the message in its list, counted from 0.
        index: usize,
        /// The index of the image in the message, counted from 0.
        image: usize,
    },
}

impl MessageError {
    /// Replaces the index of the message.
    pub(crate) fn with_index(mut self, new: usize) -> Self {
        match &mut self {
            Self::InvalidToolCalls { index } | Self::InvalidImage { index, .. } => *index = new,
        }
        self
    }
}

/// The treatment of images in messages for LangChain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Images {
    /// Images of user messages are attached.
    Attach,
    /// Images are replaced with a description, such as `[image/png, 4 bytes]`.
    Describe,
}

/// Converts `message` to a LangChain message. Images of a user message are attached. Other binary
/// data becomes a description.
///
/// A tool message has the id of its call, and the text for the model. LangChain has no fields
/// for the reasoning, the provider data, the tool name of a result and its success: they are lost.
pub fn to_langchain(message: &Message) -> foreign::Message {
    to_langchain_with(message, Images::Attach)
}

pub(crate) fn to_langchain_with(message: &Message, images: Images) -> foreign::Message {
    match message.body() {
        MessageBody::System { .. } => foreign::Message::new_system_message(message.text()),
        MessageBody::User { content } if images == Images::Attach => {
            let (pictures, text): (Vec<_>, Vec<_>) =
                content.iter().map(|piece| (image_url(piece), piece)).partition(|(url, _)| url.is_some());
            let text: Vec<_> = text.iter().map(|(_, piece)| piece.as_text()).collect();
            let human = foreign::Message::new_human_message(text.join("\n"));
            let pictures: Vec<_> = pictures.into_iter().filter_map(|(url, _)| url).collect();
            if pictures.is_empty() { human } else { human.with_images(pictures) }
        }
        MessageBody::User { .. } => foreign::Message::new_human_message(message.text()),
        MessageBody::Assistant(reply) => reply_to_langchain(reply, &to_langchain_calls(&reply.tool_calls)),
        MessageBody::Tool(result) => {
            foreign::Message::new_tool_message(result.model_text(), result.call_id.as_str())
        }
    }
}

/// Converts `reply` to a LangChain message with the calls `calls`.
pub(crate) fn reply_to_langchain(reply: &AssistantMessage, calls: &[foreign::ToolCall]) -> foreign::Message {
    let text = match &reply.refusal {
        Some(refusal) if reply.content.is_empty() => refusal.clone(),
        _ => reply.text(),
    };
    if calls.is_empty() {
        foreign::Message::new_ai_message(text)
    } else {
        foreign::Message::new_ai_message_with_tool_calls(text, calls)
    }
}

/// Converts `calls` to LangChain calls with the same ids.
pub(crate) fn to_langchain_calls(calls: &[ToolCall]) -> Vec<foreign::ToolCall> {
    calls.iter().map(|call| foreign::ToolCall::new(&call.id, &call.name, call.arguments.as_str())).collect()
}

/// Returns `received`, the id of a call, or another id if it is empty or in `used`.
pub(crate) fn unique_id(received: &str, used: &HashSet<String>) -> String {
    if !received.is_empty() && !used.contains(received) {
        return received.to_owned();
    }
    let prefix = if received.is_empty() { "call" } else { received };
    let mut number = used.len() + 1;
    loop {
        let id = format!("{prefix}_{number}");
        if !used.contains(&id) {
            return id;
        }
        number += 1;
    }
}

fn image_url(piece: &Content) -> Option<String> {
    match piece {
        Content::Image { data, media_type } => Some(format!("data:{media_type};base64,{}", data.to_base64())),
        Content::ResourceLink { uri, media_type: Some(media_type), .. }
            if media_type.starts_with("image/") =>
        {
            Some(uri.clone())
        }
        _ => None,
    }
}

/// Converts the messages of a LangChain conversation, with their calls and call ids.
///
/// A tool message gets the tool name of the call with its id in an earlier message. LangChain does
/// not record whether a call succeeded, so each result is a success. An inline image becomes an
/// image, and an image with a URL becomes a link to it. The `detail` of an image is dropped.
///
/// # Errors
///
/// Fails if a message has malformed calls or images. The error has the index of the message.
///
/// # Examples
///
/// ```
/// use haft_langchain::{from_langchain, langchain_rust::schemas::{Message, ToolCall}};
///
/// let messages = from_langchain([
///     Message::new_human_message("What is 17 plus 25?"),
///     Message::new_ai_message_with_tool_calls("", &[ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)]),
///     Message::new_tool_message("42", "call_1"),
/// ])?;
/// assert_eq!(messages[1].tool_calls()[0].id, "call_1");
/// assert_eq!(messages[2].tool_result().unwrap().name, "add");
/// # Ok::<(), haft_langchain::MessageError>(())
/// ```
pub fn from_langchain(
    messages: impl IntoIterator<Item = foreign::Message>,
) -> Result<Vec<Message>, MessageError> {
    let mut names = HashMap::new();
    let convert = |(index, message)| convert_message(index, message, &mut names);
    messages.into_iter().enumerate().map(convert).collect()
}

/// Converts an earlier conversation. Drops results without an earlier call: a memory with a window,
/// such as `WindowBufferMemory`, evicts a call before its results.
pub(crate) fn conversation(messages: Vec<foreign::Message>) -> Result<Transcript, MessageError> {
    let mut call_ids = HashSet::new();
    let mut is_paired = |message: &Message| {
        call_ids.extend(message.tool_calls().iter().map(|call| call.id.clone()));
        let orphan = message.tool_result().filter(|result| !call_ids.contains(&result.call_id));
        if let Some(result) = orphan {
            tracing::debug!(call_id = result.call_id, "dropped a result without a call");
        }
        orphan.is_none()
    };
    Ok(from_langchain(messages)?.into_iter().filter(|message| is_paired(message)).collect())
}

/// Converts one message. `names` maps the ids of earlier calls to their tools.
fn convert_message(
    index: usize,
    message: foreign::Message,
    names: &mut HashMap<String, String>,
) -> Result<Message, MessageError> {
    Ok(match message.message_type {
        MessageType::SystemMessage => Message::system(message.content),
        MessageType::HumanMessage => {
            let mut content = Vec::new();
            let images = message.images.unwrap_or_default();
            if !message.content.is_empty() || images.is_empty() {
                content.push(Content::text(message.content));
            }
            for (image, picture) in images.iter().enumerate() {
                content.push(convert_image(picture).ok_or(MessageError::InvalidImage { index, image })?);
            }
            Message::new(MessageBody::User { content })
        }
        MessageType::AIMessage => {
            let calls = convert_calls(&message).ok_or(MessageError::InvalidToolCalls { index })?;
            names.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
            let content = Some(message.content).filter(|text| !text.is_empty() || calls.is_empty());
            let content = content.into_iter().map(Content::text).collect();
            Message::assistant(AssistantMessage { content, tool_calls: calls, ..AssistantMessage::default() })
        }
        MessageType::ToolMessage => {
            let id = message.id.unwrap_or_default();
            let name = names.get(&id).cloned().unwrap_or_default();
            Message::tool(ToolResult::done(id, name, ToolOutput::from(message.content)))
        }
    })
}

/// Returns the calls of `message`, or `None` if they are not in OpenAI's format.
fn convert_calls(message: &foreign::Message) -> Option<Vec<ToolCall>> {
    let calls = message.parse_tool_calls();
    let is_absent = message
        .tool_calls
        .as_ref()
        .is_none_or(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty));
    if calls.is_empty() && !is_absent {
        return None;
    }
    Some(from_langchain_calls(calls))
}

pub(crate) fn from_langchain_calls(calls: Vec<foreign::ToolCall>) -> Vec<ToolCall> {
    calls.into_iter().map(|call| ToolCall::new(call.id, call.name, call.arguments)).collect()
}

/// Converts an image: an `http(s)` URL, a `data:` URL or bare base64 data. `None` if it is neither.
fn convert_image(image: &ImageContent) -> Option<Content> {
    let url = image.image_url.trim();
    if url.starts_with("http://") || url.starts_with("https://") {
        let (uri, media_type) = (url.to_owned(), Some(ANY_IMAGE.to_owned()));
        return Some(Content::ResourceLink { uri, name: "image".to_owned(), description: None, media_type });
    }
    let (media_type, data) = match url.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,")?,
        None => ("", url),
    };
    let media_type = if media_type.is_empty() { sniff_media_type(data) } else { media_type };
    Some(Content::Image { data: BinaryData::from_base64(data).ok()?, media_type: media_type.to_owned() })
}

/// Returns the media type of base64 image data by its first bytes. JPEG if they are unknown, as in
/// LangChain's adapters.
fn sniff_media_type(data: &str) -> &'static str {
    match data {
        _ if data.starts_with("iVBORw0KGgo") => "image/png",
        _ if data.starts_with("R0lGOD") => "image/gif",
        _ if data.starts_with("UklGR") => "image/webp",
        _ => "image/jpeg",
    }
}
