//! The signature of an agent: the named fields of its structured input and output.

use std::sync::Arc;

use haft_core::{Message, Schema, schema::SchemaError};
use serde_json::{Map, Value, json};

use crate::RunConfig;

const REASONING_FIELD: &str = "reasoning";

/// The maximum depth to which [`find_closed_subschema`] searches. A bound is needed because `$ref`s
/// may be cyclic.
const MAX_SUBSCHEMA_DEPTH: usize = 16;

/// Appends a list of the input fields and a list of the output fields to the instructions `base`.
/// Without declared inputs, returns `base` unchanged.
pub(super) fn append_field_lists(base: Option<Arc<Message>>, config: &RunConfig) -> Option<Arc<Message>> {
    if config.inputs.is_none() {
        return base;
    }
    let fields = [("You are given", &config.inputs), ("You are to find", &config.outputs)];
    let fields = fields.map(|(verb, schema)| schema.as_ref().map(|schema| field_list(verb, schema)));
    let base = base.map(|message| message.text());
    let paragraphs: Vec<_> = base.into_iter().chain(fields.into_iter().flatten()).collect();
    Some(Arc::new(Message::system(paragraphs.join("\n\n"))))
}

/// Formats the fields of `schema` as a Markdown list after the line `{verb}:`.
fn field_list(verb: &str, schema: &Schema) -> String {
    let mut text = format!("{verb}:");
    for field in schema.properties() {
        text += &format!("\n- `{}`", field.name);
        if let Some(description) = field.schema.get("description").and_then(Value::as_str) {
            // A description may have several lines, but a list item must fit on one line.
            text += &format!(": {}", description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    text
}

/// Adds the required field `reasoning` to `outputs`, before the other fields. Without `outputs`,
/// the only other field is `answer`. Models write the fields of an object in order, so the answer
/// can build on the reasoning.
pub(super) fn add_reasoning_field(outputs: Option<Schema>) -> Result<Schema, SchemaError> {
    let default_outputs =
        || json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]});
    let mut value = outputs.map_or_else(default_outputs, |outputs| outputs.as_value().clone());
    let reasoning = json!({"type": "string", "description": "The way to the answer, step by step."});
    if let Value::Object(root) = &mut value {
        let mut properties = Map::from_iter([(REASONING_FIELD.to_owned(), reasoning)]);
        if let Some(Value::Object(others)) = root.get_mut("properties") {
            properties.extend(std::mem::take(others));
        }
        root.insert("properties".to_owned(), Value::Object(properties));
        match root.entry("required").or_insert_with(|| json!([])) {
            Value::Array(names) if !names.iter().any(|name| name == REASONING_FIELD) => {
                names.insert(0, json!(REASONING_FIELD));
            }
            _ => {}
        }
    }
    Schema::for_arguments(value)
}

/// Returns the JSON Pointer to the first subschema of `outputs` that rejects the field `reasoning`:
/// it neither declares the field nor allows additional properties. Returns `None` if there is no
/// such subschema.
///
/// Only subschemas for the whole output are searched, such as those in `allOf`. The root is not
/// checked, since [`add_reasoning_field`] declares the field there.
pub(super) fn find_closed_subschema(outputs: &Schema) -> Option<String> {
    find_closed(outputs.as_value(), outputs.as_value(), "", MAX_SUBSCHEMA_DEPTH)
}

fn find_closed(root: &Value, subschema: &Value, pointer: &str, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let target = subschema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let target = target.and_then(|target| Some((target.to_owned(), root.pointer(target)?)));
    let conditional = ["then", "else"]
        .into_iter()
        .filter_map(|key| Some((format!("{pointer}/{key}"), subschema.get(key)?)));
    let combined = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let subschemas = subschema.get(key).and_then(Value::as_array).into_iter().flatten();
        subschemas.enumerate().map(move |(index, subschema)| (format!("{pointer}/{key}/{index}"), subschema))
    });
    target.into_iter().chain(conditional).chain(combined).find_map(|(pointer, subschema)| {
        if rejects_reasoning(subschema) {
            Some(pointer)
        } else {
            find_closed(root, subschema, &pointer, depth)
        }
    })
}

fn rejects_reasoning(subschema: &Value) -> bool {
    let is_false = |key| subschema.get(key) == Some(&Value::Bool(false));
    let declares_reasoning =
        subschema.get("properties").is_some_and(|properties| properties.get(REASONING_FIELD).is_some());
    !declares_reasoning && (is_false("additionalProperties") || is_false("unevaluatedProperties"))
}
