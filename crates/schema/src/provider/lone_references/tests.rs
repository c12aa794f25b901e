use serde_json::{Value, json};

use crate::{Schema, SchemaTarget};

#[track_caller]
fn check(property: &Value, expected: &Value, changes: &[&str]) {
    let root =
        |property: &Value| json!({"type": "object", "properties": {"a": property}, "$defs": {"b": {}}});
    let derived = Schema::new(root(property)).unwrap().for_provider(SchemaTarget::GeminiJsonSchema);
    assert_eq!(derived.value, root(expected));
    let found: Vec<_> = derived.changes.iter().map(ToString::to_string).collect();
    assert_eq!(found, changes);
}

#[test]
fn reference_with_other_keywords_is_moved_into_an_any_of() {
    let alone = json!({"$ref": "#/$defs/b"});
    check(&alone, &alone, &[]);
    check(
        &json!({"$ref": "#/$defs/b", "description": "A b."}),
        &json!({"description": "A b.", "anyOf": [{"$ref": "#/$defs/b"}]}),
        &[],
    );
    check(
        &json!({"type": "array", "items": {"$ref": "#/$defs/b", "default": 1}}),
        &json!({"type": "array", "items": {"default": 1, "anyOf": [{"$ref": "#/$defs/b"}]}}),
        &[],
    );
    check(
        &json!({"$ref": "#/$defs/b", "anyOf": [{"minimum": 1}, {"maximum": 0}]}),
        &json!({"anyOf": [{"minimum": 1}, {"maximum": 0}]}),
        &["`$ref` at /properties/a: left out"],
    );
}

/// Data is no schema, and a property can have any name.
#[test]
fn data_and_names_are_unchanged() {
    let data = json!({"const": {"$ref": "#/$defs/b", "x": 1}});
    check(&data, &data, &[]);
    let named = json!({"properties": {"$ref": {"type": "string"}, "x": {}}});
    check(&named, &named, &[]);
}
