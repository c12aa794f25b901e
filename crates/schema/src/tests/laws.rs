//! Property tests of this crate's internals, with generated schemas and values. The property tests
//! of the public API are in the package `fuzz`.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;

/// Generates deeply nested JSON with few different keys and values. Many of the generated values
/// are schemas, or are valid for a generated schema.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(3.0), Just(1e300)].prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "3",
            "true",
            "null",
            "{}",
            "[1]",
            "{\"a\":\"3\"}",
            "object",
            "integer",
            "#",
            "#/$defs/a",
            "#a"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "a",
            "b",
            "args",
            "input",
            "type",
            "properties",
            "items",
            "required",
            "$ref",
            "$defs",
            "allOf",
            "anyOf",
            "not",
            "enum",
            "const",
            "additionalProperties",
            "$id",
            "$anchor",
            "$schema",
            "minimum",
            "pattern",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.prop_map(str::to_owned), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Generates a schema that can be compiled.
fn valid_schema() -> impl Strategy<Value = Value> {
    let kind =
        prop::sample::select(vec!["string", "integer", "number", "boolean", "null", "array", "object"]);
    let leaf = prop_oneof![
        kind.prop_map(|kind| json!({"type": kind})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"enum": [1, "a", null, true]})),
        Just(json!({"const": 3})),
        Just(json!({"$ref": "#/$defs/node"})),
        Just(json!({"$ref": "#/$defs/tree"})),
        Just(json!({"$ref": "#/$defs/tree/anyOf/1/properties/b"})),
        any::<bool>().prop_map(Value::from),
    ];
    let schema = leaf.prop_recursive(3, 16, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            parts().prop_map(|parts| json!({"anyOf": parts})),
            parts().prop_map(|parts| json!({"oneOf": parts})),
            parts().prop_map(|parts| json!({"allOf": parts})),
            inner.clone().prop_map(|part| json!({"not": part})),
            inner.clone().prop_map(|part| json!({"type": "array", "items": part})),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, is_closed)| json!({
                "type": "object", "properties": {"a": a, "b": b}, "required": ["a"], "additionalProperties": !is_closed,
            })),
        ]
    });
    schema.prop_map(|schema| {
        let node = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "integer"}}});
        let tree = json!({"anyOf": [
            {"properties": {"a": {"const": "a"}, "b": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
            {"properties": {"a": {"enum": ["3"]}, "b": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/node"}]}}},
            {"type": ["integer", "null"]},
        ]});
        json!({"allOf": [schema], "$defs": {"node": node, "tree": tree}})
    })
}

proptest! {
    #[test]
    fn metering_does_not_change_the_result(schema in valid_schema(), value in json_value(), levels in 0..12) {
        let value = (0..levels).fold(value, |inner, _| json!({"a": inner, "b": inner}));
        let plain = jsonschema::validator_for(&schema).unwrap().is_valid(&value);
        let metered = metered_validator::compile(&schema, jsonschema::Draft::Draft202012).unwrap();
        if let Some(is_valid) = cost::with_budget(10_000_000, || metered.is_valid(&value)) {
            prop_assert_eq!(is_valid, plain);
        }
        prop_assert_eq!(Schema::new(schema).unwrap().validate(&value).is_ok(), plain);
    }

    #[test]
    fn union_guards_do_not_change_the_result(schema in valid_schema(), value in json_value()) {
        if let Some(guarded) = union_guards::with_guards(&schema) {
            let (schema, guarded) = (Schema::new(schema).unwrap(), Schema::new(guarded).unwrap());
            prop_assert_eq!(guarded.is_valid(&value), schema.is_valid(&value));
        }
    }

    #[test]
    fn canonical_text_differs_only_in_the_order_of_keys(members in prop::collection::vec(("[a-d]", json_value()), 0..4)) {
        let forward: Map<String, Value> = members.clone().into_iter().collect();
        let mut backward = Map::new();
        for (key, value) in forward.iter().rev() {
            backward.insert(key.clone(), value.clone());
        }
        let text = canonical_json(&Value::Object(forward.clone()));
        prop_assert_eq!(&text, &canonical_json(&Value::Object(backward)));
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::Object(forward));
    }

    #[test]
    fn any_pattern_is_estimated_without_panic(text in "[\\\\(){}\\[\\]a-c0-9,.*+?|^$pPß]{0,40}") {
        drop(Schema::new(json!({"pattern": text})));
    }
}
