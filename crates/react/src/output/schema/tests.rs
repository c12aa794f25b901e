use haft_core::Schema;
use serde_json::{Value, json};

use crate::RunConfig;

/// Returns the output property for `schema`, `text` for a plain text answer, or `object` for an
/// object.
fn declared(schema: Value) -> String {
    let mut config = RunConfig::default();
    config.declare_output(Schema::new(schema).unwrap()).unwrap();
    if config.outputs.is_none() {
        "text".to_owned()
    } else {
        config.output_property.unwrap_or("object".to_owned())
    }
}

#[test]
fn only_objects_are_not_wrapped() {
    for object in [
        json!({"type": "object"}),
        json!({"type": ["object"]}),
        json!({"properties": {"x": {}}}),
        json!({"required": ["x"]}),
        json!({"enum": [{"x": 1}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        json!({"anyOf": [{"type": "object"}, {"properties": {}}]}),
        json!({"allOf": [{"minProperties": 1}, {"type": "object"}]}),
    ] {
        assert_eq!(declared(object.clone()), "object", "{object}");
    }
    for other in [
        json!({}),
        json!({"title": "AnyValue"}),
        json!({"type": "integer"}),
        json!({"type": ["object", "null"]}),
        json!({"anyOf": [{"type": "object"}, {"type": "null"}]}),
        json!({"oneOf": [{"type": "object"}, {"enum": ["a"]}]}),
        json!({"enum": ["a", "b"]}),
        json!({"const": 1}),
        json!({"type": "string", "maxLength": 3}),
        json!({"type": "string", "description": "A city."}),
        json!({"type": "array", "items": {"$ref": "#"}}),
    ] {
        assert_eq!(declared(other.clone()), "response", "{other}");
    }
    assert_eq!(declared(json!({"type": "string", "title": "string"})), "text");
}
