use serde_json::json;

use super::{EmbeddedSchema, Schema};

#[test]
fn properties_named_like_keywords_are_not_keywords() {
    let schema = json!({
        "properties": {
            "default": {"$ref": "#/$defs/enum"},
            "$ref": {"type": "string", "default": {"$ref": "#/as/it/is"}},
        },
        "$defs": {"enum": {"anyOf": [{"$ref": "#"}, {"const": {"$ref": "#"}}]}},
    });
    let embedded = Schema::new(schema).unwrap().embedded_at("#/$defs/tool");
    let expected = json!({
        "properties": {
            "default": {"$ref": "#/$defs/tool/$defs/enum"},
            "$ref": {"type": "string", "default": {"$ref": "#/as/it/is"}},
        },
        "$defs": {"enum": {"anyOf": [{"$ref": "#/$defs/tool"}, {"const": {"$ref": "#"}}]}},
    });
    assert_eq!(embedded, EmbeddedSchema { schema: expected, has_references: true, has_anchors: false });
}

#[test]
fn anchors_set_has_names() {
    let has_names = |schema| Schema::new(schema).unwrap().embedded_at("#/x").has_anchors;
    assert!(has_names(json!({"$defs": {"a": {"$anchor": "a"}}, "items": {"$ref": "#a"}})));
    assert!(!has_names(json!({"properties": {"$anchor": {"type": "string"}}})));
}
