mod cost;
mod laws;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn schema(value: Value) -> Schema {
    Schema::new(value).unwrap()
}

/// Validates `value`, and compares the displayed text of its violations with `expected`.
#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check(schema_value: Value, value: Value, expected: Expect) {
    let violations = schema(schema_value).validate(&value).unwrap_err();
    expected.assert_eq(&violations.to_string());
}

fn add_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    })
}

/// A violation contains the JSON pointer, the expected type and the received value.
#[test]
fn violation_has_pointer_expected_and_received() {
    check(add_schema(), json!({"x": "abc"}), expect![[r#"/x: expected integer, received string "abc""#]]);
}

/// All violations of a value are listed at once.
#[test]
fn all_violations_are_listed() {
    check(
        add_schema(),
        json!({"x": true, "y": [1]}),
        expect![[r#"
        /x: expected integer, received boolean true
        /y: expected integer, received array [1]"#]],
    );
    check(add_schema(), json!([1]), expect!["/: expected object, received array [1]"]);
}

/// `3.0` is valid for the type `integer`, but `true` and `3.5` are not.
#[test]
fn integer_accepts_numbers_without_fraction() {
    let schema = schema(add_schema());
    assert!(schema.is_valid(&json!({"x": 3.0})));
    assert!(!schema.is_valid(&json!({"x": true})));
    assert!(!schema.is_valid(&json!({"x": 3.5})));
    assert!(!schema.is_valid(&json!({"x": "3"})));
}

/// The violation for a missing argument contains the name and the type of the argument.
#[test]
fn missing_property_is_named_with_type() {
    check(add_schema(), json!({"y": 1}), expect![[r#"/: missing required property "x" (integer)"#]]);
    check(json!({"required": ["x"]}), json!({}), expect![[r#"/: missing required property "x""#]]);
    check(
        json!({"properties": {"p": {"$ref": "#/$defs/p"}}, "required": ["p"], "$defs": {"p": {"type": ["string", "null"]}}}),
        json!({}),
        expect![[r#"/: missing required property "p" (string or null)"#]],
    );
}

/// A schema from a server is used as written, with `$defs` or `definitions`, recursive `$ref`s and
/// its exact `required`. The `$schema` keyword selects draft-07.
#[test]
fn dialect_is_taken_from_schema_keyword() {
    let draft_07 = schema(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n", "minimum": 5}},
    }));
    assert!(draft_07.is_valid(&json!({"n": 1})), "draft-07 ignores the siblings of `$ref`");
    let current = schema(json!({
        "definitions": {"n": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n", "minimum": 5}},
    }));
    assert!(!current.is_valid(&json!({"n": 1})));
    assert!(!current.is_valid(&json!({"n": "a"})));
    assert!(
        schema(json!({"properties": {"n": {"type": ["integer", "null"]}}})).is_valid(&json!({"n": null}))
    );
    let tuple =
        schema(json!({"$schema": "https://json-schema.org/draft-07/schema", "items": [{"type": "string"}]}));
    assert!(!tuple.is_valid(&json!([1])));
    assert!(schema(json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})).is_valid(&json!(1)));
}

/// Recursive `$ref`s are resolved by JSON pointer, by anchor and by `$dynamicRef`.
#[test]
fn references_within_the_document_are_followed() {
    let tree = schema(json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["value"],
        }},
    }));
    assert!(tree.is_valid(&json!({"value": 1, "children": [{"value": 2}]})));
    let violations = tree.validate(&json!({"value": 1, "children": [{"value": "a"}, {}]})).unwrap_err();
    expect![[r#"
        /children/0/value: expected integer, received string "a"
        /children/1: missing required property "value" (integer)"#]]
    .assert_eq(&violations.to_string());

    let own = schema(json!({"properties": {"next": {"$ref": "#"}}, "required": ["v"]}));
    assert!(own.is_valid(&json!({"v": 1, "next": {"v": 2}})));
    assert!(!own.is_valid(&json!({"v": 1, "next": {}})));

    let anchored =
        schema(json!({"$defs": {"x": {"$anchor": "word", "type": "string"}}, "items": {"$ref": "#word"}}));
    assert!(anchored.is_valid(&json!(["a"])));
    assert!(!anchored.is_valid(&json!([1])));

    let dynamic = schema(json!({
        "$dynamicAnchor": "node", "type": "object", "additionalProperties": {"$dynamicRef": "#node"},
    }));
    assert!(dynamic.is_valid(&json!({"a": {"b": {}}})));
    assert!(!dynamic.is_valid(&json!({"a": {"b": 1}})));

    let by_id = schema(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"x": {"$id": "#word", "type": "string"}},
        "items": {"$ref": "#word"},
    }));
    assert!(!by_id.is_valid(&json!([1])));

    let encoded =
        schema(json!({"$defs": {"a b/c": {"type": "string"}}, "items": {"$ref": "#/$defs/a%20b~1c"}}));
    assert!(!encoded.is_valid(&json!([1])));
    assert!(encoded.is_valid(&json!(["a"])));
}

/// A value nested deeper than 100 levels must be invalid. This limit is below the 127 levels of
/// `serde_json`, so each valid value can be parsed again from its JSON text.
#[test]
fn value_deeper_than_100_levels_is_invalid() {
    let tree = schema(json!({"additionalProperties": {"$ref": "#"}}));
    let nested = |levels| (1..levels).fold(json!({}), |inner, _| json!({"x": inner}));
    assert!(tree.is_valid(&nested(100)));
    let violations = tree.validate(&nested(101)).unwrap_err();
    expect!["/: expected a value nested at most 100 levels deep, received a deeper one"]
        .assert_eq(&violations.to_string());
}

#[test]
fn properties_have_schema_and_required_flag() {
    let schema = schema(json!({"$ref": "#/$defs/a", "$defs": {"a": add_schema()}}));
    let properties = schema.properties().map(|Property { name, schema, is_required: required }| {
        format!("{name} {schema}{}", if required { " required" } else { "" })
    });
    expect![[r#"
        x {"type":"integer"} required
        y {"type":"integer","default":0}"#]]
    .assert_eq(&properties.collect::<Vec<_>>().join("\n"));
}

#[test]
fn schema_serializes_as_its_json() {
    let given = r#"{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}}"#;
    let schema: Schema = serde_json::from_str(given).unwrap();
    assert_eq!(serde_json::to_string(&schema).unwrap(), given);
    let reordered = json!({"properties": {"x": {"type": "integer"}}, "required": ["x"], "type": "object"});
    assert_eq!(schema, Schema::new(reordered).unwrap());
    assert_ne!(schema, Schema::object());
    let error = serde_json::from_str::<Schema>(r#"{"$ref":"http://example.com"}"#).unwrap_err();
    expect![[r#"invalid schema at /$ref: reference "http://example.com" leaves the document: only `#`, `#/...` and `#name` are followed"#]].assert_eq(&error.to_string());
}

#[test]
fn clones_share_the_validator() {
    let schema = schema(add_schema());
    assert!(std::ptr::eq(schema.as_value(), schema.clone().as_value()));
}

/// A `$ref` may point to a schema below a keyword that the dialect does not define. The compiler
/// does not check this schema, so it must be validated against the meta-schema separately.
#[test]
fn reference_targets_are_validated_against_the_meta_schema() {
    let error = |value| Schema::new(value).unwrap_err().to_string();
    let target = json!({"properties": {"x": {"uniqueItems": "array"}}});
    expect![[r#"invalid schema at /additionalItems/properties/x/uniqueItems: expected boolean, received string "array""#]]
        .assert_eq(&error(json!({"items": {"$ref": "#/additionalItems"}, "additionalItems": target})));
    expect![[
        r#"invalid schema at /x-parts/0/properties/x/uniqueItems: expected boolean, received string "array""#
    ]]
    .assert_eq(&error(json!({"$ref": "#/x-parts/0", "x-parts": [target]})));
    let seventh = "http://json-schema.org/draft-07/schema#";
    expect![[
        r#"invalid schema at /$defs/x/properties/x/uniqueItems: expected boolean, received string "array""#
    ]]
    .assert_eq(&error(json!({"$schema": seventh, "items": {"$ref": "#/$defs/x"}, "$defs": {"x": target}})));
}

/// A schema with custom limits may exceed the default limits. `into_arguments` must not check the
/// default limits again.
#[test]
fn into_arguments_keeps_custom_limits() {
    let many: serde_json::Map<_, _> = (0..12_000).map(|number| (number.to_string(), json!(true))).collect();
    let limits = SchemaLimits { nodes: 20_000, ..SchemaLimits::default() };
    let schema = Schema::with_limits(json!({"properties": many}), &limits).unwrap().into_arguments().unwrap();
    assert_eq!(schema.as_value()["type"], "object");
    assert!(!schema.is_valid(&json!([])));
}
