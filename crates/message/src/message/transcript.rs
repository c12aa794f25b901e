//! The append-only record of a conversation, and views of it.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct as _};

use serde_json::Value;

use crate::{call::ToolResult, message::Message};

/// The append-only list of the messages of a conversation, including tool calls and results.
///
/// Messages are never removed or changed. A [`TranscriptView`] selects the messages for a model
/// request. Clones share the messages. The JSON form is `{"version": 1, "messages": […]}`. Other
/// versions are rejected.
///
/// # Examples
///
/// ```
/// use haft_message::{Message, Transcript};
///
/// let mut transcript = Transcript::new();
/// transcript.push(Message::user("Hello"));
/// let saved = serde_json::to_string(&transcript)?;
/// assert_eq!(serde_json::from_str::<Transcript>(&saved)?, transcript);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    messages: Arc<Vec<Arc<Message>>>,
}

impl Transcript {
    /// The version number of the JSON form.
    pub const VERSION: u32 = 1;

    /// Creates an empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `message` to the transcript.
    ///
    /// If a clone or a view of the transcript exists, the list of message pointers is copied first.
    /// The messages themselves are never copied.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.messages).push(message.into());
    }

    /// Returns all messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns `true` if the transcript has no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the results of tool calls, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::{Message, ToolResult, Transcript};
    ///
    /// let sum = ToolResult::done("call_1", "add", "42".into());
    /// let messages = [Message::user("Add."), Message::tool(sum)];
    /// let transcript: Transcript = messages.into_iter().collect();
    /// assert_eq!(transcript.tool_results().count(), 1);
    /// assert_eq!(transcript.tool_result("call_1").unwrap().model_text(), "42");
    /// assert_eq!(transcript.results_of("add").next().unwrap().call_id, "call_1");
    /// ```
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        tool_results(self.messages.iter())
    }

    /// Returns the result of the call with the id `call_id`. `None` if there is no result for it.
    pub fn tool_result(&self, call_id: &str) -> Option<&ToolResult> {
        self.tool_results().find(|result| result.call_id == call_id)
    }

    /// Returns the results of all calls to the tool named `tool`, in order.
    pub fn results_of(&self, tool: &str) -> impl Iterator<Item = &ToolResult> {
        self.tool_results().filter(move |result| result.name == tool)
    }

    /// Returns a view of all messages.
    pub fn view(&self) -> TranscriptView {
        self.view_ranges(std::iter::once(0..self.len()))
    }

    /// Returns a view of the messages in `ranges`. Indices past the end of the transcript are
    /// ignored.
    pub fn view_ranges(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> TranscriptView {
        let inside = |range: Range<usize>| range.start.min(self.len())..range.end.min(self.len());
        TranscriptView {
            transcript: self.clone(),
            ranges: ranges.into_iter().map(inside).collect(),
            replacements: None,
        }
    }
}

impl FromIterator<Message> for Transcript {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self { messages: Arc::new(messages.into_iter().map(Arc::new).collect()) }
    }
}

impl From<&Self> for Transcript {
    fn from(transcript: &Self) -> Self {
        transcript.clone()
    }
}

impl Extend<Arc<Message>> for Transcript {
    fn extend<I: IntoIterator<Item = Arc<Message>>>(&mut self, messages: I) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_struct("Transcript", 2)?;
        form.serialize_field("version", &Self::VERSION)?;
        form.serialize_field("messages", &self.messages)?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The version is checked before the messages are deserialized, because other versions may
        // represent messages differently.
        let mut form = Value::deserialize(deserializer)?;
        let Some(version) = form.get("version").and_then(Value::as_u64) else {
            return Err(D::Error::custom(
                "a saved transcript is an object with a number `version` and `messages`; this is not one",
            ));
        };
        if version != u64::from(Self::VERSION) {
            return Err(D::Error::custom(format_args!(
                "transcript format {version} is not known here, only {}: read it with the version of haft that wrote it",
                Self::VERSION
            )));
        }
        let messages = form.get_mut("messages").map(Value::take).unwrap_or_default();
        let messages = serde_path_to_error::deserialize(messages).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { "" } else { &path };
            D::Error::custom(format_args!("at `messages{path}`: {}", error.inner()))
        })?;
        Ok(Self { messages: Arc::new(messages) })
    }
}

/// A selection of the messages of a [`Transcript`], for a model request.
///
/// A view contains the messages in certain index ranges of the transcript, and can replace
/// individual messages. The messages are shared and not copied.
///
/// # Examples
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
///
/// use haft_message::{Message, Transcript};
///
/// let transcript: Transcript = ["One", "Two", "Three"].into_iter().map(Message::user).collect();
/// let replacements = BTreeMap::from([(0, Arc::new(Message::user("1")))]);
/// let view = transcript.view_ranges([0..1, 2..3]).with_replacements(Arc::new(replacements));
///
/// let texts: Vec<_> = view.iter().map(|message| message.text()).collect();
/// assert_eq!(texts, ["1", "Three"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranscriptView {
    transcript: Transcript,
    ranges: Vec<Range<usize>>,
    /// The replacement messages, by the index of the replaced message in the transcript.
    replacements: Option<Arc<BTreeMap<usize, Arc<Message>>>>,
}

impl TranscriptView {
    /// Replaces individual messages of the view. The keys of `messages` are indices in the
    /// transcript. The transcript itself is unchanged, and earlier replacements of the view are
    /// dropped.
    #[must_use]
    pub fn with_replacements(mut self, messages: Arc<BTreeMap<usize, Arc<Message>>>) -> Self {
        self.replacements = Some(messages).filter(|messages| !messages.is_empty());
        self
    }

    /// Returns the messages of the view in order, with the replacements applied.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Message>> {
        let indices = self.ranges.iter().cloned().flatten();
        indices.filter_map(|index| {
            let replacement = self.replacements.as_ref().and_then(|messages| messages.get(&index));
            replacement.or_else(|| self.transcript.messages.get(index))
        })
    }

    /// Returns the results of tool calls in the view, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        tool_results(self.iter())
    }

    /// Returns the number of messages in the view.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns `true` if the view has no messages.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

fn tool_results<'m>(
    messages: impl Iterator<Item = &'m Arc<Message>>,
) -> impl Iterator<Item = &'m ToolResult> {
    messages.filter_map(|message| message.tool_result())
}

/// Collects the messages into a new transcript and returns a view of all of them. Useful for a
/// request without an earlier conversation.
impl FromIterator<Message> for TranscriptView {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Transcript::from_iter(messages).view()
    }
}

impl FromIterator<Arc<Message>> for TranscriptView {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        let transcript = Transcript { messages: Arc::new(messages.into_iter().collect()) };
        transcript.view()
    }
}
