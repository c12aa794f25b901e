#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    message::{AssistantMessage, MessageBody},
    model::{later_system_text, split_system_messages},
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::Value;
use serde_json::{Map, json, value::RawValue};

use super::{
    EncodingOptions, ReasoningField,
    content::{WireContent, joined_text},
    message_form::MessageForm,
    to_raw_json, valid_name,
};
use crate::reply::CHAT_DATA_KEY;

/// Encodes `message` for the Chat Completions API.
///
/// Images (except SVG), audio (WAV and MP3) and PDF documents in a user message are sent as data. A
/// link with the media type `image/*` is sent as the URL of an image. Other content is sent as text
/// or as a short description. A tool result is sent as text, because the API accepts no other
/// content in a tool message. Use [`encode_messages`] to also send the media of tool results.
///
/// # Examples
///
/// ```
/// use haft_core::Message;
/// use serde_json::json;
///
/// assert_eq!(haft_openai::encode_message(&Message::user("Hi")), json!({"role": "user", "content": "Hi"}));
/// ```
pub fn encode_message(message: &Message) -> Value {
    encode_message_with(message, &EncodingOptions::default())
}

/// Encodes a message with the options `encoding`.
pub(crate) fn encode_message_with(message: &Message, encoding: &EncodingOptions) -> Value {
    json!(WireMessage::new(message, encoding, MessageForm::default()))
}

/// Encodes a conversation as the `messages` field of a Chat Completions request.
///
/// Images, audio and PDF documents in a tool result are sent in an additional user message. This
/// message follows the results of all calls of a reply, because the API requires these results to
/// be adjacent.
pub fn encode_messages<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<Value> {
    let encoded = EncodedMessages::new(messages, &Arc::default());
    encoded.iter().map(|message| json!(message)).collect()
}

/// The `messages` field of a Chat Completions request. The JSON text of each message is cached in
/// the message.
pub(crate) struct EncodedMessages(Vec<Arc<CachedMessage>>);

/// The encoded form of one message, cached in the message.
struct CachedMessage {
    encoding: Arc<EncodingOptions>,
    form: MessageForm,
    is_result: bool,
    #[cfg(feature = "client")]
    is_reply: bool,
    message: Box<RawValue>,
    /// A user message with the media of the tool result. `None` if the message is not a tool
    /// result, or if the result has no media.
    media: Option<Box<RawValue>>,
}

/// The encoded form of a message with a cache breakpoint, cached in the message.
struct Marked(Arc<CachedMessage>);

/// The encoded form of a message that is the only system message of a conversation, cached in the
/// message. It does not depend on the options.
struct CachedSystem(Arc<CachedMessage>);

impl EncodedMessages {
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let mut encoded = Vec::with_capacity(messages.len());
        let mut rest = messages.as_slice();
        if encoding.has_one_system_message {
            let is_system = |message: &&Arc<Message>| matches!(message.body(), MessageBody::System { .. });
            let (first, others) = messages.split_at(messages.iter().copied().take_while(is_system).count());
            encoded.extend(CachedMessage::system(first, encoding));
            rest = others;
        }
        let forms = MessageForm::of_messages(rest, &encoding.call_ids);
        encoded.extend(forms.map(|(message, form)| CachedMessage::of(message, encoding, form)));
        Self(encoded)
    }

    /// Encodes `messages` and inserts an assistant message after tool results that a user or system
    /// message follows, because Mistral rejects a user message directly after a tool result.
    #[cfg(feature = "client")]
    pub(crate) fn with_result_separators<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        let mut encoded = Vec::new();
        let mut messages = Self::new(messages, encoding).0.into_iter().peekable();
        let mut has_media = false;
        while let Some(cached) = messages.next() {
            let is_result = cached.is_result;
            has_media = is_result && (has_media || cached.media.is_some());
            encoded.push(cached);
            let next = messages.peek();
            let is_last_result = is_result && next.is_none_or(|next| !next.is_result);
            let is_answered = next.is_none_or(|next| next.is_reply);
            if is_last_result && (has_media || !is_answered) {
                encoded.push(Arc::new(CachedMessage::results_separator(encoding)));
            }
        }
        Self(encoded)
    }

    /// Returns the encoded messages in order. The user messages with the media of adjacent tool
    /// results follow the last of these results.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.chunk_by(|one, next| one.is_result && next.is_result).flat_map(|batch| {
            let media = batch.iter().filter_map(|cached| cached.media.as_deref());
            batch.iter().map(|cached| &*cached.message).chain(media)
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

impl CachedMessage {
    fn of(message: &Message, encoding: &Arc<EncodingOptions>, form: MessageForm) -> Arc<Self> {
        let cached = if form.is_marked && encoding.cache_breakpoints.is_some() {
            Arc::clone(&message.memoize(|message| Marked(Arc::new(Self::new(message, encoding, form)))).0)
        } else {
            message.memoize(|message| Self::new(message, encoding, form))
        };
        // Do not use the cached encoding if another model created it with different options.
        if cached.form.is_id_kept == form.is_id_kept && cached.encoding == *encoding {
            cached
        } else {
            Arc::new(Self::new(message, encoding, form))
        }
    }

    fn new(message: &Message, encoding: &Arc<EncodingOptions>, form: MessageForm) -> Self {
        let (is_result, media) = match message.body() {
            MessageBody::Tool(result) => (true, encode_media(result, encoding, form)),
            _ => (false, None),
        };
        Self {
            encoding: Arc::clone(encoding),
            form,
            is_result,
            #[cfg(feature = "client")]
            is_reply: matches!(message.body(), MessageBody::Assistant(_)),
            message: to_raw_json(&WireMessage::new(message, encoding, form)),
            media,
        }
    }

    /// Encodes `messages`, the system messages at the start of a conversation, as a single system
    /// message. Returns `None` if there are none.
    fn system(messages: &[&Arc<Message>], encoding: &Arc<EncodingOptions>) -> Option<Arc<Self>> {
        let encode = |content: Cow<'_, str>| Self {
            encoding: Arc::clone(encoding),
            form: MessageForm::default(),
            is_result: false,
            #[cfg(feature = "client")]
            is_reply: false,
            message: to_raw_json(&WireMessage::System { content: WireContent::Text(content) }),
            media: None,
        };
        match messages {
            [] => None,
            // The instructions of an agent can be long, so their encoded form is cached.
            [only] => {
                Some(Arc::clone(&only.memoize(|only| CachedSystem(Arc::new(encode(only.text().into())))).0))
            }
            _ => Some(Arc::new(encode(
                split_system_messages(messages.iter().copied()).0.unwrap_or_default().into(),
            ))),
        }
    }

    /// Creates an assistant message that separates tool results from the next user message.
    #[cfg(feature = "client")]
    fn results_separator(encoding: &Arc<EncodingOptions>) -> Self {
        let message = to_raw_json(&json!({"role": "assistant", "content": "I have the results."}));
        let encoding = Arc::clone(encoding);
        Self { encoding, form: MessageForm::default(), is_result: true, is_reply: true, message, media: None }
    }
}

fn encode_media(result: &ToolResult, encoding: &EncodingOptions, form: MessageForm) -> Option<Box<RawValue>> {
    let call_id = encoding.call_ids.id_of_result(&result.call_id, form.is_id_kept);
    let caption = || format!("What {} returned for call {call_id}:", result.name);
    let content = WireContent::captioned_media(caption, &result.output()?.content, encoding)?;
    Some(to_raw_json(&WireMessage::User { content }))
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
        /// Additional fields, which contain provider data and reasoning.
        #[serde(flatten)]
        extras: Map<String, Value>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: WireContent<'a>,
    },
}

/// The content of an assistant message. It is a list of parts if the server sent the reasoning as a
/// part (Mistral), or else a string.
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

impl MessageForm {
    fn marked<'a>(self, content: WireContent<'a>, encoding: &EncodingOptions) -> WireContent<'a> {
        match encoding.cache_breakpoints {
            Some(breakpoint) => content.into_parts(Some(breakpoint).filter(|_| self.is_marked)),
            None => content,
        }
    }
}

impl<'a> WireMessage<'a> {
    fn new(message: &'a Message, encoding: &EncodingOptions, form: MessageForm) -> Self {
        match message.body() {
            MessageBody::System { content } if encoding.has_one_system_message => {
                let text = later_system_text(&joined_text(content));
                Self::User { content: WireContent::Text(text.into()) }
            }
            MessageBody::System { content } => {
                Self::System { content: form.marked(WireContent::Text(joined_text(content)), encoding) }
            }
            MessageBody::User { content } => {
                Self::User { content: form.marked(WireContent::new(content, encoding), encoding) }
            }
            MessageBody::Assistant(reply) => Self::assistant(reply, encoding),
            MessageBody::Tool(result) => Self::Tool {
                tool_call_id: encoding.call_ids.id_of_result(&result.call_id, form.is_id_kept),
                content: form.marked(WireContent::Text(result.model_text()), encoding),
            },
        }
    }

    /// Encodes `reply`. The field `content` is null only if the message has calls and no text. A
    /// refusal is sent as text if `reply` has no text.
    fn assistant(reply: &'a AssistantMessage, encoding: &EncodingOptions) -> Self {
        let text = match (&reply.refusal, reply.text()) {
            (Some(refusal), text) if text.is_empty() => Cow::Borrowed(refusal.as_str()),
            (_, text) => Cow::Owned(text),
        };
        let data = encoding.origin.data_for(reply, CHAT_DATA_KEY);
        let thinks_in_parts = data.is_some_and(|data| data.get("thinking_parts").is_some());
        let content = match &reply.reasoning {
            Some(reasoning) if thinks_in_parts => {
                let thought = AssistantPart::Thinking { thinking: [TextPart { text: reasoning }] };
                let text = (!text.is_empty()).then_some(AssistantPart::Text { text });
                Some(AssistantContent::Parts([Some(thought), text].into_iter().flatten().collect()))
            }
            _ => (reply.tool_calls.is_empty() || !text.is_empty()).then_some(AssistantContent::Text(text)),
        };
        let stored = data.and_then(|data| data.get("message")?.as_object());
        let mut extras = stored.cloned().unwrap_or_default();
        if !reply.tool_calls.is_empty() {
            extras.extend(encoding.reasoning_field.encode_reasoning(reply.reasoning.as_deref()));
        }
        Self::Assistant { content, tool_calls: encode_calls(reply, data, encoding), extras }
    }
}

fn encode_calls<'a>(
    reply: &'a AssistantMessage,
    data: Option<&Value>,
    encoding: &EncodingOptions,
) -> Vec<WireCall<'a>> {
    let stored = data.and_then(|data| data.get("calls"));
    let mut calls: Vec<_> = reply.tool_calls.iter().map(WireCall::from).collect();
    for (call, own) in calls.iter_mut().zip(&reply.tool_calls) {
        call.extra_content = stored.and_then(|stored| stored.get(&own.id)).cloned();
        call.id = encoding.call_ids.id_of_call(reply, &own.id);
    }
    // Gemini signs the first call of a reply. If another model made the call, Gemini accepts this
    // fixed value in place of a signature.
    if let Some(first) =
        calls.first_mut().filter(|first| encoding.needs_signatures && first.extra_content.is_none())
    {
        first.extra_content =
            Some(json!({"google": {"thought_signature": "skip_thought_signature_validator"}}));
    }
    calls
}

impl ReasoningField {
    /// Returns the name and the value of the reasoning field for `thought`, the reasoning of a
    /// reply. `None` if the field is omitted.
    fn encode_reasoning(self, thought: Option<&str>) -> Option<(String, Value)> {
        let (name, thought) = match self {
            Self::Omitted => return None,
            Self::Optional(name) => (name, thought?),
            Self::Required(name) => (name, thought.unwrap_or_default()),
        };
        Some((name.to_owned(), thought.into()))
    }
}

impl<'a> From<&'a ToolCall> for WireCall<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let function = CalledFunction { name: valid_name(&call.name), arguments: call.arguments_object() };
        Self { id: Cow::Borrowed(&call.id), r#type: "function", function, extra_content: None }
    }
}
