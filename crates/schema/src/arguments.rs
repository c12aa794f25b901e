//! Normalization of a tool's parameter schema. The root of the normalized schema has the type
//! `object`.

#[cfg(test)]
mod tests;

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use super::error::{SchemaError, SchemaFault};
use super::provider::is_assertion;
use super::reference;

/// Keywords whose subschemas may declare properties. A schema with one of these keywords does not
/// get an empty `properties`, because a model could conclude that the tool has no parameters.
const COMPOSING_KEYWORDS: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// Returns a copy of `root` with the type `object`, or `None` if `root` needs no change. An empty
/// `properties` is added if `root` has neither `properties` nor one of the [`COMPOSING_KEYWORDS`].
/// `true`, the schema of a [`Value`], becomes the schema of an object without declared properties.
/// Fails if `root` is not a schema, or if its `type` or the target of its `$ref` does not allow
/// objects.
pub(super) fn to_object_root(root: &Value, draft: Draft) -> Result<Option<Value>, SchemaError> {
    let keywords = match root {
        Value::Object(keywords) => keywords,
        Value::Bool(true) => return Ok(Some(json!({"type": "object", "properties": {}}))),
        _ => return Err(not_an_object()),
    };
    let target = reference::follow(root, root);
    if !allows_object(root) || !allows_object(target) {
        return Err(not_an_object());
    }
    // Draft-07 ignores all keywords beside a `$ref`, so a `type` there would have no effect.
    let is_alone = draft == Draft::Draft7 && keywords.contains_key("$ref");
    if is_alone && (std::ptr::eq(target, root) || target.get("$ref").is_some() || !is_object(target)) {
        return Ok(Some(move_reference_into_all_of(keywords)));
    }
    let lists_properties =
        keywords.contains_key("properties") || COMPOSING_KEYWORDS.iter().any(|it| keywords.contains_key(*it));
    if is_object(root) && lists_properties {
        return Ok(None);
    }
    let mut object = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    if !lists_properties {
        object.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    object.extend(
        keywords.iter().filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())),
    );
    Ok(Some(Value::Object(object)))
}

/// Returns a copy of the schema `keywords` with `"type": "object"`. Its `$ref` is moved into an
/// `allOf`, because draft-07 ignores a `type` beside a `$ref`. Other assertions are dropped:
/// draft-07 ignored them, and they must not take effect now.
fn move_reference_into_all_of(keywords: &Map<String, Value>) -> Value {
    let mut object = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    for (key, value) in keywords {
        match key.as_str() {
            "$ref" => drop(object.insert("allOf".to_owned(), json!([{"$ref": value}]))),
            key if is_assertion(key) => {}
            key => drop(object.insert(key.to_owned(), value.clone())),
        }
    }
    Value::Object(object)
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|it| it == "object")
}

fn allows_object(schema: &Value) -> bool {
    match schema.get("type") {
        None => schema != &Value::Bool(false),
        Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
        Some(single) => single == "object",
    }
}

fn not_an_object() -> SchemaError {
    SchemaError::new("", SchemaFault::NotAnObject)
}
