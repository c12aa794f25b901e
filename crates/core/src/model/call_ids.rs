//! Call ids in the form that a server accepts, for adapters of model APIs.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::{
    Message,
    message::{AssistantMessage, MessageBody, ProviderData},
};

/// The key under which the issued ids of a reply are stored in its provider data.
const DATA_KEY: &str = "call_ids";

/// The format of tool call ids that a server accepts. Lengths are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallIdFormat {
    /// Any string is a valid id.
    #[default]
    Any,
    /// An id must consist of nine ASCII letters or digits (Mistral).
    NineAlphanumerics,
    /// An id has at most this length (OpenAI).
    AtMost(usize),
    /// An id has at most this length, and consists of ASCII letters, digits, `_` and `-`
    /// (Anthropic).
    WordOfAtMost(usize),
}

impl CallIdFormat {
    /// Returns the format that the provider of the model `name` requires. `None` if it has no
    /// format of its own.
    pub fn of_model(name: &str) -> Option<Self> {
        const MISTRAL: [&str; 7] =
            ["mistral", "mixtral", "ministral", "codestral", "devstral", "magistral", "pixtral"];
        let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        if MISTRAL.iter().any(|family| name.contains(family)) {
            return Some(Self::NineAlphanumerics);
        }
        // Source: the error message "String should match pattern '^[a-zA-Z0-9_-]+$'" of Anthropic.
        name.contains("claude-").then_some(Self::WordOfAtMost(40))
    }

    /// Returns this format with the maximum length `length`, if it has a maximum.
    #[must_use]
    pub fn with_maximum(self, length: usize) -> Self {
        match self {
            Self::AtMost(_) => Self::AtMost(length),
            Self::WordOfAtMost(_) => Self::WordOfAtMost(length),
            other => other,
        }
    }

    /// Maps the call id `id` to an id that the server accepts. A valid id is unchanged. The mapping
    /// is deterministic within a build of the program, so a call and its result get the same id in
    /// each request. Two ids get the same hash (53 bits for Mistral, else 64 bits) with negligible
    /// probability.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::model::CallIdFormat;
    ///
    /// let format = CallIdFormat::WordOfAtMost(40);
    /// assert_eq!(format.to_valid_id("call_1"), "call_1");
    /// assert!(format.to_valid_id("functions.add:0").starts_with("call_"));
    /// ```
    pub fn to_valid_id(self, id: &str) -> Cow<'_, str> {
        if self.is_valid(id) {
            return Cow::Borrowed(id);
        }
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let hash = hasher.finish();
        Cow::Owned(match self {
            Self::NineAlphanumerics => alphanumerics(hash, 9),
            _ => format!("call_{hash:016x}"),
        })
    }

    fn is_valid(self, id: &str) -> bool {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match self {
            Self::Any => true,
            Self::NineAlphanumerics => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Self::AtMost(length) => id.len() <= length,
            Self::WordOfAtMost(length) => !id.is_empty() && id.len() <= length && id.bytes().all(is_word),
        }
    }
}

/// Writes the last `digits` digits of `number` in base 62.
fn alphanumerics(mut number: u64, digits: usize) -> String {
    const DIGITS: [char; 62] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J',
        'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'a', 'b', 'c', 'd',
        'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x',
        'y', 'z',
    ];
    let mut next = || {
        let digit = usize::try_from(number % 62).ok().and_then(|digit| DIGITS.get(digit));
        number /= 62;
        digit.copied().unwrap_or('0')
    };
    (0..digits).map(|_| next()).collect()
}

/// The call ids in the requests to one model: the format that its server accepts, and the ids that
/// the server has issued itself.
///
/// An issued id is sent back unchanged, even if it violates the format. LiteLLM sends Gemini's
/// thought signature as a part of the id, which then has about 300 bytes. An id of another model or
/// server is mapped with [`CallIdFormat::to_valid_id`].
///
/// # Examples
///
/// ```
/// use haft_core::{
///     Message, ToolCall,
///     message::AssistantMessage,
///     model::{CallIdFormat, CallIds},
/// };
///
/// let id = "x".repeat(300);
/// let gemini = CallIds::new(CallIdFormat::AtMost(40), "http://localhost:4000 gemini-3-pro");
/// let tool_calls = vec![ToolCall::new(&id, "add", "{}")];
/// let mut reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
/// gemini.record_issued([&*id], &mut reply.provider_data);
/// assert_eq!(gemini.id_of_call(&reply, &id), id);
///
/// let gpt = CallIds::new(CallIdFormat::AtMost(40), "https://api.openai.com gpt-5");
/// assert_eq!(gpt.id_of_call(&reply, &id).len(), 21);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallIds {
    format: CallIdFormat,
    /// The server and the model. `None` if they are unknown.
    issuer: Option<Arc<str>>,
}

impl CallIds {
    /// Creates the ids for the model and server `issuer`. The text is stored in replies, so it must
    /// contain no secrets.
    pub fn new(format: CallIdFormat, issuer: impl Into<Arc<str>>) -> Self {
        Self { format, issuer: Some(issuer.into()) }
    }

    /// Stores in `data`, the provider data of a reply, which of its ids are sent back unchanged
    /// although they violate the format. `received` are the ids that the server has sent.
    pub fn record_issued<'a>(&self, received: impl IntoIterator<Item = &'a str>, data: &mut ProviderData) {
        let Some(issuer) = &self.issuer else { return };
        // Mistral issues valid ids only. Behind a gateway, another provider of the same model can
        // issue ids that Mistral rejects.
        if self.format == CallIdFormat::NineAlphanumerics {
            return;
        }
        let ids: Vec<_> =
            received.into_iter().filter(|id| !id.is_empty() && !self.format.is_valid(id)).collect();
        if !ids.is_empty() {
            data.insert(DATA_KEY, json!({"issuer": &**issuer, "ids": ids}));
        }
    }

    /// Returns the id that is sent for a call of `reply` with the id `id`.
    pub fn id_of_call<'a>(&self, reply: &AssistantMessage, id: &'a str) -> Cow<'a, str> {
        self.id_of_result(id, self.is_kept(reply, id))
    }

    /// Returns the id that is sent for the result of a call with the id `id`. `is_kept` is the value
    /// of [`KeptIds::advance`] for the message of the result.
    pub fn id_of_result<'a>(&self, id: &'a str, is_kept: bool) -> Cow<'a, str> {
        if is_kept { Cow::Borrowed(id) } else { self.format.to_valid_id(id) }
    }

    /// Returns `true` if `id` violates the format, and this issuer has sent it in `reply`.
    fn is_kept(&self, reply: &AssistantMessage, id: &str) -> bool {
        if self.issuer.is_none() || self.format.is_valid(id) {
            return false;
        }
        let Some(data) = reply.provider_data.get(DATA_KEY) else { return false };
        let ids = data.get("ids").and_then(Value::as_array);
        data.get("issuer").and_then(Value::as_str) == self.issuer.as_deref()
            && ids.is_some_and(|ids| ids.iter().any(|issued| issued == id))
    }
}

/// The ids that a request sends unchanged although they violate the format. A result has the same
/// id as its call, so the messages of a request are visited in order.
#[derive(Debug, Default)]
pub struct KeptIds<'a>(HashSet<&'a str>);

impl<'a> KeptIds<'a> {
    /// Adds `message`, the next message of the request. Returns `true` if it is the result of a
    /// call whose id is sent unchanged although it violates the format of `ids`.
    pub fn advance(&mut self, message: &'a Message, ids: &CallIds) -> bool {
        match message.body() {
            MessageBody::Assistant(reply) => {
                for call in &reply.tool_calls {
                    if ids.is_kept(reply, &call.id) {
                        self.0.insert(&call.id);
                    } else {
                        self.0.remove(&*call.id);
                    }
                }
                false
            }
            MessageBody::Tool(result) => self.0.contains(&*result.call_id),
            _ => false,
        }
    }
}
