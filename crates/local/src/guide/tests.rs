use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(schema: &Value, detail: Detail, expected: &Expect) {
    let mut guided = guide(schema, detail);
    let layout = guided.as_object_mut().unwrap().remove("x-guidance");
    assert_eq!(layout.unwrap(), super::layout());
    expected.assert_eq(&guided.to_string());
}

#[test]
fn declared_properties_are_the_only_ones() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}, "b": {"type": "object"}}});
    check(
        &schema,
        Detail::Full,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"object","properties":{},"additionalProperties":false},"b":{"type":"object"}},"additionalProperties":false,"$defs":{}}"#
        ]],
    );
}

#[test]
fn an_intersection_is_not_narrowed() {
    let schema = json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]});
    check(
        &schema,
        Detail::Full,
        &expect![[r#"{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"$defs":{}}"#]],
    );
}

#[test]
fn references_get_names_without_escapes() {
    let schema = json!({
        "$defs": {"a/b": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}},
        "properties": {"x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#nowhere"}, "z": {"$ref": "#"}},
    });
    check(
        &schema,
        Detail::Full,
        &expect![[
            r##"{"properties":{"x":{"$ref":"#/$defs/d0"},"y":{"$ref":"#/$defs/d1"},"z":{"$ref":"#/$defs/d2"}},"additionalProperties":false,"$defs":{"d2":{"properties":{"x":{"$ref":"#/$defs/d0"},"y":{"$ref":"#/$defs/d1"},"z":{"$ref":"#/$defs/d2"}},"additionalProperties":false},"d0":{"type":"array","items":{"$ref":"#/$defs/d0"}},"d1":true}}"##
        ]],
    );
}

#[test]
fn less_detail_says_less() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)", "minLength": 2}}, "required": ["a"], "description": "…"});
    check(
        &schema,
        Detail::Unpatterned,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"string","minLength":2}},"required":["a"],"description":"…","additionalProperties":false,"$defs":{}}"#
        ]],
    );
    check(
        &schema,
        Detail::Outline,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false,"$defs":{}}"#
        ]],
    );
    check(&schema, Detail::Root, &expect![[r#"{"type":"object","$defs":{}}"#]]);
}

#[test]
fn a_foreign_layout_does_not_steer() {
    let schema = json!({"type": "object", "x-guidance": {"whitespace_pattern": "(a*)*"}});
    check(&schema, Detail::Full, &expect![[r#"{"type":"object","$defs":{}}"#]]);
}
