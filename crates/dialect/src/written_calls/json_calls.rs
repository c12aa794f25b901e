//! Calls as JSON objects and lists.

use haft_core::{
    lenient_json::{self, JsonObject},
    schema::{json_text, parse_leading_json},
};
use serde_json::Value;

use super::{ParseContext, Parsed, WrittenCalls};
use crate::{
    json::keys::{self, remove_any},
    thinking::join_reasoning,
};

/// The key of the text beside the calls of a message.
const CONTENT_KEY: &str = "content";
/// Keys of metadata, which have no effect on the call.
const METADATA_KEYS: [&str; 7] = ["type", "id", "index", "call_id", "tool_call_id", "tool_use_id", "role"];

/// The role of a key in an object that can be a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRole {
    /// The name of the tool.
    Name,
    /// A list of calls, or a call.
    Calls,
    /// A call. Some of these keys can also be the [name](Self::Name).
    Wrapper,
    /// Arguments, a thought or metadata. Objects without calls can have such a key too.
    Other,
}

fn roles() -> impl Iterator<Item = (&'static str, KeyRole)> {
    let with = |role: KeyRole| move |key: &&'static str| (*key, role);
    let names = keys::ANY_TOOL_NAME.iter().map(with(KeyRole::Name));
    let calls = keys::LIST.iter().map(with(KeyRole::Calls));
    let wrappers = keys::WRAPPER.iter().map(with(KeyRole::Wrapper));
    let other = METADATA_KEYS.iter().chain(&keys::ANY_THOUGHT).chain(&keys::ANY_TOOL_ARGS);
    let other = other.chain([&CONTENT_KEY]).map(with(KeyRole::Other));
    names.chain(calls).chain(wrappers).chain(other)
}

/// Returns the role of `key` in a call, or `None` if a call has no such key.
pub(super) fn role_of(key: &str) -> Option<KeyRole> {
    roles().find(|(known, _)| *known == key).map(|(_, role)| role)
}

/// Returns `true` if `prefix`, the start of a key, can become a key with a role.
pub(super) fn is_known_key_prefix(prefix: &str) -> bool {
    roles().any(|(key, _)| key.starts_with(prefix))
}

/// Parses the JSON object or list at the start of `text`.
pub(super) fn parse<'t>(text: &'t str, context: ParseContext<'_>) -> Option<Parsed<'t>> {
    let (value, rest) = match parse_leading_json(text) {
        Some((value, end)) => (value, text.get(end..)?),
        // Some models write Python literals, raw line breaks in strings or trailing commas.
        None => lenient_json::parse_leading_value(text)?,
    };
    Some((read_value(value, context)?, rest))
}

/// Parses `text`, the whole text between two tags. Missing closing brackets at the end are added,
/// and additional closing brackets are ignored.
pub(super) fn parse_unbalanced(text: &str, context: ParseContext<'_>) -> Option<WrittenCalls> {
    read_value(lenient_json::parse_unbalanced_value(text)?, context)
}

fn read_value(value: Value, context: ParseContext<'_>) -> Option<WrittenCalls> {
    match value {
        Value::Object(object) => read_object(object, context),
        Value::Array(items) => read_list(items, context),
        _ => None,
    }
}

fn read_list(items: Vec<Value>, context: ParseContext<'_>) -> Option<WrittenCalls> {
    let context = context.nested(false)?;
    let mut found = WrittenCalls::default();
    for item in items {
        let Value::Object(object) = item else { return None };
        found.append(read_object(object, context)?)?;
    }
    (!found.calls.is_empty()).then_some(found)
}

fn read_object(mut object: JsonObject, context: ParseContext<'_>) -> Option<WrittenCalls> {
    if let Some(calls) = read_tool_name_keys(&object, context) {
        return Some(calls);
    }
    let mut text_of = |keys: &[&str]| match remove_any(&mut object, keys) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let thought = join_reasoning(text_of(&keys::ANY_THOUGHT), text_of(&[CONTENT_KEY]));
    let found = if let Some(list) = remove_any(&mut object, &keys::LIST) {
        match list {
            Value::Array(items) => read_list(items, context.nested(true)?),
            Value::Object(call) => read_object(call, context.nested(true)?),
            _ => None,
        }
    } else if keys::WRAPPER.iter().any(|key| object.get(*key).is_some_and(Value::is_object)) {
        match remove_any(&mut object, &keys::WRAPPER) {
            Some(Value::Object(call)) => read_object(call, context.nested(true)?),
            _ => None,
        }
    } else {
        read_call(&mut object, context)
    }?;
    // An object with other keys is data rather than a call.
    METADATA_KEYS.iter().for_each(|key| drop(object.shift_remove(*key)));
    object
        .is_empty()
        .then(|| WrittenCalls { thought: join_reasoning(thought, found.thought), calls: found.calls })
}

/// Removes the name and the arguments of a call from `object`.
fn read_call(object: &mut JsonObject, context: ParseContext<'_>) -> Option<WrittenCalls> {
    let Some(Value::String(name)) = remove_any(object, &keys::ANY_TOOL_NAME) else { return None };
    let name = context.names.resolve(&name)?.to_owned();
    let arguments = remove_any(object, &keys::ANY_TOOL_ARGS);
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
fn read_tool_name_keys(object: &JsonObject, context: ParseContext<'_>) -> Option<WrittenCalls> {
    let mut found = WrittenCalls::default();
    for (name, arguments) in object {
        let arguments = arguments.as_object().filter(|arguments| context.names.accepts(name, arguments))?;
        found.append(WrittenCalls::one(name.clone(), json_text(&Value::Object(arguments.clone()))))?;
    }
    (!found.calls.is_empty()).then_some(found)
}

/// Converts the arguments of a call to JSON text.
fn arguments_text(arguments: Option<Value>) -> String {
    match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        // The arguments are JSON within a string. Invalid JSON is passed on, so that the
        // validation error of the call explains the problem to the model.
        Some(Value::String(text)) => text,
        Some(arguments) => json_text(&arguments),
    }
}
