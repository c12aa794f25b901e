use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::Schema;
use super::{Repair, RepairPolicy, repair};

/// Repairs `value` under the default policy, and compares the repaired value and the repairs with
/// `expected`. Also checks that the strict policy does not change `value`.
#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check(schema: &Value, value: Value, expected: Expect) {
    let schema = Schema::new(schema.clone()).unwrap();
    let (strict, none) = repair(&schema, value.clone(), RepairPolicy::Strict);
    assert_eq!((strict, none), (value.clone(), Vec::new()));
    let (repaired, repairs) = repair(&schema, value, RepairPolicy::Default);
    assert!(schema.is_valid(&repaired), "{repaired}");
    let lines: String = repairs.iter().map(|repair| format!("\n{repair}")).collect();
    expected.assert_eq(&format!("{repaired}{lines}"));
}

/// Checks that the invalid `value` is returned unchanged and without repairs.
fn check_not_repaired(schema: &Value, value: Value) {
    let schema = Schema::new(schema.clone()).unwrap();
    assert!(!schema.is_valid(&value), "{value}");
    assert_eq!(repair(&schema, value.clone(), RepairPolicy::Default), (value, Vec::new()));
}

/// Checks that the valid `value` is returned unchanged and without repairs.
fn check_valid(schema: &Value, value: Value) {
    let schema = Schema::new(schema.clone()).unwrap();
    assert!(schema.is_valid(&value), "{value}");
    assert_eq!(repair(&schema, value.clone(), RepairPolicy::Default), (value, Vec::new()));
}

/// Returns the schema of an object with the required property `name`, described by `schema`.
#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn object_with(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema}, "required": [name]})
}

/// For an integer, the default policy repairs `"3"` to 3, and the strict policy rejects it. `3.0`
/// is an integer, but `true` is not.
#[test]
fn string_is_parsed_for_a_number() {
    let integer = object_with("x", json!({"type": "integer"}));
    check(
        &integer,
        json!({"x": "3"}),
        expect![[r#"
        {"x":3}
        /x: read a string as the integer that it spells"#]],
    );
    check(
        &integer,
        json!({"x": " -3.0 "}),
        expect![[r#"
        {"x":-3.0}
        /x: read a string as the number that it spells"#]],
    );
    check_valid(&integer, json!({"x": 3.0}));
    let number = object_with("x", json!({"type": ["number", "null"]}));
    check(
        &number,
        json!({"x": "0.5"}),
        expect![[r#"
        {"x":0.5}
        /x: read a string as the number that it spells"#]],
    );
    check(
        &number,
        json!({"x": "null"}),
        expect![[r#"
        {"x":null}
        /x: read a string as the null that it spells"#]],
    );
    for text in ["abc", "", "3.5", "3 apples", "0x10", "1,000", "+3", "03", "NaN", "true", "[3]", "\"3\""] {
        check_not_repaired(&integer, json!({"x": text}));
    }
    check_not_repaired(&integer, json!({"x": true}));
    check_not_repaired(&integer, json!({"x": 3.5}));
    // The integer is too large for `i64` and `u64`, so parsing would lose precision.
    check_not_repaired(&integer, json!({"x": "123456789012345678901234567890"}));
    check_not_repaired(&object_with("x", json!({"type": "integer", "maximum": 2})), json!({"x": "3"}));
}

#[test]
fn string_is_parsed_for_other_types() {
    let boolean = object_with("x", json!({"type": "boolean"}));
    check(
        &boolean,
        json!({"x": "true"}),
        expect![[r#"
        {"x":true}
        /x: read a string as the boolean that it spells"#]],
    );
    check_not_repaired(&boolean, json!({"x": "True"}));
    check_not_repaired(&boolean, json!({"x": "yes"}));
    check_not_repaired(&boolean, json!({"x": 1}));
    check(
        &object_with("x", json!({"type": "array", "items": {"type": "string"}})),
        json!({"x": "[\"a\"]"}),
        expect![[r#"
        {"x":["a"]}
        /x: read a string as the array that it spells"#]],
    );
    check(
        &object_with("x", json!({"enum": [1, 2, 3]})),
        json!({"x": "2"}),
        expect![[r#"
        {"x":2}
        /x: read a string as the integer that it spells"#]],
    );
    check_not_repaired(&object_with("x", json!({"enum": [1, 2, 3]})), json!({"x": "4"}));
    check(
        &object_with("x", json!({"const": 7})),
        json!({"x": "7"}),
        expect![[r#"
        {"x":7}
        /x: read a string as the integer that it spells"#]],
    );
    check_not_repaired(&object_with("x", json!({"type": "string", "minLength": 2})), json!({"x": "3"}));
}

/// A string with a JSON object is parsed first. Strings inside this object must then be repaired
/// too.
#[test]
fn parsed_strings_are_repaired_recursively() {
    let schema = object_with("filter", object_with("limit", json!({"type": "integer"})));
    check(
        &schema,
        json!({"filter": "{\"limit\": \"3\"}"}),
        expect![[r#"
        {"filter":{"limit":3}}
        /filter: read a string as the object that it spells
        /filter/limit: read a string as the integer that it spells"#]],
    );
    check(
        &schema,
        json!("{\"args\": {\"filter\": \"{\\\"limit\\\": \\\"3\\\"}\"}}"),
        expect![[r#"
        {"filter":{"limit":3}}
        /: read a string as the object that it spells
        /: took the arguments out of "args"
        /filter: read a string as the object that it spells
        /filter/limit: read a string as the integer that it spells"#]],
    );
    check_not_repaired(&schema, json!({"filter": "{\"limit\": \"many\"}"}));
}

#[test]
fn value_is_repaired_completely_or_not_at_all() {
    let schema = json!({"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}, "a/b": {"items": {"type": "integer"}}}});
    check(
        &schema,
        json!({"x": "1", "y": "2", "a/b": [1, "2"]}),
        expect![[r#"
        {"x":1,"y":2,"a/b":[1,2]}
        /x: read a string as the integer that it spells
        /y: read a string as the integer that it spells
        /a~1b/1: read a string as the integer that it spells"#]],
    );
    check_not_repaired(&schema, json!({"x": "1", "y": "two"}));
}

/// Arguments inside a string or a wrapper object are unwrapped, and the repair is recorded. A valid
/// call is never changed.
#[test]
fn wrapped_arguments_are_unwrapped() {
    let integer = object_with("x", json!({"type": "integer"}));
    for wrapper in ["args", "arguments", "input", "parameters"] {
        let (repaired, repairs) =
            repair(&Schema::new(integer.clone()).unwrap(), json!({wrapper: {"x": 1}}), RepairPolicy::Default);
        assert_eq!(repaired, json!({"x": 1}));
        assert_eq!(repairs.len(), 1);
    }
    check(
        &integer,
        json!({"args": {"x": "1"}}),
        expect![[r#"
        {"x":1}
        /: took the arguments out of "args"
        /x: read a string as the integer that it spells"#]],
    );
    check(
        &integer,
        json!("{\"x\": 1}"),
        expect![[r#"
        {"x":1}
        /: read a string as the object that it spells"#]],
    );
    check(
        &integer,
        json!({"arguments": "{\"x\": 1}"}),
        expect![[r#"
        {"x":1}
        /: took the arguments out of "arguments"
        /: read a string as the object that it spells"#]],
    );
    let layers = |count| (0..count).fold(json!({"x": 1}), |inner, _| json!({"args": inner}));
    assert_eq!(repair(&Schema::new(integer.clone()).unwrap(), layers(4), RepairPolicy::Default).1.len(), 4);
    check_not_repaired(&integer, layers(5));
    check_not_repaired(&integer, json!({"args": {"x": 1}, "note": "a"}));
    check_not_repaired(&integer, json!({"args": {"y": 1}}));
    check_not_repaired(&integer, json!({"payload": {"x": 1}}));
    check_not_repaired(&integer, json!([{"x": 1}]));
    check_not_repaired(&integer, json!("x = 1"));
    check_not_repaired(&integer, json!("[1]"));
    check_not_repaired(&integer, json!(1));
}

/// Empty arguments (`""` or `null`) are repaired to `{}`.
#[test]
fn empty_arguments_become_an_empty_object() {
    let none = json!({"type": "object", "properties": {}});
    check(
        &none,
        json!(""),
        expect![[r#"
        {}
        /: took empty arguments as {}"#]],
    );
    check(
        &none,
        Value::Null,
        expect![[r#"
        {}
        /: took empty arguments as {}"#]],
    );
    check(
        &none,
        json!("{}"),
        expect![[r#"
        {}
        /: read a string as the object that it spells"#]],
    );
    check_not_repaired(&none, json!([]));
    check_not_repaired(&none, json!("now"));
    check_not_repaired(&object_with("x", json!({"type": "integer"})), json!(""));
    check_not_repaired(&object_with("x", json!({"type": "integer"})), Value::Null);
}

#[test]
fn null_of_an_optional_property_is_removed() {
    let schema = json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "limit": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
        "required": ["x"],
    });
    check(
        &schema,
        json!({"x": 1, "limit": null, "kind": null}),
        expect![[r#"
        {"x":1}
        /limit: took null as an absent property
        /kind: took null as an absent property"#]],
    );
    check_not_repaired(&schema, json!({"x": null}));
    check_valid(&json!({"properties": {"limit": {"type": ["integer", "null"]}}}), json!({"limit": null}));
    check_not_repaired(&json!({"items": {"type": "integer"}}), json!([null]));
}

#[test]
fn valid_arguments_are_never_changed() {
    check_valid(&object_with("args", json!({"type": "object"})), json!({"args": {"x": 1}}));
    check_valid(&object_with("input", json!({"type": "string"})), json!({"input": "{\"x\": 1}"}));
    check_valid(
        &object_with("x", json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})),
        json!({"x": "3"}),
    );
    check_valid(&json!({"type": "string"}), json!("{}"));
    check_not_repaired(
        &object_with("args", json!({"type": "object", "required": ["x"]})),
        json!({"args": {"args": {"x": 1}}}),
    );
}

#[test]
fn values_of_references_and_alternatives_are_repaired() {
    let referred = json!({"properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}});
    check(
        &referred,
        json!({"x": "3"}),
        expect![[r#"
        {"x":3}
        /x: read a string as the integer that it spells"#]],
    );

    let optional = object_with("x", json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}));
    check(
        &optional,
        json!({"x": "3"}),
        expect![[r#"
        {"x":3}
        /x: read a string as the integer that it spells"#]],
    );
    check_not_repaired(&optional, json!({"x": "three"}));

    let place = json!({"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]});
    let nested = object_with("at", json!({"anyOf": [{"type": "null"}, place]}));
    check(
        &nested,
        json!({"at": {"lat": "1.5"}}),
        expect![[r#"
        {"at":{"lat":1.5}}
        /at/lat: read a string as the number that it spells"#]],
    );
    check(
        &nested,
        json!({"at": "{\"lat\": \"1.5\"}"}),
        expect![[r#"
        {"at":{"lat":1.5}}
        /at: read a string as the object that it spells
        /at/lat: read a string as the number that it spells"#]],
    );

    let crossed = json!({"oneOf": [
        {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
        {"properties": {"a": {"type": "string", "minLength": 9}, "b": {"type": "integer"}}},
    ]});
    check(
        &crossed,
        json!({"a": "1", "b": "2"}),
        expect![[r#"
        {"a":1,"b":"2"}
        /a: read a string as the integer that it spells"#]],
    );

    let several = json!({"items": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}});
    check(
        &several,
        json!(["1", "true", 2]),
        expect![[r#"
        [1,true,2]
        /0: read a string as the integer that it spells
        /1: read a string as the boolean that it spells"#]],
    );
    check_not_repaired(&several, json!(["1", "true", "x"]));

    let merged = json!({"allOf": [{"properties": {"x": {"type": "integer"}}}, {"properties": {"x": {"type": "number"}}}]});
    check(
        &merged,
        json!({"x": "3"}),
        expect![[r#"
        {"x":3}
        /x: read a string as the integer that it spells"#]],
    );
}

#[test]
fn repairs_can_be_serialized() {
    let schema = Schema::new(object_with("x", json!({"type": "integer"}))).unwrap();
    let (_, repairs) = repair(&schema, json!({"args": {"x": "3"}}), RepairPolicy::Default);
    let text = serde_json::to_string(&repairs).unwrap();
    expect![[r#"[{"pointer":"","kind":"unwrapped","key":"args"},{"pointer":"/x","kind":"read_string","spells":"integer"}]"#]].assert_eq(&text);
    assert_eq!(serde_json::from_str::<Vec<Repair>>(&text).unwrap(), repairs);
}

/// Repairs are logged, so they must not contain arguments, which may be secret.
#[test]
fn repair_does_not_contain_the_value() {
    let schema = Schema::new(object_with("pin", json!({"type": "integer"}))).unwrap();
    let (_, repairs) = repair(&schema, json!({"pin": "4711"}), RepairPolicy::Default);
    assert!(!format!("{repairs:?} {}", repairs[0]).contains("4711"));
}

#[test]
fn repair_search_is_bounded() {
    let union = json!({"anyOf": vec![json!({"type": "integer"}); 50]});
    let schema = json!({"items": union});
    check_not_repaired(&schema, json!(vec!["1"; 200].into_iter().chain(["x"]).collect::<Vec<_>>()));
}

/// Unknown properties that are copies of keywords of the schema are removed. Other unknown
/// properties are not, because they may express a wish of the model.
#[test]
fn copied_keywords_are_removed() {
    let search = json!({
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "max": {"type": "integer"}},
        "required": ["pattern"],
        "additionalProperties": false
    });
    check(
        &search,
        json!({"pattern": "*.rs", "max": "100", "additionalProperties": false}),
        expect![[r#"
            {"pattern":"*.rs","max":100}
            /max: read a string as the integer that it spells
            /additionalProperties: removed a keyword copied from the schema"#]],
    );
    check(
        &search,
        json!({"type": "object", "pattern": "*.rs", "required": ["pattern"]}),
        expect![[r#"
            {"pattern":"*.rs"}
            /type: removed a keyword copied from the schema
            /required: removed a keyword copied from the schema"#]],
    );
    check(
        &object_with("files", search.clone()),
        json!({"files": {"pattern": "*.rs", "additionalProperties": false}}),
        expect![[r#"
            {"files":{"pattern":"*.rs"}}
            /files/additionalProperties: removed a keyword copied from the schema"#]],
    );
    for unknown in [
        json!({"pattern": "*.rs", "additionalProperties": true}),
        json!({"pattern": "*.rs", "type": "file"}),
        json!({"pattern": "*.rs", "dry_run": true, "additionalProperties": false}),
        json!({"additionalProperties": false}),
        search.clone(),
    ] {
        check_not_repaired(&search, unknown);
    }
    // Without `additionalProperties`, the property is valid, so it is kept.
    check_valid(&json!({"type": "object"}), json!({"type": "object"}));
}
