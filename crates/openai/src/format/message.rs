#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use haft_core::{AssistantMessage, Message, MessageBody, ToolCall, ToolName, ToolResult, Value};
use serde::{Serialize, Serializer, de::IgnoredAny, ser::SerializeSeq as _};
use serde_json::{Map, json, value::RawValue};

use super::{
    EncodingOptions, Reasoning,
    content::{WireContent, plain},
    raw,
};
use crate::reply::CHAT_ADAPTER;

/// Puts a message into the form of the Chat Completions API.
///
/// Text is sent as text, a picture, a sound or a PDF in a person's message as its bytes, any other piece as a short
/// description. A tool's result is its text: the API takes nothing else there, and [`messages`] sends it separately.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, json};
///
/// assert_eq!(haft_openai::message(&Message::user("Hi")), json!({"role": "user", "content": "Hi"}));
/// ```
pub fn message(message: &Message) -> Value {
    json!(WireMessage::new(message, &EncodingOptions::default()))
}

/// Puts a conversation into the form of the Chat Completions API: the `messages` of a request.
///
/// A picture, a sound or a PDF that a tool returned follows the results of its batch as a message of its own, so that each call is
/// answered before anything else is said.
pub fn messages<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<Value> {
    let encoded = EncodedMessages::new(messages, &Arc::default());
    encoded.iter().map(|message| json!(message)).collect()
}

/// The messages of a request, each serialised once.
pub(crate) struct EncodedMessages(Vec<Arc<Rendering>>);

/// What is kept beside a message.
struct Rendering {
    encoding: Arc<EncodingOptions>,
    is_result: bool,
    message: Box<RawValue>,
    /// What a tool's result has besides text, as a message of its own.
    media: Option<Box<RawValue>>,
}

impl EncodedMessages {
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        Self(messages.into_iter().map(|message| Rendering::of(message, encoding)).collect())
    }

    /// The messages for a server that lets nobody but the model speak after a tool: the model says a word there.
    #[cfg(feature = "client")]
    pub(crate) fn bridged<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        let mut encoded = Vec::new();
        let mut messages = messages.into_iter().peekable();
        let mut has_media = false;
        while let Some(message) = messages.next() {
            let rendering = Rendering::of(message, encoding);
            let is_result = rendering.is_result;
            has_media = is_result && (has_media || rendering.media.is_some());
            encoded.push(rendering);
            let next = messages.peek().map(|next| next.body());
            let is_last_result = is_result && !matches!(next, Some(MessageBody::Tool(_)));
            let is_answered = matches!(next, None | Some(MessageBody::Assistant(_)));
            if is_last_result && (has_media || !is_answered) {
                encoded.push(Arc::new(Rendering::bridge(encoding)));
            }
        }
        Self(encoded)
    }

    /// The messages in the order in which they are sent: media after the last result of their batch.
    fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.chunk_by(|one, next| one.is_result && next.is_result).flat_map(|batch| {
            let media = batch.iter().filter_map(|rendering| rendering.media.as_deref());
            batch.iter().map(|rendering| &*rendering.message).chain(media)
        })
    }
}

impl Serialize for EncodedMessages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.iter().try_for_each(|message| list.serialize_element(message))?;
        list.end()
    }
}

impl Rendering {
    fn of(message: &Message, encoding: &Arc<EncodingOptions>) -> Arc<Self> {
        let kept = message.rendering(|message| Self::new(message, encoding));
        // Another model with other abilities may have been asked first.
        if kept.encoding == *encoding { kept } else { Arc::new(Self::new(message, encoding)) }
    }

    fn new(message: &Message, encoding: &Arc<EncodingOptions>) -> Self {
        let (is_result, media) = match message.body() {
            MessageBody::Tool(result) => (true, media(result, encoding)),
            _ => (false, None),
        };
        Self {
            encoding: Arc::clone(encoding),
            is_result,
            message: raw(&WireMessage::new(message, encoding)),
            media,
        }
    }

    /// What the model is made to say after the results of a batch, and before their media.
    #[cfg(feature = "client")]
    fn bridge(encoding: &Arc<EncodingOptions>) -> Self {
        let message = raw(&json!({"role": "assistant", "content": "I have the results."}));
        Self { encoding: Arc::clone(encoding), is_result: true, message, media: None }
    }
}

fn media(result: &ToolResult, encoding: &EncodingOptions) -> Option<Box<RawValue>> {
    let caption = || format!("What {} returned for call {}:", result.name, result.call_id);
    let content = WireContent::media(caption, &result.output()?.content, encoding)?;
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
        content: Option<AssistantContent<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        /// What only some servers know.
        #[serde(flatten)]
        extras: Map<String, Value>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

/// What a model said: text, behind what it thought where its server sends both in parts.
#[derive(Serialize)]
#[serde(untagged)]
enum AssistantContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<AssistantPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AssistantPart<'a> {
    Thinking { thinking: [TextPart<'a>; 1] },
    Text { text: Cow<'a, str> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: CalledFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> WireMessage<'a> {
    fn new(message: &'a Message, encoding: &EncodingOptions) -> Self {
        match message.body() {
            MessageBody::System { content } => Self::System { content: WireContent::Text(plain(content)) },
            MessageBody::User { content } => Self::User { content: WireContent::new(content, encoding) },
            MessageBody::Assistant(said) => Self::assistant(said, encoding),
            MessageBody::Tool(result) => Self::Tool {
                tool_call_id: encoding.call_ids.fit(&result.call_id),
                content: result.model_text(),
            },
        }
    }

    /// `content` is null beside calls, and text otherwise: without calls the API requires it. What the model declined
    /// by is what it said.
    fn assistant(said: &'a AssistantMessage, encoding: &EncodingOptions) -> Self {
        let text = match (&said.refusal, said.text()) {
            (Some(refusal), text) if text.is_empty() => Cow::Borrowed(refusal.as_str()),
            (_, text) => Cow::Owned(text),
        };
        let data = encoding.origin.own(said, CHAT_ADAPTER);
        let thinks_in_parts = data.is_some_and(|data| data.get("thinking_parts").is_some());
        let content = match &said.reasoning {
            Some(reasoning) if thinks_in_parts => {
                let thought = AssistantPart::Thinking { thinking: [TextPart { text: reasoning }] };
                let text = (!text.is_empty()).then_some(AssistantPart::Text { text });
                Some(AssistantContent::Parts([Some(thought), text].into_iter().flatten().collect()))
            }
            _ => (said.tool_calls.is_empty() || !text.is_empty()).then_some(AssistantContent::Text(text)),
        };
        let kept = data.and_then(|data| data.get("message")?.as_object());
        let mut extras = kept.cloned().unwrap_or_default();
        if !said.tool_calls.is_empty() {
            extras.extend(encoding.reasoning.field(said.reasoning.as_deref()));
        }
        Self::Assistant { content, tool_calls: calls(said, data, encoding), extras }
    }
}

fn calls<'a>(
    said: &'a AssistantMessage,
    data: Option<&Value>,
    encoding: &EncodingOptions,
) -> Vec<WireCall<'a>> {
    let kept = data.and_then(|data| data.get("calls"));
    let mut calls: Vec<_> = said.tool_calls.iter().map(WireCall::from).collect();
    for (call, own) in calls.iter_mut().zip(&said.tool_calls) {
        call.extra_content = kept.and_then(|kept| kept.get(&own.id)).cloned();
        call.id = encoding.call_ids.fit(&own.id);
    }
    // Gemini signs the first call of a reply, and wants to be told of one that was not its own.
    if let Some(first) =
        calls.first_mut().filter(|first| encoding.signatures && first.extra_content.is_none())
    {
        first.extra_content =
            Some(json!({"google": {"thought_signature": "skip_thought_signature_validator"}}));
    }
    calls
}

impl Reasoning {
    /// The field that tells a model what it thought.
    fn field(self, thought: Option<&str>) -> Option<(String, Value)> {
        let (name, thought) = match self {
            Self::Left => return None,
            Self::Sent(name) => (name, thought?),
            Self::Required(name) => (name, thought.unwrap_or_default()),
        };
        Some((name.to_owned(), thought.into()))
    }
}

impl<'a> From<&'a ToolCall> for WireCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let function =
            CalledFunction { name: valid_name(&call.name), arguments: arguments_object(&call.arguments) };
        Self { id: Cow::Borrowed(&call.id), r#type: "function", function, extra_content: None }
    }
}

/// The name as it is if a tool can have it, and else mapped to one that a tool can have.
///
/// A model may call what cannot be: the servers answer such a name in an earlier call with an error, and every later request
/// of its conversation would fail.
pub(super) fn valid_name(name: &str) -> Cow<'_, str> {
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
pub(super) fn arguments_object(arguments: &str) -> Cow<'_, str> {
    let text = arguments.trim();
    if text.is_empty() {
        Cow::Borrowed("{}")
    } else if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        Cow::Borrowed(arguments)
    } else {
        Cow::Owned(json!({"malformed_arguments": arguments}).to_string())
    }
}
