use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(schema: &Value, detail: SchemaDetail, expected: &Expect) {
    let mut derived = grammar_schema(schema, detail);
    let layout = derived.as_object_mut().unwrap().remove("x-guidance");
    assert_eq!(layout.unwrap(), guidance_options());
    expected.assert_eq(&derived.to_string());
}

#[test]
fn undeclared_properties_are_excluded() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}, "b": {"type": "object"}}});
    check(
        &schema,
        SchemaDetail::Full,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"object","properties":{},"additionalProperties":false},"b":{"type":"object"}},"additionalProperties":false,"$defs":{}}"#
        ]],
    );
}

#[test]
fn intersection_is_not_narrowed() {
    let schema = json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]});
    check(
        &schema,
        SchemaDetail::Full,
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
        SchemaDetail::Full,
        &expect![[
            r##"{"properties":{"x":{"$ref":"#/$defs/d0"},"y":{"$ref":"#/$defs/d1"},"z":{"$ref":"#/$defs/d2"}},"additionalProperties":false,"$defs":{"d0":{"type":"array","items":{"$ref":"#/$defs/d0"}},"d1":true,"d2":{"properties":{"x":{"$ref":"#/$defs/d0"},"y":{"$ref":"#/$defs/d1"},"z":{"$ref":"#/$defs/d2"}},"additionalProperties":false}}}"##
        ]],
    );
}

#[test]
fn anchor_is_resolved() {
    let schema = json!({"$defs": {"n": {"$anchor": "node", "type": "null"}}, "items": {"$ref": "#node"}});
    check(
        &schema,
        SchemaDetail::Full,
        &expect![[r##"{"items":{"$ref":"#/$defs/d0"},"$defs":{"d0":{"type":"null"}}}"##]],
    );
}

#[test]
fn chain_of_references_is_truncated() {
    let link =
        |index: usize| (index.to_string(), json!({"items": {"$ref": format!("#/$defs/{}", index + 1)}}));
    let definitions: Map<_, _> = (0..2500).map(link).collect();
    let derived = grammar_schema(&json!({"$defs": definitions, "$ref": "#/$defs/0"}), SchemaDetail::Full);
    let definitions = derived["$defs"].as_object().unwrap();
    assert!(definitions.len() <= MAX_TOTAL_DEPTH, "{}", definitions.len());
    assert_eq!(definitions.values().next_back(), Some(&Value::Bool(true)));
}

#[test]
fn schema_with_undeclared_required_properties_is_open() {
    for keywords in [json!({"required": ["b"]}), json!({"dependentRequired": {"a": ["b"]}})] {
        let mut schema = json!({"properties": {"a": {}}});
        schema.as_object_mut().unwrap().extend(keywords.as_object().unwrap().clone());
        assert_eq!(grammar_schema(&schema, SchemaDetail::Full).get("additionalProperties"), None, "{schema}");
    }
}

#[test]
fn inexact_constant_is_replaced_by_its_type() {
    let large = 9_007_199_254_740_993_u64;
    let schema = json!({"properties": {"a": {"const": large}, "b": {"enum": [large, "x", 1]}, "c": {"const": 9_007_199_254_740_992_u64}}});
    check(
        &schema,
        SchemaDetail::Full,
        &expect![[
            r#"{"properties":{"a":{"type":["integer"]},"b":{"type":["integer","string"]},"c":{"const":9007199254740992}},"additionalProperties":false,"$defs":{}}"#
        ]],
    );
}

#[test]
fn less_detail_has_fewer_keywords() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)", "minLength": 2}}, "required": ["a"], "description": "…"});
    check(
        &schema,
        SchemaDetail::Unpatterned,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"string","minLength":2}},"required":["a"],"description":"…","additionalProperties":false,"$defs":{}}"#
        ]],
    );
    check(
        &schema,
        SchemaDetail::Outline,
        &expect![[
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false,"$defs":{}}"#
        ]],
    );
    check(&schema, SchemaDetail::Root, &expect![[r#"{"type":"object","$defs":{}}"#]]);
}

#[test]
fn layout_of_the_schema_is_ignored() {
    let schema = json!({"type": "object", "x-guidance": {"whitespace_pattern": "(a*)*"}});
    check(&schema, SchemaDetail::Full, &expect![[r#"{"type":"object","$defs":{}}"#]]);
}
