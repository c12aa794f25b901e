//! Tests of [`Schema::find_incompatibility`] with generated values.

use serde_json::{Value, json};

use haft_schema::Schema;
use haft_testing::generate_example;

/// Returns schemas of various kinds. Each schema accepts at least one value.
fn schemas() -> Vec<Value> {
    let object = |properties: Value| {
        let required: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    let mut closed = object(json!({"a": {"type": "integer"}}));
    closed["additionalProperties"] = json!(false);
    let mut referred = object(json!({"a": {"$ref": "#/$defs/a"}}));
    referred["$defs"] = json!({"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}});
    vec![
        json!(true),
        json!({}),
        json!({"type": "null"}),
        json!({"type": "boolean"}),
        json!({"type": "integer", "minimum": 5}),
        json!({"type": "number"}),
        json!({"type": "string"}),
        json!({"type": ["string", "null"]}),
        json!({"enum": ["a", 1, null]}),
        json!({"type": "string", "enum": ["b", "c"]}),
        json!({"const": 2.5}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        object(json!({"a": {"type": "integer"}})),
        object(json!({"a": {"type": "string"}, "b": {}})),
        object(json!({"a": object(json!({"b": {"type": "boolean"}}))})),
        json!({"type": "object", "properties": {"a": {"type": "boolean"}}}),
        json!({"properties": {"a": {"type": "boolean"}}, "required": ["a"]}),
        closed,
        referred,
        json!({"anyOf": [{"type": "integer"}, object(json!({"a": {"type": "string"}}))]}),
        json!({"oneOf": [{"type": "string"}, {"type": "boolean"}]}),
        json!({"type": "object", "allOf": [object(json!({"a": {"type": "integer"}})), object(json!({"b": {}}))]}),
        json!({"not": {"type": "string"}}),
        json!({"if": {"type": "string"}, "then": {"minLength": 3}}),
    ]
}

/// If a schema is incompatible with the schema of a consumer, an example value of the first schema
/// must be invalid for the second. Each schema must be compatible with itself.
#[test]
fn values_of_incompatible_schemas_are_invalid() {
    let schemas: Vec<_> = schemas().into_iter().map(|value| Schema::new(value).unwrap()).collect();
    let mut incompatibilities = 0;
    let both = |mut value: Value, more: &Value| {
        if let (Some(members), Some(more)) = (value.as_object_mut(), more.as_object()) {
            for (name, value) in more {
                members.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        value
    };
    for produced in &schemas {
        assert_eq!(produced.find_incompatibility(produced, None), None, "{produced:?}");
        let Ok(value) = generate_example(produced) else { continue };
        for consumed in &schemas {
            if let Some(incompatibility) = produced.find_incompatibility(consumed, None) {
                incompatibilities += 1;
                // If the producer allows additional members, also test the value with the members
                // that the consumer expects.
                let more =
                    generate_example(consumed).map_or_else(|_| value.clone(), |it| both(value.clone(), &it));
                for value in [&value, &more].into_iter().filter(|it| produced.is_valid(it)) {
                    assert!(
                        !consumed.is_valid(value),
                        "{value} of {produced:?} fits {consumed:?}, but {incompatibility:?}"
                    );
                }
            }
        }
    }
    assert!(incompatibilities > 150, "{incompatibilities}");
}
