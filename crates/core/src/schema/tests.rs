use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::*;

fn schema(value: Value) -> Schema {
    Schema::new(value).unwrap()
}

/// What a model reads about a value.
fn check(schema_value: Value, value: Value, expected: Expect) {
    let violations = schema(schema_value).validate(&value).unwrap_err();
    expected.assert_eq(&violations.to_string());
}

fn check_refused(value: Value, expected: Expect) {
    expected.assert_eq(&Schema::new(value).unwrap_err().to_string());
}

fn add() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    })
}

/// BEHAVIOUR B12: the argument, what was expected and what came.
#[test]
fn a_wrong_type_is_named_with_place_expected_and_received() {
    check(add(), json!({"x": "abc"}), expect![[r#"/x: expected integer, received string "abc""#]]);
}

/// BEHAVIOUR B12: all violations at once.
#[test]
fn all_violations_are_listed() {
    check(
        add(),
        json!({"x": true, "y": [1]}),
        expect![[r#"
        /x: expected integer, received boolean true
        /y: expected integer, received array [1]"#]],
    );
    check(add(), json!([1]), expect!["/: expected object, received array [1]"]);
}

/// BEHAVIOUR B13: `3.0` is an integer, `true` is not.
#[test]
fn integers_are_whole_numbers() {
    let schema = schema(add());
    assert!(schema.is_valid(&json!({"x": 3.0})));
    assert!(!schema.is_valid(&json!({"x": true})));
    assert!(!schema.is_valid(&json!({"x": 3.5})));
    assert!(!schema.is_valid(&json!({"x": "3"})));
}

/// BEHAVIOUR B14: a missing required argument is named, with its type.
#[test]
fn a_missing_property_is_named() {
    check(add(), json!({"y": 1}), expect![[r#"/: missing required property "x" (integer)"#]]);
    check(json!({"required": ["x"]}), json!({}), expect![[r#"/: missing required property "x""#]]);
    check(
        json!({"properties": {"p": {"$ref": "#/$defs/p"}}, "required": ["p"], "$defs": {"p": {"type": ["string", "null"]}}}),
        json!({}),
        expect![[r#"/: missing required property "p" (string or null)"#]],
    );
}

/// BEHAVIOUR A9: an unknown key is named together with the known ones.
#[test]
fn an_unknown_property_is_named_with_the_known_ones() {
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

/// BEHAVIOUR A6: a bad value's error lists the allowed ones.
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
        json!({"const": {"a": 1}}),
        json!({"a": 2}),
        expect![[r#"/: expected {"a":1}, received object {"a":2}"#]],
    );
}

/// BEHAVIOUR B16: more than `type` is enforced.
#[test]
fn every_keyword_has_its_words() {
    let cases = [
        (json!({"format": "date-time"}), json!("yesterday")),
        (json!({"format": "email"}), json!("nobody")),
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
    let told = cases.map(|(schema_value, value)| {
        let violations = schema(schema_value.clone()).validate(&value).unwrap_err();
        format!("{schema_value} {value}\n  {violations}\n")
    });
    expect![[r#"
        {"format":"date-time"} "yesterday"
          /: expected string of format date-time, such as 2026-01-31T12:00:00Z, received string "yesterday"
        {"format":"email"} "nobody"
          /: expected string of format email, such as name@example.com, received string "nobody"
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
          /: expected null or integer, received string "a"
        false 1
          /: expected no value here, received integer 1
        {"$schema":"http://json-schema.org/draft-07/schema#","contentEncoding":"base64"} "?"
          /: expected text encoded as base64, received string "?"
        {"$schema":"http://json-schema.org/draft-07/schema#","contentMediaType":"application/json"} "{"
          /: expected text of media type application/json, received string "{"
        {"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":false} [1,2]
          /: expected at most 1 item, received array [1,2]
    "#]]
    .assert_eq(&told.concat());
}

#[test]
fn the_alternative_that_was_meant_is_explained() {
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
        expect![[
            r#"/: expected object with "type", "radius" or object with "type", "side", received object {"type":"line"}"#
        ]],
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
fn long_values_are_shortened_at_a_character() {
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
    assert_eq!(many.as_slice().len(), 1000);
    assert!(many.to_string().ends_with("and 980 more"));
}

#[test]
fn pointers_escape_the_names_that_they_go_through() {
    check(
        json!({"properties": {"a/b~c": {"properties": {"x y": {"type": "integer"}}, "additionalProperties": false}}}),
        json!({"a/b~c": {"x y": "1", "z": 1}}),
        expect![[r#"
            /a~1b~0c/x y: expected integer, received string "1"
            /a~1b~0c: unknown property "z"; known properties: "x y""#]],
    );
}

/// BEHAVIOUR A44.
#[test]
fn schemas_of_either_draft_are_validated_as_written() {
    let draft_07 = schema(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n", "minimum": 5}},
    }));
    assert!(draft_07.is_valid(&json!({"n": 1})), "draft-07 ignores what stands beside a reference");
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

/// BEHAVIOUR A8, A44.
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

#[test]
fn an_id_of_the_root_does_not_matter() {
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

/// FAULTS S1: nothing is fetched or opened, and the reason is told.
#[test]
fn references_that_leave_the_document_are_refused() {
    check_refused(
        json!({"properties": {"x": {"$ref": "http://127.0.0.1:1/a.json"}}}),
        expect![[
            r#"invalid schema at /properties/x/$ref: reference "http://127.0.0.1:1/a.json" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$defs": {"a": {"items": {"$ref": "file:///etc/passwd"}}}}),
        expect![[
            r#"invalid schema at /$defs/a/items/$ref: reference "file:///etc/passwd" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"allOf": [{"$ref": "other.json#/a"}]}),
        expect![[
            r#"invalid schema at /allOf/0/$ref: reference "other.json#/a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$ref": "#/nowhere"}),
        expect![[r##"invalid schema at /$ref: reference "#/nowhere" leads nowhere"##]],
    );
    check_refused(
        json!({"$ref": "#nobody"}),
        expect![[r##"invalid schema at /$ref: reference "#nobody" leads nowhere"##]],
    );
    check_refused(
        json!({"$ref": ""}),
        expect![[
            r#"invalid schema at /$ref: reference "" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$dynamicRef": "https://example.com/#a"}),
        expect![[
            r#"invalid schema at /$dynamicRef: reference "https://example.com/#a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$ref": "#/x-own/a", "x-own": {"a": {"$ref": "https://example.com"}}}),
        expect![[
            r#"invalid schema at /x-own/a/$ref: reference "https://example.com" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$id": "https://example.com/", "items": {"$ref": "https://example.com/#/$defs/a"}, "$defs": {"a": {}}}),
        expect![[
            r#"invalid schema at /items/$ref: reference "https://example.com/#/$defs/a" leaves the document: only `#`, `#/...` and `#name` are followed"#
        ]],
    );
    check_refused(
        json!({"$defs": {"a": {"$id": "file:///etc/", "$ref": "#/$defs/b"}, "b": {}}, "$ref": "#/$defs/a"}),
        expect![[r#"invalid schema at /$ref: `$id` "file:///etc/" inside a document with references"#]],
    );
    check_refused(
        json!({"$schema": "https://example.com/meta.json"}),
        expect![[
            r#"invalid schema at /: unknown dialect "https://example.com/meta.json": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_refused(
        json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
        expect![[
            r#"invalid schema at /: unknown dialect "http://json-schema.org/draft-04/schema#": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_refused(
        json!({"items": {"$schema": "file:///etc/passwd"}}),
        expect![[
            r#"invalid schema at /items: unknown dialect "file:///etc/passwd": only draft 2020-12 and draft-07 are known"#
        ]],
    );
    check_refused(
        json!({"$schema": 7}),
        expect![[r#"invalid schema at /: unknown dialect "7": only draft 2020-12 and draft-07 are known"#]],
    );
    check_refused(
        json!({"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}}),
        expect![[r#"invalid schema at /: anchor "n" is defined twice"#]],
    );
}

/// What looks like a reference in data, or is a property of that name, is none.
#[test]
fn data_is_not_searched_for_references() {
    let schema = schema(json!({
        "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "$schema": {"type": "string"}},
        "default": {"$ref": "http://example.com"},
        "const": {"$ref": "http://example.com"},
    }));
    assert!(schema.is_valid(&json!({"$ref": "http://example.com"})));
}

/// FAULTS S2.
#[test]
fn bombs_are_refused_before_they_are_compiled() {
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        definitions.insert(format!("a{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("a40".to_owned(), json!({"type": "string"}));
    let started = Instant::now();
    check_refused(
        json!({"$ref": "#/$defs/a0", "$defs": definitions}),
        expect![
            "invalid schema at /$defs/a28: its references stand for more than 10000 subschemas that all apply to one value"
        ],
    );
    check_refused(
        json!({"enum": (0..1_000_000).collect::<Vec<_>>()}),
        expect!["invalid schema at /: more than 10000 values"],
    );
    check_refused(
        json!({"const": "a".repeat(256 << 10)}),
        expect!["invalid schema at /: larger than 262144 bytes"],
    );
    let flat: Map<_, _> = (0..10_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    check_refused(json!({"properties": flat}), expect!["invalid schema at /: more than 10000 values"]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// FAULTS S2: what is just within the limits compiles.
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
fn patterns_that_explode_cost_only_their_own_schema() {
    check_refused(
        json!({"pattern": "^(a{1000}){1000}$"}),
        expect![[
            r#"invalid schema at /pattern: expected string of format regex, received string "^(a{1000}){1000}$""#
        ]],
    );
    let backtracking = schema(json!({"pattern": "^(?=.*b)(a|a)+$"}));
    let value = json!("a".repeat(5_000) + "b!");
    assert!(!backtracking.is_valid(&value));
}

/// FAULTS S3: compiled or refused, and never a stack overflow.
#[test]
fn circles_are_compiled_or_refused() {
    check_refused(json!({"$ref": "#"}), expect!["invalid schema at /: refers to itself without an end"]);
    check_refused(
        json!({"allOf": [{"anyOf": [{"$ref": "#"}]}]}),
        expect!["invalid schema at /: refers to itself without an end"],
    );
    check_refused(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}),
        expect!["invalid schema at /$defs/a: refers to itself without an end"],
    );
    check_refused(
        json!({"$anchor": "me", "dependentSchemas": {"x": {"$ref": "#me"}}}),
        expect!["invalid schema at /: refers to itself without an end"],
    );
}

/// FAULTS S3.
#[test]
fn depth_is_refused_and_dropped_without_recursion() {
    fn nested(levels: usize) -> Value {
        let object = |key: &str, inner| Value::Object(Map::from_iter([(key.to_owned(), inner)]));
        (0..levels).fold(json!({"type": "string"}), |inner, _| object("properties", object("x", inner)))
    }
    check_refused(nested(2_500), expect!["invalid schema at /: nested deeper than 64 levels"]);
    check_refused(
        (0..200_000).fold(json!(1), |inner, _| Value::Array(vec![inner])),
        expect!["invalid schema at /: nested deeper than 64 levels"],
    );
    assert!(Schema::new(nested(31)).is_ok());
}

/// A value that could not be read back from text does not fit, and is not looked into.
#[test]
fn values_are_no_deeper_than_text_may_be() {
    let tree = schema(json!({"additionalProperties": {"$ref": "#"}}));
    let nested = |levels| (1..levels).fold(json!({}), |inner, _| json!({"x": inner}));
    assert!(tree.is_valid(&nested(128)));
    let violations = tree.validate(&nested(129)).unwrap_err();
    expect!["/: expected a value nested at most 128 levels deep, received a deeper one"]
        .assert_eq(&violations.to_string());
}

#[test]
fn a_schema_that_breaks_the_rules_is_told_where() {
    check_refused(
        json!({"properties": {"x": {"type": "strnig"}}}),
        expect![[
            r#"invalid schema at /properties/x/type: expected one of "array", "boolean", "integer", "null", "number", "object", "string" or array, received string "strnig""#
        ]],
    );
    check_refused(
        json!({"required": "x"}),
        expect![[r#"invalid schema at /required: expected array, received string "x""#]],
    );
    check_refused(
        json!({"properties": null}),
        expect!["invalid schema at /properties: expected object, received null"],
    );
    check_refused(
        json!({"minLength": -1}),
        expect!["invalid schema at /minLength: expected at least 0, received integer -1"],
    );
    check_refused(
        json!({"pattern": "("}),
        expect![[r#"invalid schema at /pattern: expected string of format regex, received string "(""#]],
    );
    check_refused(
        json!("object"),
        expect![[r#"invalid schema at /: expected boolean or object, received string "object""#]],
    );
    check_refused(Value::Null, expect!["invalid schema at /: expected boolean or object, received null"]);
}

/// BEHAVIOUR A7.
#[test]
fn a_root_of_arguments_is_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    for given in [json!({"type": "object"}), json!({}), json!({"type": ["object", "null"]}), empty.clone()] {
        assert_eq!(Schema::arguments(given).unwrap().as_value().to_string(), empty.to_string());
    }
    let arguments = |given| Schema::arguments(given).unwrap().as_value().to_string();
    expect![[r#"{"type":"object","required":["x"],"properties":{"x":{}}}"#]]
        .assert_eq(&arguments(json!({"required": ["x"], "properties": {"x": {}}})));
    expect![[r##"{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{}}}}}"##]]
        .assert_eq(&arguments(json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {}}}}})));
    expect![[r#"{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer","default":0}},"required":["x"]}"#]].assert_eq(&arguments(add()));
    for bad in [
        json!({"type": "string"}),
        json!(true),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}),
    ] {
        assert_eq!(Schema::arguments(bad).unwrap_err().fault(), &SchemaFault::NotAnObject);
    }
    let object = Schema::object();
    assert_eq!(object, schema(empty));
    assert!(object.is_valid(&json!({"any": 1})));
    expect!["/: expected object, received null"]
        .assert_eq(&object.validate(&json!([1])).unwrap_err().to_string());
}

#[test]
fn properties_say_their_schema_and_whether_they_are_required() {
    let schema = schema(json!({"$ref": "#/$defs/a", "$defs": {"a": add()}}));
    let properties: Vec<_> =
        schema.properties().map(|it| (it.name, it.schema.to_string(), it.required)).collect();
    expect![[r#"
        [
            (
                "x",
                "{\"type\":\"integer\"}",
                true,
            ),
            (
                "y",
                "{\"type\":\"integer\",\"default\":0}",
                false,
            ),
        ]
    "#]]
    .assert_debug_eq(&properties);
}

#[test]
fn a_schema_is_its_json() {
    let given = r#"{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}}"#;
    let schema: Schema = serde_json::from_str(given).unwrap();
    assert_eq!(serde_json::to_string(&schema).unwrap(), given);
    let reordered = json!({"properties": {"x": {"type": "integer"}}, "required": ["x"], "type": "object"});
    assert_eq!(schema, Schema::new(reordered).unwrap());
    assert_ne!(schema, Schema::object());
    let refused = serde_json::from_str::<Schema>(r#"{"$ref":"http://example.com"}"#).unwrap_err();
    expect![[r#"invalid schema at /$ref: reference "http://example.com" leaves the document: only `#`, `#/...` and `#name` are followed"#]].assert_eq(&refused.to_string());
}

#[test]
fn clones_share_the_validator() {
    let schema = schema(add());
    assert!(std::ptr::eq(schema.as_value(), schema.clone().as_value()));
}

/// BEHAVIOUR A1, A6, A8.
mod derived {
    #![allow(dead_code, reason = "the types are only described")]

    use super::*;

    fn check<T: JsonSchema>(expected: Expect) {
        expected.assert_eq(&format!("{:#}", Schema::of::<T>().unwrap().as_value()));
    }

    #[derive(JsonSchema)]
    struct Add {
        /// The first number.
        x: i64,
        #[serde(default)]
        y: i64,
        count: u32,
        ratio: Option<f64>,
    }

    #[derive(JsonSchema)]
    enum Unit {
        Celsius,
        Fahrenheit,
    }

    #[derive(JsonSchema)]
    struct Place {
        name: String,
        unit: Option<Unit>,
    }

    /// Where to look.
    #[derive(JsonSchema)]
    struct Search {
        near: Place,
        also: Vec<Place>,
        #[serde(rename(serialize = "limit_out", deserialize = "limit_in"))]
        limit: Option<u8>,
    }

    #[derive(JsonSchema)]
    struct Node {
        children: Vec<Node>,
    }

    #[derive(JsonSchema)]
    struct Plant {
        root: Node,
        seed: Option<Box<Node>>,
    }

    #[test]
    fn numbers_lose_their_formats() {
        check::<Add>(expect![[r#"
            {
              "type": "object",
              "properties": {
                "x": {
                  "type": "integer",
                  "description": "The first number."
                },
                "y": {
                  "type": "integer",
                  "default": 0
                },
                "count": {
                  "type": "integer",
                  "minimum": 0
                },
                "ratio": {
                  "type": [
                    "number",
                    "null"
                  ]
                }
              },
              "required": [
                "x",
                "count"
              ]
            }"#]]);
    }

    #[test]
    fn types_are_written_out_where_they_are_used() {
        check::<Search>(expect![[r#"
            {
              "type": "object",
              "properties": {
                "near": {
                  "type": "object",
                  "properties": {
                    "name": {
                      "type": "string"
                    },
                    "unit": {
                      "type": [
                        "string",
                        "null"
                      ],
                      "enum": [
                        "Celsius",
                        "Fahrenheit",
                        null
                      ]
                    }
                  },
                  "required": [
                    "name"
                  ]
                },
                "also": {
                  "type": "array",
                  "items": {
                    "type": "object",
                    "properties": {
                      "name": {
                        "type": "string"
                      },
                      "unit": {
                        "type": [
                          "string",
                          "null"
                        ],
                        "enum": [
                          "Celsius",
                          "Fahrenheit",
                          null
                        ]
                      }
                    },
                    "required": [
                      "name"
                    ]
                  }
                },
                "limit_in": {
                  "type": [
                    "integer",
                    "null"
                  ],
                  "maximum": 255,
                  "minimum": 0
                }
              },
              "required": [
                "near",
                "also"
              ],
              "description": "Where to look."
            }"#]]);
    }

    #[test]
    fn recursive_types_stay_references() {
        check::<Node>(expect![[r##"
            {
              "type": "object",
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "children"
              ],
              "$defs": {
                "Node": {
                  "type": "object",
                  "properties": {
                    "children": {
                      "type": "array",
                      "items": {
                        "$ref": "#/$defs/Node"
                      }
                    }
                  },
                  "required": [
                    "children"
                  ]
                }
              }
            }"##]]);
        check::<Plant>(expect![[r##"
            {
              "type": "object",
              "properties": {
                "root": {
                  "type": "object",
                  "properties": {
                    "children": {
                      "type": "array",
                      "items": {
                        "$ref": "#/$defs/Node"
                      }
                    }
                  },
                  "required": [
                    "children"
                  ]
                },
                "seed": {
                  "type": [
                    "object",
                    "null"
                  ],
                  "properties": {
                    "children": {
                      "type": "array",
                      "items": {
                        "$ref": "#/$defs/Node"
                      }
                    }
                  },
                  "required": [
                    "children"
                  ]
                }
              },
              "required": [
                "root"
              ],
              "$defs": {
                "Node": {
                  "type": "object",
                  "properties": {
                    "children": {
                      "type": "array",
                      "items": {
                        "$ref": "#/$defs/Node"
                      }
                    }
                  },
                  "required": [
                    "children"
                  ]
                }
              }
            }"##]]);
        let schema = Schema::of::<Plant>().unwrap();
        assert!(schema.is_valid(&json!({"root": {"children": [{"children": []}]}, "seed": null})));
        assert!(!schema.is_valid(&json!({"root": {"children": [{"children": [1]}]}})));
    }

    #[test]
    fn output_is_described_as_it_is_written() {
        let schema = Schema::of_output::<Search>().unwrap();
        assert!(schema.properties().any(|it| it.name == "limit_out"));
    }

    #[test]
    fn any_type_has_a_schema() {
        check::<()>(expect![[r#"
            {
              "type": "null"
            }"#]]);
        check::<Value>(expect!["true"]);
        check::<Vec<Option<Unit>>>(expect![[r#"
            {
              "type": "array",
              "items": {
                "type": [
                  "string",
                  "null"
                ],
                "enum": [
                  "Celsius",
                  "Fahrenheit",
                  null
                ]
              }
            }"#]]);
    }
}
