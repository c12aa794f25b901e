use expect_test::expect;
use serde_json::json;

use super::super::{Schema, SchemaFault};

/// BEHAVIOUR A7.
#[test]
fn a_root_of_arguments_is_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    for given in [json!({"type": "object"}), json!({}), json!({"type": ["object", "null"]}), empty.clone()] {
        assert_eq!(Schema::arguments(given).unwrap().as_value().to_string(), empty.to_string());
    }
    let arguments = |given| Schema::arguments(given).unwrap().as_value().to_string();
    expect![[r#"{"type":"object","required":["x"],"properties":{"x":{}}}"#]]
        .assert_eq(&arguments(json!({"required": ["x"], "properties": {"x": {}}})));
    expect![[r##"{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{}}}}}"##]]
        .assert_eq(&arguments(json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {}}}}})));
    expect![[r#"{"type":"object","properties":{"x":{"type":"integer"}}}"#]]
        .assert_eq(&arguments(json!({"type": "object", "properties": {"x": {"type": "integer"}}})));
    for bad in [
        json!({"type": "string"}),
        json!(true),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}),
    ] {
        assert_eq!(Schema::arguments(bad).unwrap_err().fault(), &SchemaFault::NotAnObject);
    }
    let object = Schema::object();
    assert_eq!(object, Schema::new(empty).unwrap());
    assert!(object.is_valid(&json!({"any": 1})));
    expect!["/: expected object, received array [1]"]
        .assert_eq(&object.validate(&json!([1])).unwrap_err().to_string());
}
