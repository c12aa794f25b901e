//! The parser of calls that a model writes as text, in the formats of many model families.
//!
//! | shape | models | example |
//! |---|---|---|
//! | JSON object | most models | `{"name": "f", "arguments": {"x": 1}}` |
//! | arguments as a string | OpenAI | `{"name": "f", "arguments": "{\"x\": 1}"}` |
//! | `function` object | OpenAI | `{"function": {"name": "f", "arguments": {}}}` |
//! | list | DSPy, xLAM | `[{"name": "f", "arguments": {"x": 1}}]` |
//! | `tool_calls` object | OpenAI, DSPy | `{"tool_calls": [{"name": "f", "args": {}}]}` |
//! | `tool_use` object | Claude | `{"type": "tool_use", "name": "f", "input": {}}` |
//! | action object | LangChain | `{"action": "f", "action_input": {"x": 1}}` |
//! | tool name as key | small models | `{"f": {"x": 1}}` |
//! | code fence | Qwen-Coder | ```` ```json ```` around any of these |
//! | `<tool_call>` tags | Hermes, Qwen, Granite | `<tool_call>{"name": "f", …}</tool_call>` |
//! | `<arg_key>` tags | GLM | `<tool_call>f<arg_key>x</arg_key>…</tool_call>` |
//! | `<function=…>` with JSON | Llama | `<function=f>{"x": 1}</function>` |
//! | `<parameter=…>` tags | Qwen3-Coder | `<function=f><parameter=x>1</parameter>…` |
//! | `<invoke>` tags | Claude, MiniMax, DeepSeek | `<invoke name="f">…</invoke>` |
//! | marker and list | Mistral | `[TOOL_CALLS] [{"name": "f", …}]` |
//! | marker and name | Mistral | `[TOOL_CALLS]f[ARGS]{"x": 1}` |
//! | Python list | Llama, LFM2 | `[f(x=1)]` |
//! | Python tag | Llama | `<\|python_tag\|>f.call(x=1)` |
//! | `tool_code` fence | Gemma | ```` ```tool_code ```` around `print(f(x=1))` |
//! | `functools` list | Phi, Firefunction | `functools[{"name": "f", …}]` |
//! | delimiter tokens | DeepSeek, Kimi | `<\|tool_call_begin\|>functions.f:0…` |
//! | Harmony message | gpt-oss | `<\|channel\|>commentary to=functions.f…` |
//!
//! The parser is strict about the text around the calls, and lenient within them. Its work is
//! bounded by the length of the text, [`MAX_CALLS`] and [`MAX_DEPTH`].

mod delimited;
mod fence;
mod harmony;
mod held_text;
mod json_calls;
mod names;
mod prefix;
mod pythonic;
mod tags;
mod tokens;
mod xml_functions;

use std::iter;

use haft_core::{lenient_json::JsonObject, limits, schema::json_text, text::ThinkSplit};
use serde_json::Value;

use crate::{
    text::ends_step,
    thinking::{join_reasoning, split_thinking},
};
pub(crate) use harmony::split_analysis;
pub(crate) use held_text::HeldTextParser;
pub(crate) use names::CallableNames;

/// The maximum number of written calls in one reply. A text with more calls is not parsed as calls.
const MAX_CALLS: usize = 64;
/// The maximum nesting depth of tags, fences and wrapper objects around a call.
const MAX_DEPTH: usize = 4;
/// The maximum number of lines that are tried as the start of a block after prose.
const MAX_BLOCK_LINES: usize = 64;
/// The maximum length of a reply with written calls, in bytes: twice [`limits::ARGUMENT_BYTES`].
const MAX_TEXT_BYTES: usize = 2 * limits::ARGUMENT_BYTES;

/// A call that a model wrote as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenCall {
    pub(crate) name: String,
    /// The arguments as JSON text. The text may be invalid JSON if the model wrote the arguments as
    /// a string.
    pub(crate) arguments: String,
}

/// The calls that a text contains, with the thought that precedes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenCalls {
    /// The thought in a `<think>` block, and the thought or content in a JSON object with the
    /// calls, as in `{"thought": "…", "tool_calls": […]}`.
    pub(crate) thought: Option<String>,
    pub(crate) calls: Vec<WrittenCall>,
}

impl WrittenCalls {
    fn one(name: String, arguments: String) -> Self {
        Self { thought: None, calls: vec![WrittenCall { name, arguments }] }
    }

    /// Appends the calls of `other`. Returns `None` if the result has more than [`MAX_CALLS`].
    fn append(&mut self, other: Self) -> Option<()> {
        self.calls.extend(other.calls);
        self.thought = join_reasoning(self.thought.take(), other.thought);
        (self.calls.len() <= MAX_CALLS).then_some(())
    }
}

/// The parse context of a block.
#[derive(Clone, Copy)]
struct ParseContext<'a> {
    names: &'a CallableNames,
    /// `true` within markers such as `<tool_call>`, which precede only calls. The calls can then be
    /// written in less explicit shapes, such as `add(x=1)`.
    is_marked: bool,
    /// The number of further levels of nesting that are parsed.
    depth: usize,
}

impl<'a> ParseContext<'a> {
    fn new(names: &'a CallableNames) -> Self {
        Self { names, is_marked: false, depth: MAX_DEPTH }
    }

    /// Returns the context one level deeper, or `None` at the maximum depth.
    fn nested(self, is_marked: bool) -> Option<Self> {
        let depth = self.depth.checked_sub(1)?;
        Some(Self { is_marked: self.is_marked || is_marked, depth, ..self })
    }

    /// Returns the call of the tool that `name` refers to, or `None` if there is no such tool.
    fn call(self, name: &str, arguments: JsonObject) -> Option<WrittenCalls> {
        let name = self.names.resolve(name)?.to_owned();
        Some(WrittenCalls::one(name, json_text(&Value::Object(arguments))))
    }
}

/// Parses `text`, which must consist of calls. A `<think>` block may precede the calls, and end
/// markers such as `<|im_end|>` may follow them. Each call must have one of the names in `names`.
/// Otherwise, returns `None`.
pub(crate) fn parse_calls(text: &str, names: &CallableNames) -> Option<WrittenCalls> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let ThinkSplit { reasoning, text } = split_thinking(text);
    // A stream emits the text as soon as it cannot become calls, so it must not be taken later.
    if !prefix::can_become_calls(&text, names) {
        return None;
    }
    let found = parse_blocks(&text, ParseContext::new(names))?;
    Some(WrittenCalls { thought: join_reasoning(Some(reasoning), found.thought), ..found })
}

/// Parses the calls at the start of `text`, the reply of a dialect whose replies all contain a
/// call. Returns the calls and the text after them. Returns `None` if the text does not start with
/// calls.
pub(crate) fn parse_leading_calls(text: &str) -> Option<Parsed<'_>> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    parse_sequence(text.trim_start(), ParseContext::new(&CallableNames::Any))
}

/// Returns the lines of `text` that can start a block after prose, each with the text that follows
/// it. The last one is a line with a `{`: an object within another object can be an argument, and
/// must not be executed as a call.
pub(crate) fn block_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let start = rest?;
        let (line, after) = start.split_once('\n').unwrap_or((start, ""));
        rest = Some(after).filter(|after| !after.is_empty() && !line.contains('{'));
        Some(start.trim_start_matches([' ', '\t']))
    })
    .filter(|line| line.starts_with(['{', '[', '<', '`']))
    .take(MAX_BLOCK_LINES)
}

/// Returns `true` if `rest`, the text after a call, is blank or starts with a label such as
/// `Observation:`. Closing tags and fences are skipped. A call that other text follows can be a
/// quotation.
pub(crate) fn is_end_of_step(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '`');
    let rest = match rest.strip_prefix("</").and_then(|tag| tag.split_once('>')) {
        Some((name, after)) if name.chars().all(fence::is_language) => after,
        _ => rest,
    };
    let rest = tags::skip_unmatched(rest);
    rest.is_empty() || ends_step(rest)
}

/// Parses `text` as a sequence of blocks with calls and nothing else.
fn parse_blocks(text: &str, context: ParseContext<'_>) -> Option<WrittenCalls> {
    let (found, rest) = parse_sequence(tokens::skip_separators(text), context)?;
    rest.is_empty().then_some(found)
}

/// Parses the sequence of blocks with calls at the start of `text`.
fn parse_sequence<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let (mut found, mut rest) = (WrittenCalls::default(), text);
    while let Some((calls, after)) = parse_block(rest, context) {
        found.append(calls)?;
        rest = tags::skip_unmatched(after);
    }
    (!found.calls.is_empty()).then_some((found, rest))
}

/// Calls, and the text after them.
type Parsed<'t> = (WrittenCalls, &'t str);

/// Parses the block at the start of `text`.
fn parse_block<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    match text.bytes().next()? {
        b'`' => fence::parse(text, context),
        b'<' => tags::parse(text, context),
        b'{' => json_calls::parse(text, context),
        b'[' => tags::parse(text, context)
            .or_else(|| json_calls::parse(text, context))
            .or_else(|| pythonic::parse_list(text, context)),
        b'f' if text.starts_with(FUNCTOOLS) => {
            json_calls::parse(text.strip_prefix(FUNCTOOLS)?, context.nested(true)?)
        }
        _ if context.is_marked => pythonic::parse_call(text, context),
        _ => None,
    }
}

/// The prefix of a list of calls in the format of Phi and Firefunction.
const FUNCTOOLS: &str = "functools";

#[cfg(test)]
mod tests;
