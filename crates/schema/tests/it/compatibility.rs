//! What an incompatibility means.

use serde_json::{Value, json};

use haft_schema::Schema;
use haft_testing::example;

/// Schemas of many kinds, of which each has values.
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

/// What is said never to fit does not, and a schema fits itself.
#[test]
fn a_value_of_a_misfit_does_not_fit() {
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
    for given in &schemas {
        assert_eq!(given.incompatibility(given, None), None, "{given:?}");
        let Ok(value) = example(given) else { continue };
        for asked in &schemas {
            if let Some(incompatibility) = given.incompatibility(asked, None) {
                incompatibilities += 1;
                // Nor one with more members, where these are allowed.
                let more = example(asked).map_or_else(|_| value.clone(), |it| both(value.clone(), &it));
                for value in [&value, &more].into_iter().filter(|it| given.is_valid(it)) {
                    assert!(
                        !asked.is_valid(value),
                        "{value} of {given:?} fits {asked:?}, but {incompatibility:?}"
                    );
                }
            }
        }
    }
    assert!(incompatibilities > 150, "{incompatibilities}");
}
