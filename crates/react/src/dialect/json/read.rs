//! Reads a step out of what a model wrote.

use haft_core::Schema;
use serde_json::Map;
use serde_json::Value;

use super::{
    super::{
        FINISH,
        step::{ANSWER, Action, Step},
    },
    key,
};

type Object = Map<String, Value>;

/// Where in a text an object is looked for at most.
const CANDIDATES: usize = 64;

/// The names under which models that ignore the schema are known to put the parts of a step.
const THOUGHTS: [&str; 4] = [key::THOUGHT, "next_thought", "reasoning", "thoughts"];
const NAMES: [&str; 5] = [key::TOOL_NAME, "next_tool_name", "name", "tool", "action"];
const ARGS: [&str; 6] = [key::TOOL_ARGS, "next_tool_args", "arguments", "args", "parameters", "action_input"];
/// The keys under which a step is wrapped as a whole.
const WRAPPERS: [&str; 3] = ["function", "tool_call", "step"];

/// Reads a step, or an answer without the step around it.
pub(in super::super) fn step(text: &str, outputs: Option<&Schema>) -> Option<Step> {
    let mut step = json_object(text, |object| is_step(object, outputs))?;
    if is_answer(&step, outputs) {
        return Some(Step { thought: None, action: Action::Finish(Value::Object(step)) });
    }
    let thought = match take(&mut step, &THOUGHTS) {
        Some(Value::String(thought)) => Some(thought),
        _ => None,
    };
    let action = match take(&mut step, &NAMES) {
        Some(Value::String(name)) if name != FINISH => {
            let arguments = match take(&mut step, &ARGS) {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(Value::String(text)) => text,
                Some(arguments) => arguments.to_string(),
            };
            Action::Call { name, arguments }
        }
        _finish => Action::Finish(take(&mut step, &ARGS).unwrap_or(Value::Object(step))),
    };
    Some(Step { thought, action })
}

fn is_step(object: &Object, outputs: Option<&Schema>) -> bool {
    object.contains_key(ANSWER)
        || NAMES.iter().any(|name| object.get(*name).is_some_and(Value::is_string))
        || is_answer(object, outputs)
}

/// Whether an object is the answer itself, without the step around it.
fn is_answer(object: &Object, outputs: Option<&Schema>) -> bool {
    !object.contains_key(key::TOOL_NAME)
        && outputs.is_some_and(|outputs| outputs.is_valid(&Value::Object(object.clone())))
}

fn take(object: &mut Object, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| object.shift_remove(*name))
}

/// The first JSON object in a text that is wanted, whatever stands around it.
///
/// What begins like an object and cannot be read ends the search: what is inside it is a part of something, and no step
/// of its own.
pub(crate) fn json_object(text: &str, wanted: impl Fn(&Object) -> bool) -> Option<Object> {
    let mut rest = text;
    for _ in 0..CANDIDATES {
        rest = rest.get(rest.find('{')?..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Object>();
        let length = match values.next()? {
            Ok(object) if wanted(&object) => return Some(object),
            Ok(mut object) => match take(&mut object, &WRAPPERS) {
                Some(Value::Object(inner)) if wanted(&inner) => return Some(inner),
                _ => values.byte_offset(),
            },
            Err(_) if begins_object(rest) => return None,
            Err(_) => 1,
        };
        rest = rest.get(length..)?;
    }
    None
}

/// Whether a brace is followed by a key, and is not a brace in prose.
fn begins_object(text: &str) -> bool {
    text.get(1..).is_some_and(|text| text.trim_start().starts_with('"'))
}
