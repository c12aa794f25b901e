//! The root of a tool's arguments is an object, whatever a source left unsaid.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::error::{SchemaError, SchemaFault};
use super::reference;

/// Keywords that may bring properties of their own, so that an empty `properties` beside them would mislead.
const COMBINATORS: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// The root with `"type": "object"` and `properties` in front, where it needs them.
pub(super) fn object_root(root: &Value) -> Result<Option<Value>, SchemaError> {
    let Value::Object(given) = root else { return Err(not_an_object()) };
    if !allows_object(root) || !allows_object(reference::follow(root, root)) {
        return Err(not_an_object());
    }
    let is_typed = given.get("type").is_some_and(|it| it == "object");
    let lists_properties =
        given.contains_key("properties") || COMBINATORS.iter().any(|it| given.contains_key(*it));
    if is_typed && lists_properties {
        return Ok(None);
    }
    let mut object = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    if !lists_properties {
        object.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    object.extend(
        given.iter().filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())),
    );
    Ok(Some(Value::Object(object)))
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
