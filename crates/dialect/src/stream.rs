//! The parts of a streamed reply.

use haft_core::model::ChatEvent;

/// A parser for one streamed reply. It emits the thought, the answer and the calls, without the
/// syntax of the reply format, such as JSON keys or labels.
///
/// # Examples
///
/// ```
/// use haft_core::model::ChatEvent;
/// use haft_dialect::{ReplyDelta, StreamParser};
///
/// /// Emits the text after the label `Answer: `. The label may be split between two events.
/// #[derive(Default)]
/// struct AnswerParser {
///     held: String,
///     is_answer: bool,
/// }
///
/// impl StreamParser for AnswerParser {
///     fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
///         let ChatEvent::TextDelta { text } = event else { return Vec::new() };
///         if self.is_answer {
///             return vec![ReplyDelta::Text(text.clone())];
///         }
///         self.held.push_str(text);
///         let Some((_, answer)) = self.held.split_once("Answer: ") else { return Vec::new() };
///         self.is_answer = true;
///         vec![ReplyDelta::Text(answer.to_owned())]
///     }
/// }
///
/// let mut parser = AnswerParser::default();
/// let events = ["I know it. Ans", "wer: 4", "2"].map(|text| ChatEvent::TextDelta { text: text.to_owned() });
/// let deltas: Vec<_> = events.iter().flat_map(|event| parser.push(event)).collect();
/// assert_eq!(deltas, [ReplyDelta::Text("4".to_owned()), ReplyDelta::Text("2".to_owned())]);
/// ```
pub trait StreamParser: Send {
    /// Parses one stream event. Returns the pieces of text that can now be shown to the user.
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta>;
}

/// A piece of a streamed reply that can be shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// A piece of the answer, to be appended to the previous pieces.
    Text(String),
    /// A piece of the reasoning, to be appended to the previous pieces.
    Reasoning(String),
    /// The start of a tool call. Optional: calls that are not in the deltas are announced at the
    /// end of the reply.
    CallStarted {
        /// The index of the call in the reply.
        index: usize,
        /// The id of the call. Empty if the reply format has no ids.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A piece of the arguments of a call as JSON text.
    CallArguments {
        /// The index of the call in the reply.
        index: usize,
        /// A piece of the arguments.
        arguments: String,
    },
    /// A piece of the JSON text of the structured answer.
    Output(String),
}

impl ReplyDelta {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Output(text) => text.is_empty(),
            Self::CallStarted { .. } | Self::CallArguments { .. } => false,
        }
    }
}
