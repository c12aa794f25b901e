//! Detection of the syntax for tool calls in a chat template.
//!
//! Model families use different formats: `<tool_call>{"name": …, "arguments": …}</tool_call>`
//! (Hermes, Qwen), bare `{"name": …, "parameters": …}` (Llama 3), `[TOOL_CALLS] [{…}]` or
//! `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}` (Mistral), `<|tool_call|>[{…}]<|/tool_call|>`
//! (Phi-4-mini), or `<function=NAME>{…}</function>`. In each format, markup surrounds a tool name
//! and a JSON object of arguments.
//!
//! To find the markup, the template renders a test conversation. The conversation contains a call
//! whose tool name and arguments occur nowhere else. The output is split at this name and these
//! arguments.

use serde_json::{Value, json};

use super::tool_form::{ANSWER, ID, KEY, NAME, NEXT_ID, NEXT_NAME, NEXT_VALUE, Probe, VALUE};

/// The markup around the name and the arguments of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFormat {
    /// The text from the start of the assistant turn to the name of the first call.
    pub(crate) open: String,
    /// The text between the name and the arguments of a call. It may contain the id of the call.
    pub(crate) middle: String,
    /// The text between the arguments of a call and the name of the next call. `None` if the format
    /// does not support several calls per turn.
    pub(crate) next: Option<String>,
    /// The text after the arguments of the last call, up to the end of the assistant turn.
    pub(crate) close: String,
}

impl CallFormat {
    /// The tag that opens a call in Hermes' format.
    pub(super) const HERMES_TAG: &str = "<tool_call>";

    /// Returns Hermes' format, the most common format of open models. It is the format for chat
    /// templates without support for tools.
    pub(crate) fn hermes() -> Self {
        Self {
            open: "<tool_call>\n{\"name\": \"".to_owned(),
            middle: "\", \"arguments\": ".to_owned(),
            next: Some("}\n</tool_call>\n<tool_call>\n{\"name\": \"".to_owned()),
            close: "}\n</tool_call>".to_owned(),
        }
    }

    /// Returns the format of Phi-4-mini, whose template renders no calls.
    ///
    /// Source: the technical report of Phi-4-mini (arXiv 2503.01743) and its special tokens.
    pub(super) fn phi4() -> Self {
        Self {
            open: "<|tool_call|>[{\"name\": \"".to_owned(),
            middle: "\", \"arguments\": ".to_owned(),
            next: Some("}, {\"name\": \"".to_owned()),
            close: "}]<|/tool_call|>".to_owned(),
        }
    }

    /// Replaces the ids of the test conversation in `text`, a field of a [`CallFormat`]. Returns
    /// the text with `id` in place of [`ID`], and `next_id` in place of [`NEXT_ID`].
    pub(crate) fn replace_ids(text: &str, id: &str, next_id: &str) -> String {
        text.replace(ID, id).replace(NEXT_ID, next_id)
    }

    /// Detects the format of the calls that `probe` renders. `ends` contains the texts of the
    /// end-of-turn tokens.
    ///
    /// Returns `None` if a rendered call is not a name followed by a JSON object of arguments, or
    /// if no text precedes the name.
    pub(super) fn detect(probe: &Probe<'_>, ends: &[String]) -> Option<Self> {
        let answer = probe.render_answer()?;
        let (before, behind_answer) = answer.split_once(ANSWER)?;
        let rendered = probe.render_call()?;
        let turn = rendered.strip_prefix(before).or_else(|| rendered.strip_prefix(before.trim_end()))?;
        let (open, middle, behind) = split_call(turn, NAME, VALUE)?;
        // Without a text before its name, a call cannot be distinguished from prose.
        (!open.trim().is_empty()).then_some(())?;
        let close = without_end(behind, behind_answer, ends);
        let next = probe.render_two_calls().and_then(|rendered| next_call(&rendered, middle));
        Some(Self { open: open.to_owned(), middle: middle.to_owned(), next, close: close.to_owned() })
    }
}

/// Splits `text` at the tool name `name` and at the arguments that contain `value`. Returns the
/// texts before the name, between the name and the arguments, and after the arguments. Returns
/// `None` if `text` does not contain the call.
fn split_call<'a>(text: &'a str, name: &str, value: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (open, rest) = text.split_once(name)?;
    let key = rest.find(KEY)?;
    let start = rest.get(..key)?.rfind('{')?;
    let end = rest.find(value)? + value.len();
    let end = end + rest.get(end..)?.find('}')? + 1;
    let arguments: Value = serde_json::from_str(rest.get(start..end)?).ok()?;
    (arguments == json!({KEY: value})).then_some(())?;
    Some((open, rest.get(..start)?, rest.get(end..)?))
}

/// Returns the text between the arguments of the first call and the name of the second call in
/// `rendered`. Returns `None` if `middle` does not separate the name and the arguments of both
/// calls.
fn next_call(rendered: &str, middle: &str) -> Option<String> {
    let (_, first_middle, behind) = split_call(rendered, NAME, VALUE)?;
    let (next, next_middle, _) = split_call(behind, NEXT_NAME, NEXT_VALUE)?;
    // The text between the name and the arguments may contain the id of the call.
    let next_middle = next_middle.replace(NEXT_ID, ID);
    (first_middle == middle && next_middle == middle).then(|| next.to_owned())
}

/// Returns `text` up to the end of the turn, without trailing whitespace. The turn ends at the
/// first end-of-turn token.
///
/// If `text` contains no end-of-turn token, removes the suffix `behind_answer`, which the
/// template renders after an answer.
fn without_end<'a>(text: &'a str, behind_answer: &str, ends: &[String]) -> &'a str {
    let end = ends.iter().filter(|end| !end.is_empty()).filter_map(|end| text.find(end)).min();
    match end {
        Some(end) => text.get(..end).unwrap_or(text),
        None => text.strip_suffix(behind_answer).unwrap_or(text),
    }
    .trim_end()
}
