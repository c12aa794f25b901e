//! The reasoning that a model writes in the text of a reply, before the reply itself.

use haft_core::{
    message::AssistantMessage,
    text::{CLOSE_TAG, ThinkSplit, ThinkTagParser},
};

use crate::written_calls::split_analysis;

/// The text between two pieces of reasoning.
pub(crate) const REASONING_SEPARATOR: &str = "\n\n";

/// Splits `text`, a complete reply, into its reasoning and the rest. The reasoning is a leading
/// `<think>` block, or the leading `analysis` messages of Harmony. If it is not closed, the rest is
/// empty.
///
/// # Examples
///
/// ```
/// let split = haft_dialect::split_thinking("<think>17 + 25 = 42</think>\nIt is 42.");
/// assert_eq!((&*split.reasoning, &*split.text), ("17 + 25 = 42", "It is 42."));
/// ```
pub fn split_thinking(text: &str) -> ThinkSplit {
    let mut parser = ThinkTagParser::default();
    let mut split = parser.push(text.to_owned());
    let end = parser.finish();
    split.reasoning.push_str(&end.reasoning);
    split.text.push_str(&end.text);
    if let Some((analysis, rest)) = split_analysis(&split.text) {
        let analysis = (!analysis.is_empty()).then_some(analysis);
        let thinking = Some(split.reasoning).filter(|it| !it.is_empty());
        return ThinkSplit {
            reasoning: join_reasoning(thinking, analysis).unwrap_or_default(),
            text: rest.unwrap_or_default().to_owned(),
        };
    }
    split
}

/// Splits `text` after the first line that consists of `</think>`, if there is one. The templates
/// of some models, such as DeepSeek R1 and Qwen3 Thinking, put the opening tag into the prompt.
pub(crate) fn split_unopened_thinking(text: &str) -> Option<(&str, &str)> {
    text.match_indices(CLOSE_TAG).find_map(|(index, tag)| {
        let (before, after) = (text.get(..index)?, text.get(index + tag.len()..)?);
        let starts_line = before.trim_end_matches([' ', '\t']).ends_with('\n');
        let ends_line = after.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        (starts_line && ends_line).then(|| (before.trim(), after.trim_start()))
    })
}

/// Joins two pieces of reasoning, such as the reasoning that the server sends in a separate field
/// and the thought of a step. Blank pieces are dropped.
pub(crate) fn join_reasoning(reasoning: Option<String>, thought: Option<String>) -> Option<String> {
    let is_text = |text: &String| !text.trim().is_empty();
    match (reasoning.filter(is_text), thought.filter(is_text)) {
        (Some(reasoning), Some(thought)) => Some([reasoning, thought].join(REASONING_SEPARATOR)),
        (reasoning, thought) => reasoning.or(thought),
    }
}

/// Returns the reasoning of `reply`, or its text if it has no reasoning. `None` if `reply` has
/// neither.
pub fn reasoning_or_text(reply: &AssistantMessage) -> Option<String> {
    let text = || Some(reply.text()).filter(|text| !text.is_empty());
    reply.reasoning.clone().or_else(text)
}
