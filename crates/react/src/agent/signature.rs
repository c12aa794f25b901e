//! What an agent takes and gives, as named fields.

use std::sync::Arc;

use haft_core::{Message, Schema, schema::SchemaError};
use serde_json::Value;
use serde_json::{Map, json};

use crate::RunConfig;

const REASONING: &str = "reasoning";

/// How deep parts of the outputs' root are followed: references may go round in circles.
const DEPTH: usize = 16;

/// The instructions with the fields that are declared.
pub(super) fn instructions(given: Option<Arc<Message>>, config: &RunConfig) -> Option<Arc<Message>> {
    if config.inputs.is_none() {
        return given;
    }
    let fields = [("You are given", &config.inputs), ("You are to find", &config.outputs)];
    let fields = fields.map(|(verb, schema)| schema.as_ref().map(|schema| listed(verb, schema)));
    let words = given.map(|message| message.text());
    let lines: Vec<_> = words.into_iter().chain(fields.into_iter().flatten()).collect();
    Some(Arc::new(Message::system(lines.join("\n\n"))))
}

fn listed(verb: &str, schema: &Schema) -> String {
    let mut text = format!("{verb}:");
    for field in schema.properties() {
        text += &format!("\n- `{}`", field.name);
        if let Some(description) = field.schema.get("description").and_then(Value::as_str) {
            // A list has one line for each.
            text += &format!(": {}", description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    text
}

/// The outputs with a reasoning, which is given first, since what is written later follows from it.
pub(super) fn with_reasoning(outputs: Option<Schema>) -> Result<Schema, SchemaError> {
    let answer =
        || json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]});
    let mut value = outputs.map_or_else(answer, |outputs| outputs.as_value().clone());
    let reasoning = json!({"type": "string", "description": "The way to the answer, step by step."});
    if let Value::Object(root) = &mut value {
        let mut properties = Map::from_iter([(REASONING.to_owned(), reasoning)]);
        if let Some(Value::Object(others)) = root.get_mut("properties") {
            properties.extend(std::mem::take(others));
        }
        root.insert("properties".to_owned(), Value::Object(properties));
        match root.entry("required").or_insert_with(|| json!([])) {
            Value::Array(names) if !names.iter().any(|name| name == REASONING) => {
                names.insert(0, json!(REASONING));
            }
            _ => {}
        }
    }
    Schema::arguments(value)
}

/// The place of a part of the outputs that takes no other properties, and so would refuse the reasoning. The root itself
/// declares it.
pub(super) fn closed_part(outputs: &Schema) -> Option<String> {
    closed_within(outputs.as_value(), outputs.as_value(), "", DEPTH)
}

fn closed_within(root: &Value, part: &Value, at: &str, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let target = part.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let target = target.and_then(|target| Some((target.to_owned(), root.pointer(target)?)));
    let one = ["then", "else"].into_iter().filter_map(|key| Some((format!("{at}/{key}"), part.get(key)?)));
    let several = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let parts = part.get(key).and_then(Value::as_array).into_iter().flatten();
        parts.enumerate().map(move |(index, part)| (format!("{at}/{key}/{index}"), part))
    });
    target
        .into_iter()
        .chain(one)
        .chain(several)
        .find_map(|(at, part)| if is_closed(part) { Some(at) } else { closed_within(root, part, &at, depth) })
}

fn is_closed(part: &Value) -> bool {
    let refuses = |key| part.get(key) == Some(&Value::Bool(false));
    let declares = part.get("properties").is_some_and(|properties| properties.get(REASONING).is_some());
    !declares && (refuses("additionalProperties") || refuses("unevaluatedProperties"))
}
