//! The parser of JSON steps: objects with a thought, a tool name and the arguments.

use std::ops::Range;

use haft_core::{
    Schema,
    lenient_json::{self, JsonObject},
    schema::{json_text, parse_json, parse_json_object, parse_leading_json},
};
use serde_json::{Map, Value};

use super::keys::{self, remove_any};
use crate::{
    FINISH,
    declared_keys::declares_keys,
    step::{ANSWER_KEY, ParsedStep, StepAction},
    written_calls::{self, CallableNames, WrittenCalls},
};

/// The maximum number of `{` characters in a reply that are tried as the start of a step.
const MAX_OBJECT_STARTS: usize = 64;

/// Parses the first step in `text`, or returns `None` if there is none. A bare JSON object that is
/// valid for the schema `outputs` is accepted as the answer. [Written calls](written_calls) in
/// other formats are also accepted. After prose, which can quote a call, a call must end the text.
/// Only an object that starts a line can precede other text.
pub(crate) fn parse_step(text: &str, outputs: Option<&Schema>) -> Option<ParsedStep> {
    if let Some(answer) = bare_list(text, outputs) {
        return Some(ParsedStep { thought: None, action: StepAction::Finish(answer) });
    }
    let parse_written = || Some(step_of_calls(written_calls::parse_leading_calls(text)?.0));
    let is_whole_answer =
        || parse_json_object(strip_fence(text.trim())).is_some_and(|object| is_answer(&object, outputs));
    if text.trim_start().starts_with('{') || is_whole_answer() {
        return parse_object(text, outputs).or_else(parse_written);
    }
    // The written calls come first. An object within them can be an argument.
    parse_written().or_else(|| parse_last_step(text, outputs)).or_else(|| parse_object(text, outputs))
}

/// Parses the step at the end of `text`, after prose. The step must start a line: an object within
/// a line belongs to the prose, as in `I must not send {…}`.
pub(crate) fn parse_last_step(text: &str, outputs: Option<&Schema>) -> Option<ParsedStep> {
    written_calls::block_lines(text).find_map(|block| {
        let object = text_in_fence(block);
        let found = object.starts_with('{').then(|| find_object(object, |it| is_step(it, outputs)));
        let (step, rest) = match found.flatten() {
            Some((step, range)) if range.start == 0 => {
                (step_of_object(step, outputs), object.get(range.end..)?)
            }
            _ => {
                let (calls, rest) = written_calls::parse_leading_calls(block)?;
                (step_of_calls(calls), rest)
            }
        };
        written_calls::is_end_of_step(rest).then_some(step)
    })
}

/// Parses the first object in `text` that is a step.
fn parse_object(text: &str, outputs: Option<&Schema>) -> Option<ParsedStep> {
    let (object, range) = find_object(text, |object| is_step(object, outputs))?;
    let step = step_of_object(object, outputs);
    let is_call = matches!(step.action, StepAction::Calls(_));
    let is_quotation = is_call && is_within_prose(text.get(..range.start)?);
    (!is_quotation || written_calls::is_end_of_step(text.get(range.end..)?)).then_some(step)
}

/// Returns `true` if the text after `before` is within a line, a list or tags.
fn is_within_prose(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_in_block = before.lines().any(|line| line.trim_start().starts_with(['[', '<']));
    is_in_block || !text_in_fence(line).is_empty()
}

fn step_of_object(mut step: JsonObject, outputs: Option<&Schema>) -> ParsedStep {
    if is_answer(&step, outputs) {
        return ParsedStep { thought: None, action: StepAction::Finish(Value::Object(step)) };
    }
    let thought = match remove_any(&mut step, &keys::ANY_THOUGHT) {
        Some(Value::String(thought)) => Some(thought),
        _ => None,
    };
    let name = match remove_any(&mut step, &keys::ANY_TOOL_NAME) {
        Some(Value::String(name)) => CallableNames::Any.resolve(&name).map(str::to_owned).or(Some(name)),
        _ => None,
    };
    let action = match name {
        Some(name) if name != FINISH => {
            let arguments = match remove_any(&mut step, &keys::ANY_TOOL_ARGS) {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(Value::String(text)) => text,
                Some(arguments) => json_text(&arguments),
            };
            StepAction::call(name, arguments)
        }
        _finish => {
            StepAction::Finish(remove_any(&mut step, &keys::ANY_TOOL_ARGS).unwrap_or(Value::Object(step)))
        }
    };
    ParsedStep { thought, action }
}

fn step_of_calls(WrittenCalls { thought, calls }: WrittenCalls) -> ParsedStep {
    let action = match calls.as_slice() {
        [call] if call.name == FINISH => {
            StepAction::Finish(parse_json(&call.arguments).unwrap_or_else(|_| call.arguments.as_str().into()))
        }
        _ => StepAction::Calls(calls),
    };
    ParsedStep { thought, action }
}

fn is_step(object: &JsonObject, outputs: Option<&Schema>) -> bool {
    object.contains_key(ANSWER_KEY)
        || keys::ANY_TOOL_NAME.iter().any(|name| object.get(*name).is_some_and(Value::is_string))
        || is_answer(object, outputs)
}

/// Returns `true` if `object` itself is a valid structured answer, without a step around it. An
/// object with the keys of a call is an answer only if `outputs` declares all of its keys.
fn is_answer(object: &JsonObject, outputs: Option<&Schema>) -> bool {
    let Some(outputs) = outputs.filter(|_| !object.contains_key(keys::TOOL_NAME)) else { return false };
    let value = Value::Object(object.clone());
    outputs.is_valid(&value) && (!has_call_keys(object) || declares_keys(outputs, None, &value))
}

fn has_call_keys(object: &JsonObject) -> bool {
    let has_name = keys::ANY_TOOL_NAME.iter().any(|key| object.get(*key).is_some_and(Value::is_string));
    let has_arguments = keys::ANY_TOOL_ARGS.iter().any(|key| object.contains_key(*key));
    (has_name && has_arguments)
        || keys::LIST.iter().chain(&keys::WRAPPER).any(|key| object.contains_key(*key))
}

/// Returns the list in `text` if it is a valid value of the only property of `outputs`, without an
/// object around it. Its elements may look like steps, for example if they have a `name`.
fn bare_list(text: &str, outputs: Option<&Schema>) -> Option<Value> {
    let outputs = outputs?;
    let text = strip_fence(text.trim());
    let list = parse_json(Some(text).filter(|text| text.starts_with('['))?).ok()?;
    let mut properties = outputs.properties();
    let (Some(only), None) = (properties.next(), properties.next()) else { return None };
    let object = Value::Object(Map::from_iter([(only.name.to_owned(), list.clone())]));
    let has_calls = || list.as_array()?.iter().find_map(|it| it.as_object().filter(|it| has_call_keys(it)));
    let is_list = has_calls().is_none() || declares_keys(outputs, Some(only.name), &list);
    (is_list && outputs.is_valid(&object)).then_some(list)
}

/// Removes a code fence around `text`.
pub fn strip_fence(text: &str) -> &str {
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    fenced.and_then(|text| text.split_once('\n')).map_or(text, |(_language, text)| text.trim())
}

/// Removes whitespace and an opening code fence with its language from the start of `text`.
fn text_in_fence(text: &str) -> &str {
    let text = text.trim_start();
    let Some(fenced) = text.strip_prefix("```") else { return text };
    fenced.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_').trim_start()
}

/// Returns the first JSON object in `text` for which `is_match` returns `true`, or `None` if there
/// is none. Other text is skipped. If an object does not match, but is a wrapper such as
/// `{"function": {…}}`, the object inside it is tried.
///
/// An object with invalid JSON ends the search. The objects inside it are not tried: they can be
/// arguments, and must not be executed as steps.
pub fn find_json_object(text: &str, is_match: impl Fn(&JsonObject) -> bool) -> Option<JsonObject> {
    Some(find_object(text, is_match)?.0)
}

/// Returns the result of [`find_json_object`] and its place in `text`. The place of an object in a
/// wrapper is that of the wrapper.
fn find_object(text: &str, is_match: impl Fn(&JsonObject) -> bool) -> Option<(JsonObject, Range<usize>)> {
    let mut start = 0;
    for _ in 0..MAX_OBJECT_STARTS {
        start += text.get(start..)?.find('{')?;
        let rest = text.get(start..)?;
        start = match parse_leading(rest) {
            Some((Value::Object(object), length)) if is_match(&object) => {
                return Some((object, start..start + length));
            }
            Some((Value::Object(mut object), length)) => match remove_any(&mut object, &keys::WRAPPER) {
                Some(Value::Object(inner)) if is_match(&inner) => {
                    return Some((inner, start..start + length));
                }
                _ => start + length,
            },
            _ if begins_object(rest) => return None,
            _ => start + 1,
        };
    }
    None
}

/// Parses the JSON value at the start of `text`, or a complete object that is not valid JSON.
/// Returns the value and the length of its text.
fn parse_leading(text: &str) -> Option<(Value, usize)> {
    parse_leading_json(text).or_else(|| {
        text.get(1..)?.trim_start().strip_prefix(['"', '\''])?;
        let lenient = lenient_json::parse_leading_object(text).filter(|it| it.is_complete)?;
        Some((Value::Object(lenient.object), text.len() - lenient.rest.len()))
    })
}

/// Returns `true` if the `{` at the start of `text` is followed by a key in quotes. In prose, a `{`
/// is rarely followed by a quoted key.
fn begins_object(text: &str) -> bool {
    text.get(1..).is_some_and(|text| text.trim_start().starts_with('"'))
}
