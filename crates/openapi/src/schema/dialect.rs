//! The keywords of OpenAPI 3.0 that JSON Schema 2020-12 does not have, or has with another meaning.

use serde_json::{Map, Value, json};

use super::values;
use crate::document::Document;

/// The maximum nesting of alternatives in which null is searched.
const MAX_NULL_DEPTH: usize = 4;

/// Returns `true` if the keyword `key` has no counterpart in the schema of a tool, or has one that
/// another function of this module adds.
pub(super) fn is_dropped(key: &str) -> bool {
    key.starts_with("x-")
        || matches!(
            key,
            "$schema"
                | "$id"
                | "$anchor"
                | "$dynamicAnchor"
            // The targets of dynamic references depend on the document that contains them. Without
            // the reference, the server validates the value.
            | "$dynamicRef"
            | "$recursiveAnchor"
            | "$recursiveRef"
                | "$comment"
                | "$vocabulary"
                | "$defs"
                | "definitions"
                | "$ref"
                | "collectionFormat"
                | "discriminator"
                | "example"
                | "examples"
                | "externalDocs"
                | "nullable"
                | "readOnly"
                | "xml"
        )
}

/// Replaces `exclusiveMinimum: true` of OpenAPI 3.0 by the bound itself, and the same for
/// `exclusiveMaximum`.
pub(super) fn with_exclusive_bounds(
    mut translated: Map<String, Value>,
    keywords: &Map<String, Value>,
) -> Map<String, Value> {
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(Value::Bool(is_exclusive)) = keywords.get(exclusive) else { continue };
        translated.shift_remove(exclusive);
        if *is_exclusive && let Some(bound) = translated.shift_remove(inclusive) {
            translated.insert(exclusive.to_owned(), bound);
        }
    }
    translated
}

/// Adds the examples of the schema `keywords`. Objects are omitted: they repeat the properties.
pub(super) fn with_examples(
    mut translated: Map<String, Value>,
    keywords: &Map<String, Value>,
) -> Map<String, Value> {
    let examples = match (keywords.get("examples"), keywords.get("example")) {
        (Some(Value::Array(examples)), _) => examples.as_slice(),
        (_, Some(example)) => std::slice::from_ref(example),
        _ => return translated,
    };
    let scalars: Vec<_> =
        examples.iter().filter(|it| !it.is_object() && !it.is_array() && !it.is_null()).cloned().collect();
    if !scalars.is_empty() {
        translated.insert("examples".to_owned(), scalars.into());
    }
    translated
}

/// Permits null in `translated` if the schema `keywords` has `nullable: true`.
///
/// OpenAPI 3.0.3 defines no effect for `nullable` without `type`. Documents use it beside `$ref`
/// and `allOf`, so null is permitted there as well.
pub(super) fn with_nullable(
    translated: Map<String, Value>,
    keywords: &Map<String, Value>,
) -> Map<String, Value> {
    if !is_nullable(keywords) {
        return translated;
    }
    let is_composed =
        ["$ref", "allOf", "anyOf", "oneOf", "const"].iter().any(|key| translated.contains_key(*key));
    if is_composed {
        return or_null(translated);
    }
    let mut translated = translated;
    if let Some(declared) = translated.get_mut("type") {
        let mut types = declared.as_array().cloned().unwrap_or_else(|| vec![declared.take()]);
        types.push("null".into());
        *declared = values::types(&types.into()).unwrap_or_default();
    }
    add_null(&mut translated);
    translated
}

/// Returns a schema that permits null and the values of `translated`.
pub(super) fn or_null(translated: Map<String, Value>) -> Map<String, Value> {
    let is_annotation = |key: &str| matches!(key, "title" | "description" | "default" | "deprecated");
    let (mut outer, inner): (Map<_, _>, Map<_, _>) =
        translated.into_iter().partition(|(key, _)| is_annotation(key));
    outer.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
    outer
}

/// Adds null to `enum` if a list of types has it. Many authors forget one of the two.
pub(super) fn with_null_in_enum(mut translated: Map<String, Value>) -> Map<String, Value> {
    let types = translated.get("type").and_then(Value::as_array);
    if types.is_some_and(|types| types.iter().any(|it| it == "null")) {
        add_null(&mut translated);
    }
    translated
}

fn add_null(translated: &mut Map<String, Value>) {
    if let Some(Value::Array(values)) = translated.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// Returns `true` for `nullable` of OpenAPI 3.0, and for its extension of Swagger 2.0.
fn is_nullable(keywords: &Map<String, Value>) -> bool {
    ["nullable", "x-nullable"].iter().any(|key| keywords.get(*key) == Some(&Value::Bool(true)))
}

/// Returns `true` if `schema` has no other keyword than `nullable: true`. As an alternative, it
/// stands for null.
pub(super) fn is_only_null(schema: &Value) -> bool {
    schema.as_object().is_some_and(|keywords| keywords.len() == 1 && is_nullable(keywords))
}

/// Returns `true` if `schema` explicitly permits null.
pub(super) fn permits_null(document: &Document, schema: &Value, depth: usize) -> bool {
    if depth > MAX_NULL_DEPTH || document.spend(1).is_err() {
        return false;
    }
    let Some(keywords) = document.resolve(schema).ok().and_then(Value::as_object) else { return false };
    let is_null = |value: &Value| value.is_null() || value == "null";
    let has_null_type = match keywords.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_null),
        Some(only) => is_null(only),
        None => keywords.get("enum").and_then(Value::as_array).is_some_and(|it| it.contains(&Value::Null)),
    };
    let list = |key: &str| keywords.get(key).and_then(Value::as_array).into_iter().flatten();
    has_null_type
        || is_nullable(keywords)
        || keywords.get("const") == Some(&Value::Null)
        || list("anyOf").chain(list("oneOf")).any(|it| permits_null(document, it, depth + 1))
        || (keywords.contains_key("allOf") && list("allOf").all(|it| permits_null(document, it, depth + 1)))
}

/// Replaces a list in `items`, the tuples of older drafts, by `prefixItems`.
pub(super) fn with_tuple(mut translated: Map<String, Value>) -> Map<String, Value> {
    if translated.get("items").is_some_and(Value::is_array)
        && let Some(items) = translated.shift_remove("items")
    {
        if items.as_array().is_some_and(|items| !items.is_empty()) {
            translated.entry("prefixItems").or_insert(items);
        }
        if let Some(others) = translated.shift_remove("additionalItems") {
            translated.insert("items".to_owned(), others);
        }
    }
    translated
}

/// Replaces `oneOf` by `anyOf` if the discriminator has a default: the default alternative accepts
/// the values of the others as well.
pub(super) fn with_default_alternative(
    mut translated: Map<String, Value>,
    keywords: &Map<String, Value>,
) -> Map<String, Value> {
    let has_default = keywords.get("discriminator").is_some_and(|it| it.get("defaultMapping").is_some());
    if has_default
        && !translated.contains_key("anyOf")
        && let Some(alternatives) = translated.shift_remove("oneOf")
    {
        translated.insert("anyOf".to_owned(), alternatives);
    }
    translated
}
