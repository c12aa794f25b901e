//! Calls as JSON objects and lists.

use serde_json::{Map, Value};

use super::{
    super::{json::key_names, lenient_json},
    Context, Parsed, WrittenCalls, arguments_text,
};

type JsonObject = Map<String, Value>;

/// Keys whose value is a list of calls.
const LIST_KEYS: [&str; 3] = ["tool_calls", "function_calls", "calls"];
/// Keys whose value is a call, as in `{"type": "function", "function": {…}}`.
const WRAPPER_KEYS: [&str; 4] = ["function", "tool_call", "function_call", "step"];
/// Keys of metadata, which have no effect on the call.
const METADATA_KEYS: [&str; 8] =
    ["type", "id", "index", "call_id", "tool_call_id", "tool_use_id", "role", "content"];

/// The first key of an object that can be a call, without the keys in [`key_names`].
pub(super) fn is_known_key_prefix(prefix: &str) -> bool {
    let own = LIST_KEYS.iter().chain(&WRAPPER_KEYS).chain(&METADATA_KEYS);
    own.chain(key_names::all()).any(|key| key.starts_with(prefix))
}

/// Parses the JSON object or list at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: Context<'_>) -> Option<Parsed<'t>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let (value, rest) = match values.next()? {
        Ok(value) => (value, text.get(values.byte_offset()..)?),
        // Some models write Python literals within markers.
        Err(_) if context.is_marked => lenient_json::parse_leading_value(text)?,
        Err(_) => return None,
    };
    Some((read_value(value, context)?, rest))
}

fn read_value(value: Value, context: Context<'_>) -> Option<WrittenCalls> {
    match value {
        Value::Object(object) => read_object(object, context),
        Value::Array(items) => read_list(items, context),
        _ => None,
    }
}

fn read_list(items: Vec<Value>, context: Context<'_>) -> Option<WrittenCalls> {
    let context = context.nested(false)?;
    let mut found = WrittenCalls::default();
    for item in items {
        let Value::Object(object) = item else { return None };
        found.append(read_object(object, context)?)?;
    }
    (!found.calls.is_empty()).then_some(found)
}

fn read_object(mut object: JsonObject, context: Context<'_>) -> Option<WrittenCalls> {
    if let Some(calls) = read_tool_name_keys(&object, context) {
        return Some(calls);
    }
    let thought = match remove_any_key(&mut object, &key_names::THOUGHT) {
        Some(Value::String(thought)) => Some(thought).filter(|thought| !thought.trim().is_empty()),
        _ => None,
    };
    let found = if let Some(list) = remove_any_key(&mut object, &LIST_KEYS) {
        match list {
            Value::Array(items) => read_list(items, context.nested(true)?),
            Value::Object(call) => read_object(call, context.nested(true)?),
            _ => None,
        }
    } else if WRAPPER_KEYS.iter().any(|key| object.get(*key).is_some_and(Value::is_object)) {
        match remove_any_key(&mut object, &WRAPPER_KEYS) {
            Some(Value::Object(call)) => read_object(call, context.nested(true)?),
            _ => None,
        }
    } else {
        read_call(&mut object, context)
    }?;
    // An object with other keys is data rather than a call.
    METADATA_KEYS.iter().for_each(|key| drop(object.shift_remove(*key)));
    object.is_empty().then(|| WrittenCalls { thought: thought.or(found.thought), calls: found.calls })
}

/// Removes the name and the arguments of a call from `object`.
fn read_call(object: &mut JsonObject, context: Context<'_>) -> Option<WrittenCalls> {
    let Some(Value::String(name)) = remove_any_key(object, &key_names::TOOL_NAME) else { return None };
    let name = context.names.resolve(&name)?.to_owned();
    let arguments = remove_any_key(object, &key_names::TOOL_ARGS);
    // Without arguments and markers, an object such as `{"name": "Ada"}` can be data.
    if arguments.is_none() && !context.is_marked || arguments.as_ref().is_some_and(is_schema) {
        return None;
    }
    Some(WrittenCalls::one(name, arguments_text(arguments)))
}

/// Returns `true` if `arguments` is a JSON schema. An object with a name and a schema is the
/// definition of a tool rather than a call.
fn is_schema(arguments: &Value) -> bool {
    arguments.get("type").is_some_and(|name| name == "object")
        && arguments.get("properties").is_some_and(Value::is_object)
}

/// Reads an object whose keys are all tool names, as in `{"add": {"x": 1}}`. The arguments must be
/// valid, because an answer can have the same form.
fn read_tool_name_keys(object: &JsonObject, context: Context<'_>) -> Option<WrittenCalls> {
    let mut found = WrittenCalls::default();
    for (name, arguments) in object {
        let arguments = arguments.as_object().filter(|arguments| context.names.accepts(name, arguments))?;
        found.append(WrittenCalls::one(name.clone(), Value::Object(arguments.clone()).to_string()))?;
    }
    (!found.calls.is_empty()).then_some(found)
}

fn remove_any_key(object: &mut JsonObject, keys: &[&str]) -> Option<Value> {
    keys.iter().find_map(|key| object.shift_remove(*key))
}
