//! The append-only record of a conversation, and views of it.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct as _};

use serde_json::Value;

use crate::message::Message;

/// Everything that was said and done in a conversation, in order.
///
/// Nothing is ever removed or rewritten: what a model is shown is a [`View`]. A clone shares the messages.
/// As JSON it names its format, `{"version": 1, "messages": […]}`; a newer format is refused.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, Transcript};
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
    /// The version of the JSON form that this build writes.
    pub const VERSION: u32 = 1;

    /// Makes an empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message.
    ///
    /// While another clone or view is alive, the list of pointers is copied first; the messages never are.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.messages).push(message.into());
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// A view of all messages.
    pub fn view(&self) -> View {
        self.view_of(std::iter::once(0..self.len()))
    }

    /// A view of the messages in `ranges`. Indices beyond the end are ignored.
    pub fn view_of(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> View {
        let inside = |range: Range<usize>| range.start.min(self.len())..range.end.min(self.len());
        View {
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
        // Another version may have another shape: nothing else is read before the version is known.
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

/// Ranges of a transcript, as they are sent to a model. The messages are not copied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    transcript: Transcript,
    ranges: Vec<Range<usize>>,
    /// Messages by the index of the message that they replace.
    replacements: Option<Arc<BTreeMap<usize, Arc<Message>>>>,
}

impl View {
    /// Replaces messages, by their index in the transcript. The transcript is unchanged.
    #[must_use]
    pub fn with_replacements(mut self, messages: Arc<BTreeMap<usize, Arc<Message>>>) -> Self {
        self.replacements = Some(messages).filter(|messages| !messages.is_empty());
        self
    }

    /// The messages in view, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Message>> {
        let indices = self.ranges.iter().cloned().flatten();
        indices.filter_map(|index| {
            let replacement = self.replacements.as_ref().and_then(|messages| messages.get(&index));
            replacement.or_else(|| self.transcript.messages.get(index))
        })
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns `true` without messages.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// Messages that stand in no transcript, such as those of a single request.
impl FromIterator<Message> for View {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Transcript::from_iter(messages).view()
    }
}

impl FromIterator<Arc<Message>> for View {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        let transcript = Transcript { messages: Arc::new(messages.into_iter().collect()) };
        transcript.view()
    }
}
