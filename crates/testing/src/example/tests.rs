use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{generate_example, generate_nth_example};
use haft_core::Schema;

fn check(schema: Value, expected: &Expect) {
    let schema = Schema::new(schema).unwrap();
    let text = match generate_example(&schema) {
        Ok(value) => {
            assert!(schema.is_valid(&value));
            value.to_string()
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
    assert_eq!(generate_example(&schema), generate_example(&schema));
}

#[test]
fn object_has_exactly_the_required_members() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["null", "integer"]}, "c": {}}, "required": ["b", "a"]}),
        &expect![[r#"{"a":"a","b":0}"#]],
    );
    check(json!({"type": "object"}), &expect!["{}"]);
    check(
        json!({"required": ["x"], "additionalProperties": {"type": "boolean"}}),
        &expect![[r#"{"x":false}"#]],
    );
}

#[test]
fn numbers_are_within_their_bounds() {
    check(json!({"type": "integer", "minimum": 3}), &expect!["3"]);
    check(json!({"type": "integer", "exclusiveMinimum": 3, "maximum": 9}), &expect!["4"]);
    check(json!({"type": "integer", "exclusiveMaximum": -3}), &expect!["-4"]);
    check(json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}), &expect!["0.25"]);
    check(json!({"type": "integer", "minimum": 18446744073709551615_u64}), &expect!["18446744073709551615"]);
}

#[test]
fn texts_match_pattern_and_format() {
    check(json!({"type": "string", "minLength": 3, "maxLength": 4}), &expect![[r#""aaa""#]]);
    check(json!({"type": "string", "maxLength": 0}), &expect![[r#""""#]]);
    check(json!({"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}), &expect![[r#""AA-0000""#]]);
    check(
        json!({"type": "string", "pattern": "^arn:aws:(s3|ec2):[^:]*$", "minLength": 20}),
        &expect![[r#""arn:aws:s3:aaaaaaaaaaaaaaaaaaaa""#]],
    );
    check(json!({"type": "string", "pattern": "(a)\\1b", "examples": ["aab"]}), &expect![[r#""aab""#]]);
    for format in
        ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "regex"]
    {
        let schema = Schema::new(json!({"type": "string", "format": format})).unwrap();
        assert!(generate_example(&schema).is_ok(), "{format}");
    }
}

#[test]
fn list_has_the_minimum_of_items() {
    check(
        json!({"items": {"type": "object", "properties": {"x": {"type": "boolean"}, "y": {"enum": [1, 2]}}, "required": ["x", "y"]}, "minItems": 2}),
        &expect![[r#"[{"x":false,"y":1},{"x":false,"y":1}]"#]],
    );
}

#[test]
fn alternatives_are_tried_until_the_value_is_valid() {
    check(json!({"anyOf": [{"type": "string", "pattern": "^(?=a)b$"}, {"type": "integer"}]}), &expect!["0"]);
    check(
        json!({"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string"}]}),
        &expect![[r#""a""#]],
    );
    check(
        json!({"allOf": [{"minimum": 3}, {"type": "integer"}, {"type": "integer", "maximum": 9}]}),
        &expect!["3"],
    );
}

#[test]
fn recursive_schemas_terminate() {
    let node = json!({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]});
    check(json!({"$ref": "#/$defs/node", "$defs": {"node": node}}), &expect![[r#"{"value":0,"next":null}"#]]);
    check(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}}),
        &expect![
            "no example of the schema could be made, at /a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a: the schema requires infinitely nested values"
        ],
    );
}

#[test]
fn unsatisfiable_schema_is_reported_with_its_pointer() {
    check(
        json!({"type": "object", "properties": {"x": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["x"]}),
        &expect![[
            r#"no example of the schema could be made, at /x: no value was found for {"type":"integer"} and {"minimum":3,"maximum":2}"#
        ]],
    );
    check(
        json!({"allOf": [{"const": 1}, {"const": 2}]}),
        &expect!["no example of the schema could be made, at /: no value satisfies every `enum` and `const`"],
    );
}

/// A schema from an untrusted server can require a value that does not fit into memory. Generation
/// must fail with an error for such a schema.
#[test]
fn oversized_examples_are_rejected() {
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1_000});
    let text = json!({"type": "string", "minLength": 100_000});
    let huge = json!({"type": "array", "minItems": 1_000_000_000_000_u64});
    for schema in [huge, list(list(list(json!({"type": "null"})))), list(text.clone())] {
        let reason = generate_example(&Schema::new(schema).unwrap()).unwrap_err().to_string();
        assert!(reason.ends_with("the example would be too large"), "{reason}");
    }
    // A large but realistic schema must still get an example.
    let value = generate_example(&Schema::new(list(json!({"type": "integer"}))).unwrap()).unwrap();
    assert_eq!(value.as_array().map(Vec::len), Some(1_000));
    assert!(generate_example(&Schema::new(text).unwrap()).is_ok());
}

#[test]
fn each_number_gives_another_example() {
    let schema =
        Schema::new(json!({"oneOf": [{"const": "x"}, {"type": "integer"}, {"type": "null"}]})).unwrap();
    let values: Vec<_> = (0..4).map(|number| generate_nth_example(&schema, number).unwrap()).collect();
    assert_eq!(values, [json!("x"), json!(0), json!(null), json!("x")]);
}
