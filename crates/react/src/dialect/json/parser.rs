//! The parser of JSON steps: objects with a thought, a tool name and the arguments.

use haft_core::Schema;
use serde_json::{Map, Value};

use super::{
    super::{
        FINISH,
        step::{ANSWER_KEY, ParsedStep, StepAction},
        written_calls::{self, WrittenCall, WrittenCalls},
    },
    key, key_names,
};

type JsonObject = Map<String, Value>;

/// The maximum number of `{` characters in a reply that are tried as the start of a step.
const MAX_OBJECT_STARTS: usize = 64;

/// Keys whose value can be the whole step, as in `{"tool_call": {…}}`.
const WRAPPER_KEYS: [&str; 3] = ["function", "tool_call", "step"];

/// Parses the first step in `text`, or returns `None` if there is none. A bare JSON object that is
/// valid for the schema `outputs` is accepted as the answer. [Written calls](written_calls) in
/// other formats are also accepted.
pub(in super::super) fn parse_step(text: &str, outputs: Option<&Schema>) -> Option<ParsedStep> {
    if let Some(answer) = bare_list(text, outputs) {
        return Some(ParsedStep { thought: None, action: StepAction::Finish(answer) });
    }
    let parse_written = || written_calls::find_calls(text).map(step_of_calls);
    if text.trim_start().starts_with('{') || find_json_object(text, |it| is_answer(it, outputs)).is_some() {
        return parse_object(text, outputs).or_else(parse_written);
    }
    // The written calls come first. An object within them can be an argument.
    parse_written().or_else(|| parse_object(text, outputs))
}

fn parse_object(text: &str, outputs: Option<&Schema>) -> Option<ParsedStep> {
    let mut step = find_json_object(text, |object| is_step(object, outputs))?;
    if is_answer(&step, outputs) {
        return Some(ParsedStep { thought: None, action: StepAction::Finish(Value::Object(step)) });
    }
    let thought = match remove_any_key(&mut step, &key_names::THOUGHT) {
        Some(Value::String(thought)) => Some(thought),
        _ => None,
    };
    let action = match remove_any_key(&mut step, &key_names::TOOL_NAME) {
        Some(Value::String(name)) if name != FINISH => {
            let arguments = match remove_any_key(&mut step, &key_names::TOOL_ARGS) {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(Value::String(text)) => text,
                Some(arguments) => arguments.to_string(),
            };
            StepAction::Call { name, arguments }
        }
        _finish => StepAction::Finish(
            remove_any_key(&mut step, &key_names::TOOL_ARGS).unwrap_or(Value::Object(step)),
        ),
    };
    Some(ParsedStep { thought, action })
}

fn step_of_calls(found: WrittenCalls) -> ParsedStep {
    let WrittenCalls { thought, calls } = found;
    let action = match <[WrittenCall; 1]>::try_from(calls) {
        Ok([WrittenCall { name, arguments }]) if name == FINISH => {
            StepAction::Finish(serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)))
        }
        Ok([WrittenCall { name, arguments }]) => StepAction::Call { name, arguments },
        Err(calls) => StepAction::Calls(calls),
    };
    ParsedStep { thought, action }
}

fn is_step(object: &JsonObject, outputs: Option<&Schema>) -> bool {
    object.contains_key(ANSWER_KEY)
        || key_names::TOOL_NAME.iter().any(|name| object.get(*name).is_some_and(Value::is_string))
        || is_answer(object, outputs)
}

/// Returns `true` if `object` itself is a valid structured answer, without a step around it.
fn is_answer(object: &JsonObject, outputs: Option<&Schema>) -> bool {
    !object.contains_key(key::TOOL_NAME)
        && outputs.is_some_and(|outputs| outputs.is_valid(&Value::Object(object.clone())))
}

/// Returns the list in `text` if it is a valid value of the only property of `outputs`, without an
/// object around it. Its elements may look like steps, for example if they have a `name`.
fn bare_list(text: &str, outputs: Option<&Schema>) -> Option<Value> {
    let outputs = outputs?;
    let text = text.trim().trim_start_matches("```json").trim_matches('`').trim();
    let list: Value = serde_json::from_str(Some(text).filter(|text| text.starts_with('['))?).ok()?;
    let mut properties = outputs.properties();
    let (Some(only), None) = (properties.next(), properties.next()) else { return None };
    let object = Value::Object(Map::from_iter([(only.name.to_owned(), list.clone())]));
    outputs.is_valid(&object).then_some(list)
}

fn remove_any_key(object: &mut JsonObject, keys: &[&str]) -> Option<Value> {
    keys.iter().find_map(|key| object.shift_remove(*key))
}

/// Returns the first JSON object in `text` for which `is_match` returns `true`, or `None` if there
/// is none. Other text is skipped. If an object does not match, but is a wrapper such as
/// `{"function": {…}}`, the object inside it is tried.
///
/// An object with invalid JSON ends the search. The objects inside it are not tried: they can be
/// arguments, and must not be executed as steps.
pub(crate) fn find_json_object(text: &str, is_match: impl Fn(&JsonObject) -> bool) -> Option<JsonObject> {
    let mut rest = text;
    for _ in 0..MAX_OBJECT_STARTS {
        rest = rest.get(rest.find('{')?..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<JsonObject>();
        let length = match values.next()? {
            Ok(object) if is_match(&object) => return Some(object),
            Ok(mut object) => match remove_any_key(&mut object, &WRAPPER_KEYS) {
                Some(Value::Object(inner)) if is_match(&inner) => return Some(inner),
                _ => values.byte_offset(),
            },
            Err(_) if begins_object(rest) => return None,
            Err(_) => 1,
        };
        rest = rest.get(length..)?;
    }
    None
}

/// Returns `true` if the `{` at the start of `text` is followed by a key in quotes. In prose, a `{`
/// is rarely followed by a quoted key.
fn begins_object(text: &str) -> bool {
    text.get(1..).is_some_and(|text| text.trim_start().starts_with('"'))
}
