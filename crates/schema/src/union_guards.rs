//! Guards for the alternatives of unions (`anyOf` and `oneOf`). A guard rejects a wrong alternative
//! early.
//!
//! The validator lists the errors of every alternative of a union, including nested unions. For a
//! tree of tagged alternatives, the number of errors is exponential in the depth: eight levels of
//! five alternatives take half a minute. With a guard, an alternative is evaluated only if the
//! value matches the signature of the alternative, for example its tag. The set of valid values
//! does not change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::preflight::subschemas;
use super::reference::{self, Reference, join_pointer};

/// Returns a copy of the schema `root` with a guard around each alternative that has a signature
/// (see [`signatures`]). Returns `None` if no alternative has a signature.
pub(super) fn with_guards(root: &Value) -> Option<Value> {
    let mut alternatives = BTreeMap::new();
    let mut references = Vec::new();
    let mut open = vec![(String::new(), root)];
    while let Some((pointer, schema)) = open.pop() {
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    references.push((join_pointer(&pointer, keyword), reference));
                }
                ("anyOf" | "oneOf", Value::Array(all)) => {
                    alternatives.extend(signatures(root, &join_pointer(&pointer, keyword), all));
                }
                _ => {}
            }
            open.extend(subschemas(&pointer, keyword, value).into_iter().map(|it| (it.pointer, it.schema)));
        }
    }
    (!alternatives.is_empty()).then(|| add_guards(root.clone(), &alternatives, &references))
}

/// Returns the alternative that the guard `schema` contains. A schema without a guard is returned
/// unchanged.
pub(super) fn original_alternative(schema: &Value) -> &Value {
    schema.get("then").unwrap_or(schema)
}

/// Converts the JSON pointer of a guard's `else` to the pointer of the guarded alternative in
/// `then`. Returns `None` if `pointer` does not end with `/else`.
pub(super) fn alternative_pointer(pointer: &str) -> Option<String> {
    Some(format!("{}/then", pointer.strip_suffix("/else")?))
}

fn add_guards(
    mut schema: Value,
    alternatives: &BTreeMap<String, Value>,
    references: &[(String, &String)],
) -> Value {
    for (pointer, reference) in references {
        if let Some(place) = schema.pointer_mut(pointer) {
            *place = Value::from(rewrite_reference(reference, alternatives));
        }
    }
    // Nested alternatives are guarded first: their pointers change when the alternative around them
    // moves into its guard.
    for (pointer, signature) in alternatives.iter().rev() {
        if let Some(place) = schema.pointer_mut(pointer) {
            *place = json!({"if": signature, "then": place.take(), "else": signature});
        }
    }
    schema
}

/// Returns the JSON pointer and the signature of each alternative in `alternatives`. Alternatives
/// without a signature are omitted. A signature is a simple schema that accepts all valid values of
/// the alternative, and possibly further values.
fn signatures(root: &Value, pointer: &str, alternatives: &[Value]) -> Vec<(String, Value)> {
    let schemas: Vec<_> = alternatives.iter().map(|it| reference::follow(root, it)).collect();
    let objects = schemas.iter().filter(|it| it.get("properties").is_some()).count();
    let signatures =
        schemas.iter().map(|schema| signature(root, schema.as_object()?, objects > 1)).enumerate();
    signatures
        .filter_map(|(index, found)| Some((join_pointer(pointer, &index.to_string()), found?)))
        .collect()
}

fn signature(root: &Value, schema: &Map<String, Value>, is_one_of_several: bool) -> Option<Value> {
    let copy = |keyword: &str| Some((keyword.to_owned(), schema.get(keyword)?.clone()));
    let mut signature: Map<_, _> = ["type", "const", "enum"].into_iter().filter_map(copy).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let tags: Map<_, _> =
        properties.filter_map(|(name, schema)| Some((name.clone(), tag_schema(root, schema)?))).collect();
    if !tags.is_empty() {
        signature.insert("properties".to_owned(), Value::Object(tags));
    } else if is_one_of_several {
        signature.extend(copy("required"));
    }
    (!signature.is_empty()).then_some(Value::Object(signature))
}

/// Returns a `const` schema if `schema`, the schema of a property, allows exactly one value in
/// `const` or `enum`. This value identifies an alternative of a union. Returns `None` for any other
/// schema.
fn tag_schema(root: &Value, schema: &Value) -> Option<Value> {
    let schema = reference::follow(root, schema);
    let only = schema.get("enum").and_then(Value::as_array).filter(|values| values.len() == 1);
    let value = schema.get("const").or_else(|| only?.first())?;
    Some(json!({"const": value}))
}

/// Rewrites `reference` for a schema with guards. In the path of `reference`, `/then` is inserted
/// after each guarded alternative.
fn rewrite_reference(reference: &str, alternatives: &BTreeMap<String, Value>) -> String {
    let Some(Reference::Pointer(pointer)) = Reference::parse(reference) else { return reference.to_owned() };
    let mut place = String::new();
    let mut moved = "#".to_owned();
    for (written, step) in reference.split('/').zip(pointer.split('/')).skip(1) {
        place = place + "/" + step;
        moved = moved + "/" + written;
        if alternatives.contains_key(&place) {
            moved += "/then";
        }
    }
    moved
}
