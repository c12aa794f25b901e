//! The keywords of OpenAPI 3.0 that JSON Schema 2020-12 does not have, or has with another meaning.

use serde_json::{Map, Value, json};

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
    mut translated: Map<String, Value>,
    keywords: &Map<String, Value>,
) -> Map<String, Value> {
    if keywords.get("nullable") != Some(&Value::Bool(true)) {
        return translated;
    }
    let is_composed = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| translated.contains_key(*key));
    if is_composed {
        let is_annotation = |key: &str| matches!(key, "title" | "description" | "default" | "deprecated");
        let (outer, inner): (Map<_, _>, Map<_, _>) =
            translated.into_iter().partition(|(key, _)| is_annotation(key));
        let mut nullable = outer;
        nullable.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
        return nullable;
    }
    if let Some(Value::String(name)) = translated.get("type") {
        let types = json!([name, "null"]);
        translated.insert("type".to_owned(), types);
    }
    if let Some(Value::Array(values)) = translated.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    translated
}
