//! Tests of schemas derived for Anthropic's strict mode.

use expect_test::expect;
use haft_schema::{Schema, SchemaTarget::AnthropicStrict};
use serde_json::json;

use super::check_target;

/// Optional properties remain optional, and unsupported constraints become notes.
#[test]
fn optional_properties_remain_optional() {
    check_target(
        AnthropicStrict,
        json!({"properties": {
            "a": {"type": "integer", "minimum": 1, "description": "Number of results."},
            "b": {"enum": ["x", null]},
            "c": {"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 1, "maxItems": 3},
            "d": {"type": "string", "pattern": "^a"},
            "e": {"oneOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
            "f": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        }, "required": ["c", "a"], "$defs": {"n": {"properties": {"x": {"const": 1}}}}}),
        &expect![[r##"
            {"type":"object","properties":{"a":{"description":"Number of results. (minimum: 1)","type":"integer"},"b":{"type":["string","null"],"enum":["x",null]},"c":{"description":"maxItems: 3","type":"array","minItems":1,"items":{"type":"string","format":"uri"}},"d":{"description":"pattern: \"^a\"","type":"string"},"e":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]},"f":{"description":"minItems: 2","type":"array","items":{"type":"number"}}},"required":["a","c"],"additionalProperties":false,"$defs":{"n":{"type":"object","properties":{"x":{"type":"integer","const":1}},"required":[],"additionalProperties":false}}}, strict
            `minimum` at /properties/a: stated only in the description
            `maxItems` at /properties/c: stated only in the description
            `pattern` at /properties/d: stated only in the description
            `oneOf` at /properties/e: sent as `anyOf`, so that several alternatives may fit
            `minItems` at /properties/f: stated only in the description
            `type` at /$defs/n: derived from the other keywords"##]],
    );
}

/// Recursive schemas, maps and tuples have no strict form.
#[test]
fn recursive_schemas_are_not_strict() {
    let tree = json!({"properties": {"at": {"$ref": "#/$defs/tree"}}, "$defs": {
        "tree": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}},
    }});
    check_target(
        AnthropicStrict,
        tree,
        &expect![[r#"
        as given, not strict
        `$ref` at /: not strict, since the schema is recursive"#]],
    );
    check_target(
        AnthropicStrict,
        json!({"properties": {"a": {"$ref": "#/$defs/s"}, "b": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "string"}}}),
        &expect![[
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/s"},"b":{"$ref":"#/$defs/s"}},"required":[],"additionalProperties":false,"$defs":{"s":{"type":"string"}}}, strict"##
        ]],
    );
    for schema in [
        json!({"properties": {"self": {"$ref": "#"}}}),
        json!({"additionalProperties": {"type": "string"}}),
        json!({"properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}}}),
    ] {
        let derived = Schema::for_arguments(schema.clone()).unwrap().for_provider(AnthropicStrict);
        assert!(!derived.is_strict && derived.strict_obstacle().is_some(), "{schema}");
    }
}
