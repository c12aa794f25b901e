use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};

use super::super::{Schema, SchemaFault};

fn schema(value: Value) -> Schema {
    Schema::new(value).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check_rejected(value: Value, expected: Expect) {
    expected.assert_eq(&Schema::new(value).unwrap_err().to_string());
}

#[test]
fn id_of_the_root_is_ignored() {
    for id in [
        "https://example.com/a.json",
        "http://json-schema.org/draft-07/schema",
        "relative",
        "",
        "json-schema:///",
    ] {
        let schema =
            schema(json!({"$id": id, "$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}));
        assert!(schema.is_valid(&json!([1])), "{id}");
        assert!(!schema.is_valid(&json!(["a"])), "{id}");
        assert_eq!(schema.as_value().get("$id"), Some(&json!(id)));
    }
}

/// A reference to another document is an error that contains the reason. The document is not
/// fetched.
#[test]
fn references_to_other_documents_are_rejected() {
    check_rejected(
        json!({"properties": {"x": {"$ref": "http://127.0.0.1:1/a.json"}}}),
        expect![[
            r#"invalid schema at /properties/x/$ref: reference "http://127.0.0.1:1/a.json" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$defs": {"a": {"items": {"$ref": "file:///etc/passwd"}}}}),
        expect![[
            r#"invalid schema at /$defs/a/items/$ref: reference "file:///etc/passwd" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"allOf": [{"$ref": "other.json#/a"}]}),
        expect![[
            r#"invalid schema at /allOf/0/$ref: reference "other.json#/a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$ref": "#/unknown"}),
        expect![[r##"invalid schema at /$ref: reference "#/unknown" has no target"##]],
    );
    check_rejected(
        json!({"$ref": "#unknown"}),
        expect![[r##"invalid schema at /$ref: reference "#unknown" has no target"##]],
    );
    check_rejected(
        json!({"$ref": ""}),
        expect![[
            r#"invalid schema at /$ref: reference "" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$dynamicRef": "https://example.com/#a"}),
        expect![[
            r#"invalid schema at /$dynamicRef: reference "https://example.com/#a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$ref": "#/x-own/a", "x-own": {"a": {"$ref": "https://example.com"}}}),
        expect![[
            r#"invalid schema at /x-own/a/$ref: reference "https://example.com" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$id": "https://example.com/", "items": {"$ref": "https://example.com/#/$defs/a"}, "$defs": {"a": {}}}),
        expect![[
            r#"invalid schema at /items/$ref: reference "https://example.com/#/$defs/a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_rejected(
        json!({"$defs": {"a": {"$id": "file:///etc/", "$ref": "#/$defs/b"}, "b": {}}, "$ref": "#/$defs/a"}),
        expect![[r#"invalid schema at /$ref: `$id` "file:///etc/" inside a document with references"#]],
    );
    check_rejected(
        json!({"$schema": "https://example.com/meta.json"}),
        expect![[
            r#"invalid schema at /: unknown dialect "https://example.com/meta.json": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_rejected(
        json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
        expect![[
            r#"invalid schema at /: unknown dialect "http://json-schema.org/draft-04/schema#": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_rejected(
        json!({"items": {"$schema": "file:///etc/passwd"}}),
        expect![[
            r#"invalid schema at /items: unknown dialect "file:///etc/passwd": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_rejected(
        json!({"$schema": 7}),
        expect![[r#"invalid schema at /: unknown dialect "7": only draft 2020-12 and draft-07 are known"#]],
    );
    check_rejected(
        json!({"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}}),
        expect![[r#"invalid schema at /: anchor "n" is defined twice"#]],
    );
    check_rejected(
        json!({"$ref": "#n", "x-own": {"a/b": [{"$anchor": "n", "items": {"$ref": "other.json"}}]}}),
        expect![[
            r#"invalid schema at /x-own/a~1b/0/items/$ref: reference "other.json" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
}

/// A `$ref` in data such as `default`, or a property with the name `$ref`, is not a reference. The
/// schema must not be rejected.
#[test]
fn data_is_not_searched_for_references() {
    let schema = schema(json!({
        "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "$schema": {"type": "string"}},
        "default": {"$ref": "http://example.com"},
        "const": {"$ref": "http://example.com"},
    }));
    assert!(schema.is_valid(&json!({"$ref": "http://example.com"})));
}

/// A small schema with references that expand exponentially is rejected before it is compiled.
#[test]
fn schema_bombs_are_rejected_before_compilation() {
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        definitions.insert(format!("a{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("a40".to_owned(), json!({"type": "string"}));
    let started = Instant::now();
    check_rejected(
        json!({"$ref": "#/$defs/a0", "$defs": definitions}),
        expect![
            "invalid schema at /$defs/a28: its references expand to more than 10000 subschemas for one value"
        ],
    );
    check_rejected(
        json!({"enum": (0..1_000_000).collect::<Vec<_>>()}),
        expect!["invalid schema at /: more than 10000 values"],
    );
    check_rejected(
        json!({"const": "a".repeat(256 << 10)}),
        expect!["invalid schema at /: larger than 262144 bytes"],
    );
    let flat: Map<_, _> = (0..10_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    check_rejected(json!({"properties": flat}), expect!["invalid schema at /: more than 10000 values"]);
    let nested: Map<_, _> = (0..3_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    check_rejected(
        json!({"properties": {"a".repeat(150 << 10): {"properties": nested}}}),
        expect![
            "invalid schema at /: the JSON pointers of its values take more than 16777216 bytes: shorten the property names"
        ],
    );
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Schemas just below the limits are accepted.
#[test]
fn large_schemas_within_the_limits_compile() {
    let properties: Map<_, _> = (0..3_300).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    assert!(schema(json!({"properties": properties})).is_valid(&json!({"p1": "a"})));
    assert!(schema(json!({"enum": (0..9_900).collect::<Vec<_>>()})).is_valid(&json!(9_899)));
    assert!(schema(json!({"anyOf": vec![json!({"type": "string"}); 3_300]})).is_valid(&json!("a")));
    let definitions: Map<_, _> = (0..20)
        .map(|from| {
            let properties: Map<_, _> =
                (0..20).map(|to| (format!("p{to}"), json!({"$ref": format!("#/$defs/a{to}")}))).collect();
            (format!("a{from}"), json!({"type": "object", "properties": properties}))
        })
        .collect();
    let mutual = schema(json!({"$ref": "#/$defs/a0", "$defs": definitions}));
    assert!(mutual.is_valid(&json!({"p3": {"p4": {}}})));
    assert!(!mutual.is_valid(&json!({"p3": {"p4": 1}})));
}

#[test]
fn expensive_patterns_are_rejected_or_bounded() {
    check_rejected(
        json!({"pattern": "^(a{1000}){1000}$"}),
        expect!["invalid schema at /: its regular expressions take more than 100000 states"],
    );
    let backtracking = schema(json!({"pattern": "^(?=.*b)(a|a)+$"}));
    let value = json!("a".repeat(5_000) + "b!");
    assert!(!backtracking.is_valid(&value));
}

/// The estimated number of states must not be too low for classes such as `\S`. An expression with
/// 9,000 repetitions of a class is too large to compile, so it must be rejected earlier, with the
/// fault `PatternsTooLarge`.
#[test]
fn state_estimates_of_classes_match_the_compiler() {
    for class in ["\\S", "[^\\s]", "[\\s\\S]", "\\W", "."] {
        let pattern = |times| json!({"pattern": format!("^{class}{{1,{times}}}$")});
        assert!(Schema::new(pattern(1_000)).is_ok(), "{class}");
        let error = Schema::new(pattern(9_000)).unwrap_err();
        assert!(matches!(error.fault(), SchemaFault::PatternsTooLarge(_)), "{class}: {error}");
    }
}

/// A schema with a reference cycle that does not descend into the value is rejected, without a
/// stack overflow.
#[test]
fn infinite_recursion_is_rejected() {
    check_rejected(
        json!({"$ref": "#"}),
        expect!["invalid schema at /: a reference leads back to itself for the same value"],
    );
    check_rejected(
        json!({"allOf": [{"anyOf": [{"$ref": "#"}]}]}),
        expect!["invalid schema at /: a reference leads back to itself for the same value"],
    );
    check_rejected(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}),
        expect!["invalid schema at /$defs/a: a reference leads back to itself for the same value"],
    );
    check_rejected(
        json!({"$anchor": "me", "dependentSchemas": {"x": {"$ref": "#me"}}}),
        expect!["invalid schema at /: a reference leads back to itself for the same value"],
    );
}

/// A schema with thousands of levels is rejected and dropped, without a stack overflow.
#[test]
fn deep_schema_is_rejected_and_dropped_without_recursion() {
    fn nested(levels: usize) -> Value {
        let object = |key: &str, inner| Value::Object(Map::from_iter([(key.to_owned(), inner)]));
        (0..levels).fold(json!({"type": "string"}), |inner, _| object("properties", object("x", inner)))
    }
    check_rejected(nested(2_500), expect!["invalid schema at /: nested deeper than 64 levels"]);
    check_rejected(
        (0..200_000).fold(json!(1), |inner, _| Value::Array(vec![inner])),
        expect!["invalid schema at /: nested deeper than 64 levels"],
    );
    assert!(Schema::new(nested(31)).is_ok());
}

#[test]
fn invalid_schema_is_rejected_with_the_pointer() {
    check_rejected(
        json!({"properties": {"x": {"type": "widget"}}}),
        expect![[
            r#"invalid schema at /properties/x/type: expected one of "array", "boolean", "integer", "null", "number", "object", "string" or array, received string "widget""#
        ]],
    );
    check_rejected(
        json!({"required": "x"}),
        expect![[r#"invalid schema at /required: expected array, received string "x""#]],
    );
    check_rejected(
        json!({"properties": null}),
        expect!["invalid schema at /properties: expected object, received null"],
    );
    check_rejected(
        json!({"minLength": -1}),
        expect!["invalid schema at /minLength: expected at least 0, received integer -1"],
    );
    check_rejected(
        json!({"pattern": "("}),
        expect![[r#"invalid schema at /pattern: expected string of format regex, received string "(""#]],
    );
    check_rejected(
        json!("object"),
        expect![[r#"invalid schema at /: expected boolean or object, received string "object""#]],
    );
    check_rejected(Value::Null, expect!["invalid schema at /: expected boolean or object, received null"]);
}

/// The schemas of many MCP servers contain type names of a programming language, such as `dict` in
/// Python. The error must suggest the type name of JSON Schema.
#[test]
fn type_of_another_language_is_rejected_with_a_suggestion() {
    check_rejected(
        json!({"type": "dict"}),
        expect![[r#"invalid schema at /type: "dict" is not a type of JSON Schema, expected "object""#]],
    );
    check_rejected(
        json!({"properties": {"x": {"type": "float"}}}),
        expect![[
            r#"invalid schema at /properties/x/type: "float" is not a type of JSON Schema, expected "number""#
        ]],
    );
    check_rejected(
        json!({"properties": {"type": {"type": ["String", "null"]}}}),
        expect![[
            r#"invalid schema at /properties/type/type/0: "String" is not a type of JSON Schema, expected "string""#
        ]],
    );
    check_rejected(
        json!({"items": {"type": "tuple"}}),
        expect![[r#"invalid schema at /items/type: "tuple" is not a type of JSON Schema, expected "array""#]],
    );
    check_rejected(
        json!({"items": {"type": "any"}}),
        expect![[
            r#"invalid schema at /items/type: "any" is not a type of JSON Schema, omit `type` to allow any value"#
        ]],
    );
    check_rejected(
        json!({"type": "strnig"}),
        expect![[r#"invalid schema at /type: "strnig" is not a type of JSON Schema, expected "string""#]],
    );
    check_rejected(
        json!({"properties": {"type": "dict"}}),
        expect![[
            r#"invalid schema at /properties/type: expected boolean or object, received string "dict""#
        ]],
    );
    check_rejected(
        json!({"type": "dict".repeat(100)}),
        expect![[
            r#"invalid schema at /type: expected one of "array", "boolean", "integer", "null", "number", "object", "string" or array, received string "dictdictdictdictdictdictdictdictdictdictdictdictdictdictdictdictdictdictdictdict"… (400 characters)"#
        ]],
    );
    let draft_7 = "http://json-schema.org/draft-07/schema#";
    check_rejected(
        json!({"$schema": draft_7, "items": {"type": "dict"}}),
        expect![[r#"invalid schema at /items/type: "dict" is not a type of JSON Schema, expected "object""#]],
    );
    check_rejected(
        json!({"$schema": draft_7, "items": {"type": ["null", "float"]}}),
        expect![[
            r#"invalid schema at /items/type/1: "float" is not a type of JSON Schema, expected "number""#
        ]],
    );
}
