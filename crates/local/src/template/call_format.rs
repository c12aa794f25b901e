//! The syntax in which a template writes tool calls, found by rendering probe conversations.
//!
//! Families differ: `<tool_call>{"name": …, "arguments": …}</tool_call>` (Hermes, Qwen), bare
//! `{"name": …, "parameters": …}` (Llama 3), `[TOOL_CALLS] [{…}]` (Mistral),
//! `<function=NAME>{…}</function>`. All of them are a name and a JSON object of arguments between
//! fixed texts, and the template itself tells these texts: it is rendered with a call whose name
//! and arguments are known, and the output is split around them.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::outside_text::OutsideText;
use super::{Role, Template, Turn, TurnCall};

/// The fixed texts around the name and the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFormat {
    /// From the start of the turn to the name of the first call.
    pub(crate) open: String,
    /// Between the name and the arguments.
    pub(crate) middle: String,
    /// Between the arguments of a call and the name of the next. `None` if a turn has one call at
    /// most.
    pub(crate) next: Option<String>,
    /// From the arguments of the last call to the end of the turn.
    pub(crate) close: String,
}

/// Stands for the id of a call. Mistral's template requires nine letters or digits.
const ID: &str = "probeid00";
/// Stands for the id of the call behind it.
const NEXT_ID: &str = "probeid01";

const NAME: &str = "probe_name_first";
const NEXT_NAME: &str = "probe_name_next";
const KEY: &str = "probe_key";
const VALUE: &str = "probe_value";
const NEXT_VALUE: &str = "probe_other_value";
const DESCRIPTION: &str = "probe_description";
const QUESTION: &str = "probe_question";
const ANSWER: &str = "probe_answer";
const RESULT: &str = "probe_result";

impl CallFormat {
    /// Hermes' format, for templates without tools: the most common one among open models.
    pub(crate) fn hermes() -> Self {
        Self {
            open: "<tool_call>\n{\"name\": \"".to_owned(),
            middle: "\", \"arguments\": ".to_owned(),
            next: Some("}\n</tool_call>\n<tool_call>\n{\"name\": \"".to_owned()),
            close: "}\n</tool_call>".to_owned(),
        }
    }

    /// Replaces the ids of the probe in one of the texts.
    pub(crate) fn with_ids(text: &str, id: &str, next_id: &str) -> String {
        text.replace(ID, id).replace(NEXT_ID, next_id)
    }

    /// Finds the format of a template. `ends` are the tokens that end a turn.
    ///
    /// `None` if the template does not show tools, calls or results, or writes arguments in another
    /// way than as a JSON object behind the name.
    pub(super) fn detect(template: &Template, ends: &[String]) -> Option<Self> {
        let probe = Probe { template, tools: [tool()] };
        let plain = probe.render(&[], &[user()], true)?;
        let offered = probe.render(&probe.tools, &[user()], true)?;
        if plain.contains(DESCRIPTION) || !offered.contains(DESCRIPTION) {
            return None;
        }
        let one = vec![call(ID, NAME, VALUE)];
        let result = Turn::new(Role::Tool { id: ID.to_owned(), name: NAME.to_owned() }, RESULT);
        let answered = probe.render(&probe.tools, &[user(), calling(one.clone()), result], true)?;
        if !answered.contains(RESULT) {
            return None;
        }

        let answer = probe.render(&probe.tools, &[user(), Turn::new(Role::Assistant, ANSWER)], false)?;
        let (before, behind_answer) = answer.split_once(ANSWER)?;
        let rendered = probe.render(&probe.tools, &[user(), calling(one)], false)?;
        let turn = rendered.strip_prefix(before).or_else(|| rendered.strip_prefix(before.trim_end()))?;
        let (open, middle, behind) = split_call(turn, NAME, VALUE)?;
        // A bare name cannot be told from text.
        (!open.trim().is_empty()).then_some(())?;
        let close = without_end(behind, behind_answer, ends);

        let two = vec![call(ID, NAME, VALUE), call(NEXT_ID, NEXT_NAME, NEXT_VALUE)];
        let next = probe.render(&probe.tools, &[user(), calling(two)], false);
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
        let text = outside.expand(&rendered);
        text.contains(QUESTION).then_some(text)
    }
}

fn user() -> Turn {
    Turn::new(Role::User, QUESTION)
}

fn calling(calls: Vec<TurnCall>) -> Turn {
    Turn { calls, ..Turn::new(Role::Assistant, "") }
}

fn call(id: &str, name: &str, value: &str) -> TurnCall {
    TurnCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({KEY: value}) }
}

fn tool() -> Value {
    let properties = json!({"probe_parameter": {"type": "string", "description": "A text."}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["probe_parameter"]});
    let function = json!({"name": "probe_tool", "description": DESCRIPTION, "parameters": parameters});
    json!({"type": "function", "function": function})
}

/// Splits a text into what stands before the name, between name and arguments, and behind the
/// arguments.
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

/// The text between the arguments of the first call and the name of the second, if both are written
/// alike.
fn next_call(rendered: &str, middle: &str) -> Option<String> {
    let (_, first_middle, behind) = split_call(rendered, NAME, VALUE)?;
    let (next, next_middle, _) = split_call(behind, NEXT_NAME, NEXT_VALUE)?;
    (first_middle == middle && next_middle == middle).then(|| next.to_owned())
}

/// The end of a turn without the tokens that end it.
fn without_end<'a>(text: &'a str, behind_answer: &str, ends: &[String]) -> &'a str {
    let end = ends.iter().filter(|end| !end.is_empty()).filter_map(|end| text.find(end)).min();
    match end {
        Some(end) => text.get(..end).unwrap_or(text),
        None => text.strip_suffix(behind_answer).unwrap_or(text),
    }
    .trim_end()
}
