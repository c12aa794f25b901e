use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};

use super::super::Schema;

fn schema(value: Value) -> Schema {
    Schema::new(value).unwrap()
}

/// Validates `value`, and compares the displayed text of its violations with `expected`.
#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check(schema_value: Value, value: Value, expected: Expect) {
    let violations = schema(schema_value).validate(&value).unwrap_err();
    expected.assert_eq(&violations.to_string());
}

/// The violation for an unknown property lists the declared properties and suggests a similar name.
#[test]
fn unknown_property_is_listed_with_known_properties() {
    let closed = json!({
        "type": "object",
        "properties": {"color": {"type": "string"}, "size": {"type": "integer"}},
        "additionalProperties": false,
    });
    check(
        closed.clone(),
        json!({"colour": "red"}),
        expect![[r#"/: unknown property "colour", did you mean "color"? known properties: "color", "size""#]],
    );
    check(
        closed,
        json!({"weight": 1, "size": 2, "x": 3}),
        expect![[r#"
        /: unknown property "weight"; known properties: "color", "size"
        /: unknown property "x"; known properties: "color", "size""#]],
    );
    check(
        json!({"additionalProperties": false}),
        json!({"a": 1, "b": 2}),
        expect![[r#"
        /: unknown property "a"; no properties are known
        /: unknown property "b"; no properties are known"#]],
    );
    check(
        json!({
            "allOf": [{"properties": {"color": {}}}, {"$ref": "#/$defs/sized"}],
            "unevaluatedProperties": false,
            "$defs": {"sized": {"properties": {"size": {}}}},
        }),
        json!({"colour": 1}),
        expect![[r#"/: unknown property "colour", did you mean "color"? known properties: "color", "size""#]],
    );
    let open = schema(json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}));
    assert!(open.is_valid(&json!({"b": "x"})));
    assert!(!open.is_valid(&json!({"b": 1})));
}

/// A reference to a `false` schema rejects the whole object, and not only its properties. There
/// must be a violation even if the object is empty.
#[test]
fn value_rejected_by_false_is_a_violation() {
    check(
        json!({"allOf": [{"$ref": "#/additionalProperties"}], "additionalProperties": false}),
        json!({}),
        expect!["/: expected no value here, received object {}"],
    );
}

/// The violation for a value that is not in the `enum` lists the allowed values.
#[test]
fn allowed_values_are_listed() {
    check(
        json!({"enum": ["red", "green", 3, null]}),
        json!("blue"),
        expect![[r#"/: expected one of "red", "green", 3, null, received string "blue""#]],
    );
    check(
        json!({"enum": (0..100).collect::<Vec<_>>()}),
        json!("blue"),
        expect![[
            r#"/: expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, … (100 in all), received string "blue""#
        ]],
    );
    check(
        json!({"type": "string", "enum": ["a"]}),
        json!(1),
        expect![[r#"/: expected "a", received integer 1"#]],
    );
    check(
        json!({"const": {"a": 1}}),
        json!({"a": 2}),
        expect![[r#"/: expected {"a":1}, received object {"a":2}"#]],
    );
}

/// Every keyword of a schema is enforced, and has its own message.
#[test]
fn every_keyword_has_a_message() {
    let cases = [
        (json!({"format": "date-time"}), json!("yesterday")),
        (json!({"format": "email"}), json!("unknown")),
        (json!({"format": "uuid"}), json!("1")),
        (json!({"format": "regex"}), json!("(")),
        (json!({"pattern": "^[a-z]+$"}), json!("A1")),
        (json!({"minimum": 0}), json!(-1)),
        (json!({"maximum": 10}), json!(10.5)),
        (json!({"exclusiveMinimum": 0}), json!(0)),
        (json!({"exclusiveMaximum": 1}), json!(1)),
        (json!({"multipleOf": 5}), json!(7)),
        (json!({"minLength": 3}), json!("äß")),
        (json!({"maxLength": 1}), json!("ab")),
        (json!({"minItems": 1}), json!([])),
        (json!({"maxItems": 1}), json!([1, 2])),
        (json!({"uniqueItems": true}), json!([1, 1.0])),
        (json!({"contains": {"type": "string"}, "minContains": 2}), json!(["a", 1])),
        (json!({"contains": {"type": "string"}, "maxContains": 1}), json!(["a", "b"])),
        (json!({"prefixItems": [{"type": "string"}], "items": false}), json!(["a", 1])),
        (json!({"prefixItems": [true], "unevaluatedItems": false}), json!(["a", 1])),
        (json!({"minProperties": 1}), json!({})),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2})),
        (json!({"propertyNames": {"pattern": "^[a-z]$"}}), json!({"A": 1})),
        (json!({"propertyNames": false}), json!({"A": 1})),
        (json!({"not": {"type": "string"}}), json!("a")),
        (json!({"properties": {"x": false}}), json!({"x": 1})),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1})),
        (json!({"if": {"type": "string"}, "then": {"minLength": 2}}), json!("a")),
        (json!({"type": ["integer", "null"]}), json!("a")),
        (json!(false), json!(1)),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "contentEncoding": "base64"}),
            json!("?"),
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "contentMediaType": "application/json"}),
            json!("{"),
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [true], "additionalItems": false}),
            json!([1, 2]),
        ),
    ];
    let lines = cases.map(|(schema_value, value)| {
        let violations = schema(schema_value.clone()).validate(&value).unwrap_err();
        format!("{schema_value} {value}\n  {violations}\n")
    });
    expect![[r#"
        {"format":"date-time"} "yesterday"
          /: expected string of format date-time, such as 2026-01-31T12:00:00Z, received string "yesterday"
        {"format":"email"} "unknown"
          /: expected string of format email, such as name@example.com, received string "unknown"
        {"format":"uuid"} "1"
          /: expected string of format uuid, such as 123e4567-e89b-12d3-a456-426614174000, received string "1"
        {"format":"regex"} "("
          /: expected string of format regex, received string "("
        {"pattern":"^[a-z]+$"} "A1"
          /: expected string that matches the pattern ^[a-z]+$, received string "A1"
        {"minimum":0} -1
          /: expected at least 0, received integer -1
        {"maximum":10} 10.5
          /: expected at most 10, received number 10.5
        {"exclusiveMinimum":0} 0
          /: expected more than 0, received integer 0
        {"exclusiveMaximum":1} 1
          /: expected less than 1, received integer 1
        {"multipleOf":5} 7
          /: expected multiple of 5, received integer 7
        {"minLength":3} "äß"
          /: expected at least 3 characters, received string "äß" (2 characters)
        {"maxLength":1} "ab"
          /: expected at most 1 character, received string "ab"
        {"minItems":1} []
          /: expected at least 1 item, received array []
        {"maxItems":1} [1,2]
          /: expected at most 1 item, received array [1,2]
        {"uniqueItems":true} [1,1.0]
          /: expected array of items that all differ, received array [1,1.0]
        {"contains":{"type":"string"},"minContains":2} ["a",1]
          /: expected array with at least 2 of: string, received array ["a",1]
        {"contains":{"type":"string"},"maxContains":1} ["a","b"]
          /: expected array with at least 1 and at most 1 of: string, received array ["a","b"]
        {"prefixItems":[{"type":"string"}],"items":false} ["a",1]
          /1: expected no value here, received integer 1
        {"prefixItems":[true],"unevaluatedItems":false} ["a",1]
          /: expected array without further items, received array ["a",1]
        {"minProperties":1} {}
          /: expected at least 1 property, received object {}
        {"maxProperties":1} {"a":1,"b":2}
          /: expected at most 1 property, received object {"a":1,"b":2}
        {"propertyNames":{"pattern":"^[a-z]$"}} {"A":1}
          /: expected property names to be string that matches the pattern ^[a-z]$, received string "A"
        {"propertyNames":false} {"A":1}
          /: unknown property "A"; no properties are known
        {"not":{"type":"string"}} "a"
          /: expected anything but string, received string "a"
        {"properties":{"x":false}} {"x":1}
          /x: expected no value here, received integer 1
        {"dependentRequired":{"a":["b"]}} {"a":1}
          /: missing required property "b"
        {"if":{"type":"string"},"then":{"minLength":2}} "a"
          /: expected at least 2 characters, received string "a" (1 character)
        {"type":["integer","null"]} "a"
          /: expected integer or null, received string "a"
        false 1
          /: expected no value here, received integer 1
        {"$schema":"http://json-schema.org/draft-07/schema#","contentEncoding":"base64"} "?"
          /: expected text encoded as base64, received string "?"
        {"$schema":"http://json-schema.org/draft-07/schema#","contentMediaType":"application/json"} "{"
          /: expected text of media type application/json, received string "{"
        {"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":false} [1,2]
          /: expected at most 1 item, received array [1,2]
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn nearest_alternative_is_explained() {
    check(
        json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        json!("a"),
        expect![[r#"/: expected integer or null, received string "a""#]],
    );
    let optional =
        json!({"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]});
    check(optional, json!({"n": "a"}), expect![[r#"/n: expected integer, received string "a""#]]);
    let tagged = json!({"oneOf": [
        {"properties": {"type": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["type", "radius"]},
        {"properties": {"type": {"const": "square"}, "side": {"type": "number"}}, "required": ["type", "side"]},
    ]});
    check(
        tagged.clone(),
        json!({"type": "square", "side": "a"}),
        expect![[r#"/side: expected number, received string "a""#]],
    );
    check(
        tagged.clone(),
        json!({"type": "square"}),
        expect![[r#"/: missing required property "side" (number)"#]],
    );
    check(
        tagged,
        json!({"type": "line"}),
        expect![[r#"/type: expected "circle" or "square", received string "line""#]],
    );
    let overlapping = json!({"oneOf": [{"type": "integer"}, {"minimum": 0}]});
    check(
        overlapping,
        json!(1),
        expect![
            "/: expected value that fits exactly one alternative, received integer 1, which fits several"
        ],
    );
}

#[test]
fn long_values_are_shortened_at_a_character_boundary() {
    check(
        json!({"type": "integer"}),
        json!("ä".repeat(100_000)),
        expect![[
            r#"/: expected integer, received string "ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää"… (100000 characters)"#
        ]],
    );
    check(
        json!({"type": "integer"}),
        json!(vec![0; 1000]),
        expect!["/: expected integer, received array of 1000 items"],
    );
    let object: Map<_, _> = (0..100).map(|n| (format!("key{n}"), json!(n))).collect();
    check(
        json!({"type": "integer"}),
        Value::Object(object),
        expect![[
            r#"/: expected integer, received object with "key0", "key1", "key2", "key3", "key4", "key5", "key6", "key7", "key8", "key9", "key10", "key11", "key12", "key13", "key14", "key15", "key16", "key17", "key18", "key19", … (100 in all)"#
        ]],
    );
    let many = schema(json!({"items": {"type": "string"}})).validate(&json!(vec![0; 1000])).unwrap_err();
    assert_eq!((many.as_slice().len(), many.omitted_count()), (20, 980));
    assert!(many.to_string().ends_with("and 980 more"));
    let huge = schema(json!({"items": {"type": "string"}})).validate(&json!(vec![0; 20_000])).unwrap_err();
    assert_eq!(huge.as_slice().len(), 1);
}

#[test]
fn pointers_escape_property_names() {
    check(
        json!({"properties": {"a/b~c": {"properties": {"x y": {"type": "integer"}}, "additionalProperties": false}}}),
        json!({"a/b~c": {"x y": "1", "z": 1}}),
        expect![[r#"
            /a~1b~0c/x y: expected integer, received string "1"
            /a~1b~0c: unknown property "z"; known properties: "x y""#]],
    );
}

/// If a subschema and the root declare different dialects, the validator may reject a value without
/// an error. There must still be a violation.
#[test]
fn invalid_value_always_has_a_violation() {
    let other = "https://json-schema.org/draft/2020-12/schema";
    let schema = Schema::new(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "oneOf": [true, {"$schema": other, "if": {}, "unevaluatedProperties": {"allOf": [
            {"$ref": "#"},
            {"$schema": other, "if": [], "unevaluatedProperties": false},
        ]}}],
    }))
    .unwrap();
    for value in [json!({}), json!({"a": 1, "b": 1}), json!({"": -1}), json!({"a": {}}), json!(1)] {
        let Err(violations) = schema.validate(&value) else {
            assert!(schema.is_valid(&value));
            continue;
        };
        assert!(!violations.as_slice().is_empty(), "{value}");
    }
}
