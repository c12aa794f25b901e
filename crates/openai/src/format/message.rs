#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use haft_core::{AssistantMessage, Message, MessageBody, ToolCall, ToolName, ToolResult, Value};
use serde::{Serialize, Serializer, de::IgnoredAny, ser::SerializeSeq as _};
use serde_json::{json, value::RawValue};

use super::{content::WireContent, raw};

/// Puts a message into the form of the Chat Completions API.
///
/// Text is sent as text, a picture in a person's message as a data URL, any other piece as a short description. A
/// tool's result is its text: the API takes no picture there, and [`messages`] sends it separately.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, json};
///
/// assert_eq!(haft_openai::message(&Message::user("Hi")), json!({"role": "user", "content": "Hi"}));
/// ```
pub fn message(message: &Message) -> Value {
    json!(WireMessage::new(message, Style::default()))
}

/// Puts a conversation into the form of the Chat Completions API: the `messages` of a request.
///
/// A picture that a tool returned follows the results of its batch as a message of its own, so that each call is
/// answered before anything else is said.
pub fn messages<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<Value> {
    let arranged = Arranged::new(messages, Style::default());
    arranged.iter().map(|message| json!(message)).collect()
}

/// What the form of a message depends on besides the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether pictures are sent, or only described.
    pub(crate) images: bool,
    /// Whether a model is told what it thought before its calls. The API knows no such field, and some servers require it.
    pub(crate) reasoning: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { images: true, reasoning: false }
    }
}

/// The messages of a request, each serialised once.
pub(crate) struct Arranged(Vec<Arc<Rendering>>);

/// What is kept beside a message.
struct Rendering {
    style: Style,
    is_result: bool,
    message: Box<RawValue>,
    /// The pictures of a tool's result, as a message of their own.
    pictures: Option<Box<RawValue>>,
}

impl Arranged {
    pub(crate) fn new<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>, style: Style) -> Self {
        Self(messages.into_iter().map(|message| Rendering::of(message, style)).collect())
    }

    /// The messages in the order in which they are sent: pictures after the last result of their batch.
    fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.chunk_by(|one, next| one.is_result && next.is_result).flat_map(|batch| {
            let pictures = batch.iter().filter_map(|rendering| rendering.pictures.as_deref());
            batch.iter().map(|rendering| &*rendering.message).chain(pictures)
        })
    }
}

impl Serialize for Arranged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.iter().try_for_each(|message| list.serialize_element(message))?;
        list.end()
    }
}

impl Rendering {
    fn of(message: &Message, style: Style) -> Arc<Self> {
        let kept = message.rendering(|message| Self::new(message, style));
        // Another model with other abilities may have been asked first.
        if kept.style == style { kept } else { Arc::new(Self::new(message, style)) }
    }

    fn new(message: &Message, style: Style) -> Self {
        let (is_result, pictures) = match message.body() {
            MessageBody::Tool(result) if style.images => (true, pictures(result)),
            MessageBody::Tool(_) => (true, None),
            _ => (false, None),
        };
        Self { style, is_result, message: raw(&WireMessage::new(message, style)), pictures }
    }
}

fn pictures(result: &ToolResult) -> Option<Box<RawValue>> {
    let caption = format!("What {} returned for call {}:", result.name, result.call_id);
    let content = WireContent::pictures(caption, &result.output()?.content)?;
    Some(raw(&WireMessage::User { content }))
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: WireContent<'a>,
    },
    User {
        content: WireContent<'a>,
    },
    Assistant {
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> WireMessage<'a> {
    fn new(message: &'a Message, style: Style) -> Self {
        match message.body() {
            MessageBody::System { content } => Self::System { content: WireContent::new(content, false) },
            MessageBody::User { content } => Self::User { content: WireContent::new(content, style.images) },
            MessageBody::Assistant(said) => Self::assistant(said, style),
            MessageBody::Tool(result) => {
                Self::Tool { tool_call_id: &result.call_id, content: result.model_text() }
            }
        }
    }

    /// `content` is null beside calls, and text otherwise: without calls the API requires it. What the model declined
    /// by is what it said.
    fn assistant(said: &'a AssistantMessage, style: Style) -> Self {
        let text = match (&said.refusal, said.text()) {
            (Some(refusal), text) if text.is_empty() => Cow::Borrowed(refusal.as_str()),
            (_, text) => Cow::Owned(text),
        };
        let content = (said.tool_calls.is_empty() || !text.is_empty()).then_some(text);
        let sends_reasoning = style.reasoning && !said.tool_calls.is_empty();
        let reasoning_content = said.reasoning.as_deref().filter(|_| sends_reasoning);
        let tool_calls = said.tool_calls.iter().map(WireCall::from).collect();
        Self::Assistant { content, reasoning_content, tool_calls }
    }
}

impl<'a> From<&'a ToolCall> for WireCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let function =
            CalledFunction { name: valid_name(&call.name), arguments: arguments_object(&call.arguments) };
        Self { id: &call.id, r#type: "function", function }
    }
}

/// The name as it is if a tool can have it, and else mapped to one that a tool can have.
///
/// A model may call what cannot be: the servers answer such a name in an earlier call with an error, and every later request
/// of its conversation would fail.
fn valid_name(name: &str) -> Cow<'_, str> {
    if ToolName::new(name).is_ok() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(ToolName::from_foreign(name).as_str().to_owned())
    }
}

/// The arguments as they are if they are an object, and else within one.
///
/// The API takes any text here, but llama.cpp, vLLM and others parse it, and answer what is no object with an error. One
/// malformed call would end every later request of its conversation.
fn arguments_object(arguments: &str) -> Cow<'_, str> {
    let text = arguments.trim();
    if text.is_empty() {
        Cow::Borrowed("{}")
    } else if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        Cow::Borrowed(arguments)
    } else {
        Cow::Owned(json!({"malformed_arguments": arguments}).to_string())
    }
}
