use std::{collections::BTreeSet, fs, path::Path};

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
    check(
        json!({"properties": {"a": {"type": "null"}}, "minProperties": 3, "additionalProperties": {"type": "integer"}}),
        &expect![[r#"{"a":null,"b":0,"c":0}"#]],
    );
    check(
        json!({"minProperties": 2, "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"const": 1}}),
        &expect![[r#"{"x":1,"y":1}"#]],
    );
    check(
        json!({"required": ["x-1"], "patternProperties": {"^x-": {"type": "array"}}, "additionalProperties": false}),
        &expect![[r#"{"x-1":[]}"#]],
    );
}

#[test]
fn dependencies_and_conditions_are_applied() {
    let properties = json!({"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}});
    check(
        json!({"properties": properties, "required": ["a"], "dependentRequired": {"a": ["b"], "b": ["c"]}}),
        &expect![[r#"{"a":0,"b":0,"c":0}"#]],
    );
    check(
        json!({"properties": properties, "required": ["a"], "dependentSchemas": {"a": {"required": ["c"], "properties": {"c": {"minimum": 5}}}}}),
        &expect![[r#"{"a":0,"c":5}"#]],
    );
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": properties, "required": ["a"], "dependencies": {"a": ["b"]}}),
        &expect![[r#"{"a":0,"b":0}"#]],
    );
    check(
        json!({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"],
            "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["of_a"]}, "else": {"required": ["of_b"]}}),
        &expect![[r#"{"kind":"a","of_a":"a"}"#]],
    );
}

#[test]
fn numbers_are_within_their_bounds() {
    check(json!({"type": "integer", "minimum": 3}), &expect!["3"]);
    check(json!({"type": "integer", "exclusiveMinimum": 3, "multipleOf": 5}), &expect!["5"]);
    check(json!({"type": "integer", "maximum": -4, "multipleOf": 3}), &expect!["-6"]);
    check(json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}), &expect!["0.25"]);
    check(json!({"type": "number", "minimum": 0.05, "multipleOf": 0.1}), &expect!["1"]);
    check(json!({"type": "integer", "minimum": 18446744073709551615_u64}), &expect!["18446744073709551615"]);
}

#[test]
fn texts_match_pattern_and_format() {
    check(json!({"type": "string", "minLength": 3, "maxLength": 4}), &expect![[r#""aaa""#]]);
    check(json!({"type": "string", "maxLength": 0}), &expect![[r#""""#]]);
    check(json!({"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}), &expect![[r#""AA-0000""#]]);
    check(json!({"type": "string", "pattern": "^(?!a)[a-z]+$"}), &expect![[r#""b""#]]);
    check(
        json!({"type": "string", "pattern": "^arn:aws:(s3|ec2):[^:]*$", "minLength": 20}),
        &expect![[r#""arn:aws:s3:aaaaaaaaaaa""#]],
    );
    check(json!({"type": "string", "pattern": "^éé", "minLength": 4}), &expect![[r#""ééaa""#]]);
    check(json!({"type": "string", "pattern": "(a)\\1b", "examples": ["aab"]}), &expect![[r#""aab""#]]);
    for format in
        ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "regex"]
    {
        let schema = Schema::new(json!({"type": "string", "format": format})).unwrap();
        assert!(generate_example(&schema).is_ok(), "{format}");
    }
}

#[test]
fn lists_satisfy_size_uniqueness_and_contains() {
    check(
        json!({"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": true}),
        &expect![[r#"["a","b","c"]"#]],
    );
    check(
        json!({"items": {"type": "object", "properties": {"x": {"type": "boolean"}, "y": {"enum": [1, 2]}}, "required": ["x", "y"]}, "minItems": 4, "uniqueItems": true}),
        &expect![[r#"[{"x":false,"y":1},{"x":true,"y":1},{"x":false,"y":2},{"x":true,"y":2}]"#]],
    );
    check(
        json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 3, "items": {"const": 7}}),
        &expect!["[0,null,7]"],
    );
    check(
        json!({"type": "array", "contains": {"const": "x"}, "minContains": 2, "minItems": 3}),
        &expect![[r#"["x","x","a"]"#]],
    );
}

#[test]
fn alternatives_are_tried_until_the_value_is_valid() {
    check(json!({"anyOf": [{"type": "string", "pattern": "^(?=a)b$"}, {"type": "integer"}]}), &expect!["0"]);
    check(
        json!({"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string"}]}),
        &expect![[r#""a""#]],
    );
    check(json!({"type": "string", "not": {"enum": ["a", "b"]}}), &expect![[r#""c""#]]);
    check(
        json!({"allOf": [{"minimum": 3}, {"type": "number"}, {"type": "integer", "maximum": 9}]}),
        &expect!["3"],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"maxProperties": 0}}),
        &expect![[r#"{"a":0}"#]],
    );
}

#[test]
fn constants_are_compared_by_value() {
    check(json!({"enum": [2, 1], "const": 1.0}), &expect!["1"]);
    check(
        json!({"enum": [{"a": [1], "b": null}], "const": {"b": null, "a": [1.0]}}),
        &expect![[r#"{"a":[1],"b":null}"#]],
    );
    check(
        json!({"enum": [18446744073709551615_u64], "const": 18446744073709551614_u64}),
        &expect!["no example of the schema could be made, at /: no value satisfies every `enum` and `const`"],
    );
}

#[test]
fn recursive_schemas_terminate() {
    let node = json!({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]});
    check(json!({"$ref": "#/$defs/node", "$defs": {"node": node}}), &expect![[r#"{"value":0,"next":null}"#]]);
    check(
        json!({"$dynamicAnchor": "node", "type": "object", "properties": {"next": {"anyOf": [{"$dynamicRef": "#node"}, {"type": "null"}]}}, "required": ["next"]}),
        &expect![[r#"{"next":null}"#]],
    );
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
        &expect!["no example of the schema could be made, at /x: no number was found that the schema allows"],
    );
    check(
        json!({"allOf": [{"const": 1}, {"const": 2}]}),
        &expect!["no example of the schema could be made, at /: no value satisfies every `enum` and `const`"],
    );
    check(
        json!({"type": "string", "pattern": "^(?=a)b$"}),
        &expect![[
            r#"no example of the schema could be made, at /: no text was found for {"pattern":"^(?=a)b$"}"#
        ]],
    );
    check(
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": true}),
        &expect!["no example of the schema could be made, at /2: not enough distinct items"],
    );
}

/// A schema from an untrusted server can require a value that does not fit into memory. Generation
/// must fail with an error for such a schema.
#[test]
fn oversized_examples_are_rejected() {
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1_000});
    let text = json!({"type": "string", "minLength": 100_000});
    let reason = |schema: Value| generate_example(&Schema::new(schema).unwrap()).unwrap_err().to_string();
    expect!["no example of the schema could be made, at /: the schema requires more than 10000 items"]
        .assert_eq(&reason(json!({"type": "array", "minItems": 1_000_000_000})));
    expect!["no example of the schema could be made, at /: the schema requires more than 10000 items"]
        .assert_eq(&reason(
            json!({"type": "array", "contains": {"const": 1}, "minContains": 1_000_000_000_000_000_000_u64}),
        ));
    let too_large = "the example would be too large";
    for schema in [list(list(list(json!({"type": "null"})))), list(text.clone())] {
        let reason = reason(schema);
        assert!(reason.ends_with(too_large), "{reason}");
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
    let values: Vec<_> = (0..3).map(|number| generate_nth_example(&schema, number).unwrap()).collect();
    assert_eq!(values, [json!("x"), json!(0), json!(null)]);
}

/// An example must be found for every schema of the official JSON Schema test suite that has a
/// valid test value. The snapshot lists the exceptions.
#[test]
fn schemas_of_the_official_suite_get_an_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/tests/json-schema-test-suite");
    let mut found = 0;
    let mut missing = BTreeSet::new();
    let mut open = vec![folder];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let Ok(Value::Array(cases)) = serde_json::from_str(&fs::read_to_string(&path).unwrap()) else {
            continue;
        };
        let is_draft_7 = path.components().any(|it| it.as_os_str() == "draft7");
        for mut case in cases {
            if let (true, Some(schema)) = (is_draft_7, case["schema"].as_object_mut()) {
                schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            }
            let Ok(schema) = Schema::new(case["schema"].clone()) else { continue };
            if !case["tests"].as_array().unwrap().iter().any(|test| schema.is_valid(&test["data"])) {
                continue;
            }
            match generate_example(&schema) {
                Ok(_) => found += 1,
                Err(_) => drop(missing.insert(case["description"].as_str().unwrap().to_owned())),
            }
        }
    }
    let missing: Vec<_> = missing.into_iter().collect();
    expect![[r#"
        609 examples; none for:
        ECMA 262 regex escapes control codes with \c and lower letter
        ECMA 262 regex escapes control codes with \c and upper letter
        collect annotations inside a 'not', even if collection is disabled
        unevaluatedItems with oneOf
    "#]]
    .assert_eq(&format!("{found} examples; none for:\n{}\n", missing.join("\n")));
}
