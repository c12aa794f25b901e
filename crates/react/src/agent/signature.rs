//! What an agent takes and gives, as named fields.

use std::sync::Arc;

use haft_core::{Message, Schema, SchemaError, Value};
use serde_json::{Map, json};

use crate::RunConfig;

const REASONING: &str = "reasoning";

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
            text += &format!(": {description}");
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
