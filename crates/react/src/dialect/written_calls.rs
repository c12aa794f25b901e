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
mod json_calls;
mod names;
mod prefix;
mod pythonic;
mod tags;
mod tokens;
mod xml_functions;

use haft_core::{
    limits,
    text::{CLOSE_TAG, OPEN_TAG},
};
use serde_json::Value;

pub(crate) use names::CallableNames;
pub(crate) use prefix::HeldTextParser;

/// The maximum number of written calls in one reply. A text with more calls is not parsed as calls.
const MAX_CALLS: usize = 64;
/// The maximum nesting depth of tags, fences and wrapper objects around a call.
const MAX_DEPTH: usize = 4;
/// The maximum length of a text with calls, in bytes: the arguments of a call, and as much around
/// them.
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
    /// The thought in a `<think>` block, or in a JSON object with the calls, as in
    /// `{"thought": "…", "tool_calls": […]}`.
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
        if self.thought.is_none() {
            self.thought = other.thought;
        }
        (self.calls.len() <= MAX_CALLS).then_some(())
    }
}

/// The place of a block of text in a reply.
#[derive(Clone, Copy)]
struct Context<'a> {
    names: CallableNames<'a>,
    /// `true` within markers such as `<tool_call>`, which precede only calls. The calls can then be
    /// written in less explicit shapes, such as `add(x=1)`.
    is_marked: bool,
    /// The number of further levels of nesting that are parsed.
    depth: usize,
}

impl<'a> Context<'a> {
    fn new(names: CallableNames<'a>) -> Self {
        Self { names, is_marked: false, depth: MAX_DEPTH }
    }

    /// Returns the context one level deeper, or `None` at the maximum depth.
    fn nested(self, is_marked: bool) -> Option<Self> {
        let depth = self.depth.checked_sub(1)?;
        Some(Self { is_marked: self.is_marked || is_marked, depth, ..self })
    }
}

/// Parses `text`, which must consist of calls. A `<think>` block may precede the calls, and end
/// markers such as `<|im_end|>` may follow them. Each call must have one of the names in `names`.
/// Otherwise, returns `None`.
pub(crate) fn parse_calls(text: &str, names: CallableNames<'_>) -> Option<WrittenCalls> {
    // A stream emits the text as soon as it cannot become calls, so it must not be taken later.
    if text.len() > MAX_TEXT_BYTES || !prefix::can_become_calls(text, names) {
        return None;
    }
    let (thinking, text) = split_thinking(text);
    let found = parse_blocks(text, Context::new(names))?;
    Some(WrittenCalls { thought: thinking.map(str::to_owned).or(found.thought), ..found })
}

/// Splits `text` into the reasoning in a leading `<think>` block and the rest.
fn split_thinking(text: &str) -> (Option<&str>, &str) {
    let thinking = text.trim_start().strip_prefix(OPEN_TAG).and_then(|text| text.split_once(CLOSE_TAG));
    match thinking {
        Some((thinking, rest)) => (Some(thinking.trim()).filter(|it| !it.is_empty()), rest),
        None => (None, text),
    }
}

/// Finds the first calls in `text`, the reply of a dialect whose replies all contain a call. Text
/// before and after the calls is ignored, because it is a thought, or an observation that the model
/// made up. Returns `None` if the text contains no calls, or if a JSON object precedes them.
pub(super) fn find_calls(text: &str) -> Option<WrittenCalls> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let context = Context::new(CallableNames::Any);
    let start = text.trim_start();
    let start = if is_block_start(start) { start } else { skip_to_block(start)? };
    let mut found = WrittenCalls::default();
    let mut rest = start;
    while let Some((calls, after)) = parse_block(rest, context) {
        found.append(calls)?;
        rest = tokens::skip_separators(after);
    }
    (!found.calls.is_empty()).then_some(found)
}

/// Returns the rest of `text` from the first line that can start a block. Returns `None` if there
/// is none, or if a `{` precedes it: an object within another object can be an argument, and must
/// not be executed as a call.
fn skip_to_block(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n')?;
        if line.contains('{') {
            return None;
        }
        rest = after.trim_start();
        if is_block_start(rest) {
            return Some(rest);
        }
    }
}

fn is_block_start(text: &str) -> bool {
    text.starts_with(['{', '[', '<', '`'])
}

/// Parses `text` as a sequence of blocks with calls and nothing else.
fn parse_blocks(text: &str, context: Context<'_>) -> Option<WrittenCalls> {
    let mut found = WrittenCalls::default();
    let mut rest = tokens::skip_separators(text);
    while !rest.is_empty() {
        let (calls, after) = parse_block(rest, context)?;
        found.append(calls)?;
        rest = tokens::skip_separators(after);
    }
    (!found.calls.is_empty()).then_some(found)
}

/// A block with at least one call, and the text after the block.
type Parsed<'t> = (WrittenCalls, &'t str);

/// Parses the block at the start of `text`.
fn parse_block<'t>(text: &'t str, context: Context<'_>) -> Option<Parsed<'t>> {
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

/// Converts the arguments of a call to JSON text.
fn arguments_text(arguments: Option<Value>) -> String {
    match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        // The arguments are JSON within a string. Invalid JSON is passed on, so that the
        // validation error of the call explains the problem to the model.
        Some(Value::String(text)) => text,
        Some(arguments) => arguments.to_string(),
    }
}

#[cfg(test)]
mod tests;
