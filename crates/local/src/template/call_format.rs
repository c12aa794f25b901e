//! Detection of the syntax for tool calls in a chat template.
//!
//! Model families use different formats: `<tool_call>{"name": …, "arguments": …}</tool_call>`
//! (Hermes, Qwen), bare `{"name": …, "parameters": …}` (Llama 3), `[TOOL_CALLS] [{…}]` (Mistral),
//! or `<function=NAME>{…}</function>`. In each format, markup surrounds a tool name and a JSON
//! object of arguments.
//!
//! To find the markup, the template renders a test conversation. The conversation contains a call
//! whose tool name and arguments occur nowhere else. The output is split at this name and these
//! arguments.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::outside_text::OutsideText;
use super::{Role, Template, Turn, TurnCall};

/// The markup around the name and the arguments of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFormat {
    /// The text from the start of the assistant turn to the name of the first call.
    pub(crate) open: String,
    /// The text between the name and the arguments of a call.
    pub(crate) middle: String,
    /// The text between the arguments of a call and the name of the next call. `None` if the format
    /// does not support several calls per turn.
    pub(crate) next: Option<String>,
    /// The text after the arguments of the last call, up to the end of the assistant turn.
    pub(crate) close: String,
}

/// The id of the first call in a test conversation. Mistral's template requires nine letters or
/// digits.
const ID: &str = "probeid00";
/// The id of the second call in a test conversation.
const NEXT_ID: &str = "probeid01";

const PROBE_NAME: &str = "probe_name_first";
const NEXT_NAME: &str = "probe_name_next";
const KEY: &str = "probe_key";
const VALUE: &str = "probe_value";
const NEXT_VALUE: &str = "probe_other_value";
const DESCRIPTION: &str = "probe_description";
const QUESTION: &str = "probe_question";
const ANSWER: &str = "probe_answer";
const RESULT: &str = "probe_result";

impl CallFormat {
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

    /// Replaces the ids of the test conversation in `text`, a field of a [`CallFormat`]. Returns
    /// the text with `id` in place of [`ID`], and `next_id` in place of [`NEXT_ID`].
    pub(crate) fn replace_ids(text: &str, id: &str, next_id: &str) -> String {
        text.replace(ID, id).replace(NEXT_ID, next_id)
    }

    /// Detects the call format of `template`. `ends` contains the texts of the end-of-turn tokens.
    ///
    /// Returns `None` if the template does not render tools, calls or results. Also returns `None`
    /// if a rendered call is not a name followed by a JSON object of arguments, or if no text
    /// precedes the name.
    pub(super) fn detect(template: &Template, ends: &[String]) -> Option<Self> {
        let probe = Probe { template, tools: [probe_tool()] };
        let without_tools = probe.render(&[], &[user_turn()], true)?;
        let with_tools = probe.render(&probe.tools, &[user_turn()], true)?;
        if without_tools.contains(DESCRIPTION) || !with_tools.contains(DESCRIPTION) {
            return None;
        }
        let one = vec![probe_call(ID, PROBE_NAME, VALUE)];
        let result = Turn::new(Role::Tool { id: ID.to_owned(), name: PROBE_NAME.to_owned() }, RESULT);
        let with_result = probe.render(&probe.tools, &[user_turn(), call_turn(one.clone()), result], true)?;
        if !with_result.contains(RESULT) {
            return None;
        }

        let answer = probe.render(&probe.tools, &[user_turn(), Turn::new(Role::Assistant, ANSWER)], false)?;
        let (before, behind_answer) = answer.split_once(ANSWER)?;
        let rendered = probe.render(&probe.tools, &[user_turn(), call_turn(one)], false)?;
        let turn = rendered.strip_prefix(before).or_else(|| rendered.strip_prefix(before.trim_end()))?;
        let (open, middle, behind) = split_call(turn, PROBE_NAME, VALUE)?;
        // Without a text before its name, a call cannot be distinguished from prose.
        (!open.trim().is_empty()).then_some(())?;
        let close = without_end(behind, behind_answer, ends);

        let two = vec![probe_call(ID, PROBE_NAME, VALUE), probe_call(NEXT_ID, NEXT_NAME, NEXT_VALUE)];
        let next = probe.render(&probe.tools, &[user_turn(), call_turn(two)], false);
        let next = next.and_then(|rendered| next_call(&rendered, middle));
        Some(Self { open: open.to_owned(), middle: middle.to_owned(), next, close: close.to_owned() })
    }
}

struct Probe<'a> {
    template: &'a Template,
    tools: [Value; 1],
}

impl Probe<'_> {
    fn render(&self, tools: &[Value], turns: &[Turn], generates: bool) -> Option<String> {
        let no_edges = HashSet::new();
        let mut outside = OutsideText::new(&no_edges);
        let rendered = self.template.render(turns, tools, generates, &mut outside).ok()?;
        let text = outside.replace_markers(&rendered);
        text.contains(QUESTION).then_some(text)
    }
}

fn user_turn() -> Turn {
    Turn::new(Role::User, QUESTION)
}

fn call_turn(calls: Vec<TurnCall>) -> Turn {
    Turn { calls, ..Turn::new(Role::Assistant, "") }
}

fn probe_call(id: &str, name: &str, value: &str) -> TurnCall {
    TurnCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({KEY: value}) }
}

fn probe_tool() -> Value {
    let properties = json!({"probe_parameter": {"type": "string", "description": "A text."}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["probe_parameter"]});
    let function = json!({"name": "probe_tool", "description": DESCRIPTION, "parameters": parameters});
    json!({"type": "function", "function": function})
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
    let (_, first_middle, behind) = split_call(rendered, PROBE_NAME, VALUE)?;
    let (next, next_middle, _) = split_call(behind, NEXT_NAME, NEXT_VALUE)?;
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
