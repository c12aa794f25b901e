use expect_test::expect;
use serde_json::{Value, json};

use super::super::{Schema, SchemaFault};

/// The schema of a tool without arguments becomes `{"type":"object","properties":{}}`, even if it
/// is written differently, for example as `{}`.
#[test]
fn root_of_arguments_is_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    let null = json!({"type": ["object", "null"]});
    for given in [json!({"type": "object"}), json!({}), json!(true), null, empty.clone()] {
        assert_eq!(Schema::for_arguments(given).unwrap().as_value().to_string(), empty.to_string());
    }
    let arguments = |given| Schema::for_arguments(given).unwrap().as_value().to_string();
    expect![[r#"{"type":"object","required":["x"],"properties":{"x":{}}}"#]]
        .assert_eq(&arguments(json!({"required": ["x"], "properties": {"x": {}}})));
    expect![[r##"{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{}}}}}"##]]
        .assert_eq(&arguments(json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {}}}}})));
    expect![[r#"{"type":"object","properties":{"x":{"type":"integer"}}}"#]]
        .assert_eq(&arguments(json!({"type": "object", "properties": {"x": {"type": "integer"}}})));
    for bad in [
        json!({"type": "string"}),
        json!(false),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}),
    ] {
        assert_eq!(Schema::for_arguments(bad).unwrap_err().fault(), &SchemaFault::NotAnObject);
    }
    let object = Schema::object();
    assert_eq!(object, Schema::new(empty).unwrap());
    assert!(object.is_valid(&json!({"any": 1})));
    expect!["/: expected object, received array [1]"]
        .assert_eq(&object.validate(&json!([1])).unwrap_err().to_string());
}

/// The type must be added even if the root is a `$ref` of draft-07. Draft-07 ignores all keywords
/// beside a `$ref`, so a `type` there would have no effect.
#[test]
fn draft_07_reference_at_the_root_becomes_an_object() {
    let root = |target: Value| {
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "required": ["ignored"],
            "definitions": {"a": target, "b": {"$ref": "#/definitions/a", "type": "object"}},
        })
    };
    let open = Schema::for_arguments(root(json!({"properties": {"x": {"type": "integer"}}}))).unwrap();
    expect![[r##"{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"properties":{"x":{"type":"integer"}}},"b":{"$ref":"#/definitions/a","type":"object"}}}"##]].assert_eq(&open.as_value().to_string());
    let typed = Schema::for_arguments(root(json!({"type": "object"}))).unwrap();
    expect![[r##"{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","required":["ignored"],"definitions":{"a":{"type":"object"},"b":{"$ref":"#/definitions/a","type":"object"}}}"##]].assert_eq(&typed.as_value().to_string());
    for schema in [open, typed] {
        assert!(schema.is_valid(&json!({"x": 1})));
        assert!(!schema.is_valid(&json!("text")));
        assert_eq!(schema.clone().into_arguments().unwrap(), schema);
    }
    let mut chain = root(json!(true));
    chain["$ref"] = json!("#/definitions/b");
    assert!(!Schema::for_arguments(chain).unwrap().is_valid(&json!("text")));
}
