use super::*;
use crate::{Schema, SchemaTarget};

/// Returns the schema of the property `p`, derived for `target`, and the changes.
#[track_caller]
fn derive(target: SchemaTarget, property: &Value) -> (Value, Vec<String>) {
    let mut schema = json!({"properties": {"p": property}});
    if property.get("items").is_some_and(Value::is_array) {
        schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    }
    let schema = Schema::for_arguments(schema).unwrap();
    let derived = schema.for_provider(target);
    Schema::new(derived.value.clone()).unwrap();
    let changes = derived.changes.iter().map(ToString::to_string).collect();
    (derived.value["properties"]["p"].clone(), changes)
}

#[track_caller]
fn check(target: SchemaTarget, property: &Value, expected: &Value, changes: &[&str]) {
    let (value, reported) = derive(target, property);
    assert_eq!(&value, expected, "{property}");
    assert_eq!(reported, changes, "{property}");
}

#[test]
fn every_array_has_items() {
    let (string, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    let either = json!({"anyOf": [string, integer]});
    for (property, expected, changes) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {}}), vec![]),
        (json!({"type": ["array", "null"]}), json!({"type": ["array", "null"], "items": {}}), vec![]),
        (json!({"type": "array", "items": true}), json!({"type": "array", "items": {}}), vec![]),
        (
            json!({"type": "array", "items": false}),
            json!({"type": "array", "items": {}, "maxItems": 0}),
            vec![],
        ),
        (
            json!({"type": "array", "prefixItems": [string, integer], "minItems": 2, "maxItems": 2}),
            json!({"type": "array", "prefixItems": [string, integer], "minItems": 2, "maxItems": 2, "items": either}),
            vec![],
        ),
        (
            json!({"type": "array", "prefixItems": [string, integer], "items": false}),
            json!({"type": "array", "prefixItems": [string, integer], "items": either, "maxItems": 2}),
            vec![],
        ),
        (
            json!({"type": "array", "items": [string, integer]}),
            json!({"type": "array", "items": either, "prefixItems": [string, integer]}),
            vec!["`items` at /properties/p: sent as `anyOf`, so that several alternatives may fit"],
        ),
        (
            json!({"type": "array", "items": [string], "additionalItems": integer}),
            json!({"type": "array", "items": either, "prefixItems": [string]}),
            vec!["`items` at /properties/p: sent as `anyOf`, so that several alternatives may fit"],
        ),
        (
            json!({"type": "array", "items": [string, string], "additionalItems": false}),
            json!({"type": "array", "items": string, "maxItems": 2, "prefixItems": [string, string]}),
            vec![],
        ),
        (
            json!({"anyOf": [{"type": "array"}, {"type": "object", "properties": {"q": {"type": "array"}}}]}),
            json!({"anyOf": [
                {"type": "array", "items": {}},
                {"type": "object", "properties": {"q": {"type": "array", "items": {}}}},
            ]}),
            vec![],
        ),
    ] {
        check(SchemaTarget::OpenAi, &property, &expected, &changes);
    }
}

#[test]
fn arrays_in_definitions_and_replies_have_items() {
    let schema = json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/list"}},
        "$defs": {"list": {"type": "array"}},
    });
    let schema = Schema::new(schema).unwrap();
    for derived in [schema.for_provider(SchemaTarget::OpenAi), schema.for_reply(SchemaTarget::OpenAi)] {
        assert_eq!(derived.value["$defs"]["list"], json!({"type": "array", "items": {}}));
    }
    let union = Schema::new(json!({"anyOf": [{"type": "array"}, true]})).unwrap();
    let derived = union.for_reply(SchemaTarget::OpenAi);
    assert_eq!(derived.value, json!({"anyOf": [{"type": "array", "items": {}}, {}]}));
}

#[test]
fn no_subschema_is_a_boolean() {
    for (property, expected) in [
        (json!(true), json!({})),
        (json!({"anyOf": [true, {"type": "string"}]}), json!({"anyOf": [{}, {"type": "string"}]})),
        (json!({"anyOf": [false, {"type": "string"}]}), json!({"anyOf": [{"type": "string"}]})),
        (json!({"not": true}), json!({"not": {}})),
        (
            json!({"type": "object", "properties": {"q": false, "r": true, "s": false}, "required": ["s"],
                   "additionalProperties": false}),
            json!({"type": "object", "properties": {"r": {}, "s": {"not": {}}}, "required": ["s"],
                   "additionalProperties": false}),
        ),
        // Not a schema, but a value.
        (json!({"const": {"items": true}}), json!({"const": {"items": true}})),
        (json!({"default": [true], "enum": [[true]]}), json!({"default": [true], "enum": [[true]]})),
    ] {
        let (value, _) = derive(SchemaTarget::OpenAi, &property);
        assert_eq!(value, expected, "{property}");
    }
}

#[test]
fn moonshot_has_types_in_alternatives() {
    let (string, nothing) = (json!({"type": "string"}), json!({"type": "null"}));
    for (property, expected) in [
        (
            json!({"type": "object", "anyOf": [{"required": ["a"]}, {"properties": {"b": string}}]}),
            json!({"anyOf": [
                {"required": ["a"], "type": "object"},
                {"properties": {"b": string}, "type": "object"},
            ]}),
        ),
        (
            json!({"type": ["string", "null"], "minLength": 1, "description": "A name."}),
            json!({"description": "A name.", "anyOf": [{"type": "string", "minLength": 1}, nothing]}),
        ),
        (
            json!({"type": ["string", "null"], "anyOf": [string, nothing]}),
            json!({"anyOf": [string, nothing]}),
        ),
        (json!({"type": ["string"]}), string.clone()),
        (
            json!({"oneOf": [string, {"enum": [1, 2]}]}),
            json!({"anyOf": [string, {"enum": [1, 2], "type": "integer"}]}),
        ),
        (
            json!({"anyOf": [string, {"type": ["integer", "null"]}]}),
            json!({"anyOf": [string, {"anyOf": [{"type": "integer"}, nothing]}]}),
        ),
        (
            json!({"type": "array", "items": {"type": ["array", "null"], "items": string}}),
            json!({"type": "array", "items": {"anyOf": [{"type": "array", "items": string}, nothing]}}),
        ),
        (
            json!({"type": "array", "prefixItems": [string, nothing]}),
            json!({"type": "array", "items": {"anyOf": [string, nothing]}}),
        ),
        (
            json!({"type": ["object", "null"], "properties": {"a": string}, "required": ["a"]}),
            json!({"anyOf": [{"type": "object", "properties": {"a": string}, "required": ["a"]}, nothing]}),
        ),
    ] {
        let (value, _) = derive(SchemaTarget::Moonshot, &property);
        assert_eq!(value, expected, "{property}");
    }
    let schema = json!({
        "properties": {"p": {"$ref": "#/$defs/name", "description": "A name."}, "q": {"$ref": "#/$defs/name"}},
        "$defs": {"name": string},
    });
    let derived = Schema::for_arguments(schema).unwrap().for_provider(SchemaTarget::Moonshot);
    let name = json!({"$ref": "#/$defs/name"});
    assert_eq!(
        derived.value["properties"],
        json!({"p": {"description": "A name.", "anyOf": [name]}, "q": name})
    );
}

/// Each alternative has the constants of its type only.
#[test]
fn constants_are_in_the_alternative_of_their_type() {
    for (property, expected) in [
        (
            json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
            json!({"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}),
        ),
        (
            json!({"type": ["string", "integer"], "enum": ["a", 1]}),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}]}),
        ),
        (
            json!({"type": ["string", "null"], "enum": ["a"]}),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}]}),
        ),
    ] {
        assert_eq!(derive(SchemaTarget::Moonshot, &property).0, expected, "{property}");
    }
}
