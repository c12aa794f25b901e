//! Tests of schemas derived for providers.

mod anthropic;
mod laws;
mod subsets;
mod suite;

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use haft_schema::{Schema, SchemaChangeKind, SchemaLimits, SchemaTarget};
use serde_json::{Map, Value, json};

/// Compares the schema derived from `schema` for OpenAI's strict mode, and the list of changes,
/// with `expected`.
#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check(schema: Value, expected: Expect) {
    check_target(SchemaTarget::OpenAiStrict, schema, &expected);
}

fn check_target(target: SchemaTarget, schema: Value, expected: &Expect) {
    let schema = Schema::for_arguments(schema).unwrap();
    let derived = schema.for_provider(target);
    let mut text =
        if derived.value == *schema.as_value() { "as given".to_owned() } else { derived.value.to_string() };
    text.push_str(if derived.is_strict { ", strict" } else { ", not strict" });
    for change in &derived.changes {
        write!(text, "\n{change}").unwrap();
    }
    expected.assert_eq(&text);
    Schema::new(derived.value).unwrap();
}

/// Strict mode requires all properties, so `null` stands for an absent optional property.
#[test]
fn optional_properties_become_required_and_nullable() {
    check(
        json!({"properties": {
            "a": {"type": "integer", "minimum": 1, "description": "Number of results."},
            "b": {"type": "string", "enum": ["x", "y"], "description": "Sort order."},
            "c": {"type": "object", "properties": {"d": {"type": "boolean"}}, "required": ["d"]},
            "e": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "f": {"$ref": "#/$defs/n"},
            "g": {"type": ["string", "null"]},
            "h": {"const": 1},
        }, "required": ["a"], "$defs": {"n": {"type": "number"}}}),
        expect![[r##"
            {"type":"object","properties":{"a":{"description":"Number of results.","type":"integer","minimum":1},"b":{"description":"Sort order.","anyOf":[{"type":"string","enum":["x","y"]},{"type":"null"}]},"c":{"anyOf":[{"type":"object","properties":{"d":{"type":"boolean"}},"required":["d"],"additionalProperties":false},{"type":"null"}]},"e":{"anyOf":[{"type":"array","maxItems":3,"items":{"type":"string"}},{"type":"null"}]},"f":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]},"g":{"type":["string","null"]},"h":{"anyOf":[{"type":"integer","const":1},{"type":"null"}]}},"required":["a","b","c","e","f","g","h"],"additionalProperties":false,"$defs":{"n":{"type":"number"}}}, strict
            `type` at /properties/g: required, with null for absent"##]],
    );
}

/// A schema whose root has alternatives with different properties cannot be strict. The
/// alternatives are merged into one object with the properties of all alternatives.
#[test]
fn root_with_alternatives_becomes_one_object() {
    check(
        json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}, "c": {"type": "string"}}, "required": ["a"]},
            {"$ref": "#/$defs/b"},
        ], "$defs": {"b": {"properties": {"b": {"type": "integer"}, "c": {"type": "integer"}}, "additionalProperties": false}}}),
        expect![[r#"
            {"type":"object","$defs":{"b":{"properties":{"b":{"type":"integer"},"c":{"type":"integer"}},"additionalProperties":false}},"properties":{"a":{"type":"integer"},"c":{"anyOf":[{"type":"string"},{"type":"integer"}]},"b":{"type":"integer"}}}, not strict
            `anyOf` at /: not strict, since the root must be one object
            `anyOf` at /: sent as one object with the properties of all alternatives
            `type` at /$defs/b/properties/c: sent as `anyOf`, so that several alternatives may fit
            `additionalProperties` at /$defs/b: left out"#]],
    );
    check(
        json!({"oneOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}], "properties": {"x": {}}, "required": ["x"]}),
        expect![[r#"
            {"type":"object","properties":{"a":{"type":"integer"},"x":{}},"required":["x"],"description":"oneOf: [{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}]"}, not strict
            `oneOf` at /: not strict, since the root must be one object
            `oneOf` at /: sent as one object with the properties of all alternatives"#]],
    );
}

/// Most schemas with `anyOf` at the root use it to require at least one of several properties.
/// Strict mode requires all properties, so this `anyOf` must become a note in the description. A
/// `oneOf` of this form cannot be strict, because a property with the value `null` counts as
/// present.
#[test]
fn alternatives_of_required_become_a_note() {
    check(
        json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        }),
        expect![[r#"
            {"description":"anyOf: [{\"required\":[\"a\"]},{\"required\":[\"b\"]}]","type":"object","properties":{"a":{"type":["integer","null"]},"b":{"type":["integer","null"]}},"required":["a","b"],"additionalProperties":false}, strict
            `anyOf` at /: stated only in the description"#]],
    );
    check(
        json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        }),
        expect![[r#"
            {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"description":"oneOf: [{\"required\":[\"a\"]},{\"required\":[\"b\"]}]"}, not strict
            `oneOf` at /: not strict, since null counts as given there
            `oneOf` at /: sent as one object with the properties of all alternatives"#]],
    );
}

/// `allOf` is merged into the enclosing schema. If the merge would change the meaning, the schema
/// is sent without strict mode, and the reason is reported.
#[test]
fn all_of_is_merged_if_that_is_exact() {
    check(
        json!({
            "properties": {"x": {"description": "The x.", "allOf": [{"$ref": "#/$defs/x"}]}},
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"$ref": "#/$defs/b"},
            ],
            "required": ["x"],
            "$defs": {
                "x": {"type": "string"},
                "b": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            },
        }),
        expect![[
            r##"{"type":"object","properties":{"x":{"description":"The x.","anyOf":[{"$ref":"#/$defs/x"}]},"a":{"type":"integer"},"b":{"type":["string","null"]}},"required":["x","a","b"],"additionalProperties":false,"$defs":{"x":{"type":"string"}}}, strict"##
        ]],
    );
    check(
        json!({"properties": {"x": {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 2}]}}}),
        expect![[r#"
            as given, not strict
            `allOf` at /properties/x: not strict, since its parts cannot be merged exactly"#]],
    );
    check(
        json!({"allOf": [
            {"properties": {"a": {"type": "integer"}}, "additionalProperties": false},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]}),
        expect![[r#"
            {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["b"]}, not strict
            `allOf` at /: not strict, since its parts cannot be merged exactly
            `additionalProperties` at /allOf/0: left out"#]],
    );
}

/// `oneOf` becomes `anyOf` in strict mode, and the change is reported.
#[test]
fn one_of_becomes_any_of() {
    check(
        json!({"properties": {"shape": {"description": "The shape.", "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "dot"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        ]}}, "required": ["shape"]}),
        expect![[r#"
            {"type":"object","properties":{"shape":{"description":"The shape.","anyOf":[{"type":"object","properties":{"kind":{"type":"string","const":"dot"}},"required":["kind"],"additionalProperties":false},{"type":"object","properties":{"kind":{"type":"string","const":"circle"},"r":{"type":"number"}},"required":["kind","r"],"additionalProperties":false}]}},"required":["shape"],"additionalProperties":false}, strict
            `oneOf` at /properties/shape: sent as `anyOf`, so that several alternatives may fit"#]],
    );
    check(
        json!({"properties": {"at": {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "anyOf": [{"properties": {"y": {"type": "integer"}}, "required": ["y"]}, {"required": ["x"]}],
        }}, "required": ["at"]}),
        expect![[
            r#"{"type":"object","properties":{"at":{"anyOf":[{"type":"object","properties":{"y":{"type":"integer"},"x":{"type":["integer","null"]}},"required":["y","x"],"additionalProperties":false},{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}]}},"required":["at"],"additionalProperties":false}, strict"#
        ]],
    );
}

/// An object with arbitrary keys and a value without a type have no strict form. A schema that
/// contains either of them is sent without strict mode, and the reason is reported.
#[test]
fn maps_and_untyped_values_are_not_strict() {
    check(
        json!({"properties": {"x": {"type": "object"}}}),
        expect![[r#"
        as given, not strict
        `properties` at /properties/x: not strict, since its properties may have any name"#]],
    );
    check(
        json!({"properties": {"x": {"additionalProperties": {"type": "integer"}}}}),
        expect![[r#"
        as given, not strict
        `additionalProperties` at /properties/x: not strict, since its properties may have any name"#]],
    );
    check(
        json!({"properties": {"x": {"type": "integer"}}, "additionalProperties": true}),
        expect![[r#"
        as given, not strict
        `additionalProperties` at /: not strict, since its properties may have any name"#]],
    );
    check(
        json!({"patternProperties": {"^x": {"type": "integer"}}}),
        expect![[r#"
        as given, not strict
        `patternProperties` at /: not strict, since it has no strict form"#]],
    );
    check(
        json!({"properties": {"x": {}}}),
        expect![[r#"
        as given, not strict
        `type` at /properties/x: not strict, since any value fits"#]],
    );
    check(
        json!({"properties": {"x": {"type": "array"}}}),
        expect![[r#"
            {"type":"object","properties":{"x":{"type":"array","items":{}}}}, not strict
            `items` at /properties/x: not strict, since its items are not of one kind"#]],
    );
    check(
        json!({"properties": {"x": {"type": "integer"}}, "if": {"required": ["x"]}, "then": {"required": ["y"]}}),
        expect![[r#"
            as given, not strict
            `if` at /: not strict, since it has no strict form"#]],
    );
    check(
        json!({"properties": {"x": {"type": "integer"}}, "not": {"required": ["x"]}}),
        expect![[r#"
            {"type":"object","properties":{"x":{"type":"integer"}},"description":"not: {\"required\":[\"x\"]}"}, not strict
            `not` at /: not strict, since it has no strict form
            `not` at /: stated only in the description"#]],
    );
}

#[test]
fn tool_without_arguments_is_strict() {
    check(
        json!({"type": "object"}),
        expect![[r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}, strict"#]],
    );
}

#[test]
fn unsupported_keywords_move_to_the_description() {
    check(
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Find",
            "properties": {
                "query": {"type": "string", "description": "The query.", "minLength": 1, "default": "a", "pattern": "^(?!x)"},
                "at": {"type": "string", "format": "date", "pattern": "^2"},
                "page": {"type": "string", "format": "uri", "examples": ["x".repeat(200)]},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "minLength": 7},
                "any": {"type": ["object", "string"], "properties": {"x": {"type": "integer"}}, "pattern": "x"},
                "kind": {"enum": ["a", 1, null]},
                "size": {"minimum": 1},
                "less": {"$ref": "#/definitions/less%20than", "minimum": 7},
            },
            "required": ["query", "at", "page", "tags", "any", "kind", "size", "less"],
            "definitions": {"less than": {"type": "number"}},
        }),
        expect![[r##"
            {"title":"Find","type":"object","properties":{"query":{"description":"The query. (minLength: 1; pattern: \"^(?!x)\"; default: \"a\")","type":"string"},"at":{"type":"string","format":"date","pattern":"^2"},"page":{"description":"format: \"uri\"","type":"string"},"tags":{"description":"uniqueItems: true","type":"array","items":{"type":"string"}},"any":{"anyOf":[{"type":"object","properties":{"x":{"type":["integer","null"]}},"required":["x"],"additionalProperties":false},{"type":"string","pattern":"x"}]},"kind":{"type":["string","integer","null"],"enum":["a",1,null]},"size":{"type":"number","minimum":1},"less":{"$ref":"#/$defs/less_than"}},"required":["query","at","page","tags","any","kind","size","less"],"additionalProperties":false,"$defs":{"less_than":{"type":"number"}}}, strict
            `minLength` at /properties/query: stated only in the description
            `pattern` at /properties/query: stated only in the description
            `default` at /properties/query: stated only in the description
            `format` at /properties/page: stated only in the description
            `examples` at /properties/page: left out
            `uniqueItems` at /properties/tags: stated only in the description
            `type` at /properties/size: derived from the other keywords"##]],
    );
}

#[test]
fn recursive_references_are_kept() {
    check(
        json!({
            "properties": {"tree": {"$ref": "#/$defs/tree"}, "again": {"$ref": "#/properties/tree"}, "all": {"$ref": "#"}},
            "required": ["tree"],
            "$defs": {"tree": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/tree"}, "value": {"type": "integer"},
            }, "required": ["value"]}},
        }),
        expect![[
            r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/tree"},"again":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"all":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["tree","again","all"],"additionalProperties":false,"$defs":{"tree":{"type":"object","properties":{"left":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]},"value":{"type":"integer"}},"required":["left","value"],"additionalProperties":false}}}, strict"##
        ]],
    );
}

/// A schema that exactly reaches a size limit of strict mode is strict. A schema above the limit is
/// not.
#[test]
fn strict_limits_are_checked() {
    let obstacle = |schema: Value| {
        let limits = SchemaLimits { nodes: 100_000, bytes: 1 << 24, depth: 300, ..SchemaLimits::default() };
        let derived = Schema::with_limits(schema, &limits).unwrap().for_provider(SchemaTarget::OpenAiStrict);
        assert_eq!(derived.is_strict, derived.strict_obstacle().is_none());
        derived.strict_obstacle().map_or_else(|| "strict".to_owned(), ToString::to_string)
    };
    let nested = |levels: usize| {
        (1..levels).fold(
            json!({"type": "object", "properties": {"x": {"type": "integer"}}}),
            |inner, _| json!({"type": "object", "properties": {"x": inner}}),
        )
    };
    let wide = |count: usize| {
        let properties: Map<_, _> =
            (0..count).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties})
    };
    let chosen = |count: usize| json!({"type": "object", "properties": {"x": {"enum": (0..count).collect::<Vec<_>>()}}});
    let words = |count: usize| {
        let words: Vec<_> = (0..count).map(|n| format!("{n:060}")).collect();
        json!({"type": "object", "properties": {"x": {"enum": words}}})
    };
    assert_eq!(obstacle(nested(10)), "strict");
    assert_eq!(obstacle(wide(5_000)), "strict");
    assert_eq!(obstacle(chosen(1_000)), "strict");
    assert_eq!(obstacle(words(250)), "strict");
    expect![[r#"
        `properties` at /: not strict, since there are more than 10 levels of objects and arrays
        `properties` at /properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x/properties/x: not strict, since it is nested too deep
        `properties` at /: not strict, since there are more than 5000 properties
        `enum` at /: not strict, since there are more than 1000 values of enums
        `enum` at /: not strict, since there are more than 15000 characters in one enum"#]].assert_eq(
        &[nested(11), nested(100), wide(5_001), chosen(1_001), words(251)].map(obstacle).join("\n"),
    );
}

/// The expansion of references can double the size of a small schema at each level. The derivation
/// of the strict schema must stop before the schema becomes large.
#[test]
fn schema_bomb_is_not_strict() {
    let level = |level: usize| {
        let next = json!({"allOf": [{"$ref": format!("#/$defs/a{}", level + 1)}, {"minProperties": 1}]});
        json!({"type": "object", "properties": {"x": next, "y": next}, "required": ["x", "y"]})
    };
    let mut definitions: Map<_, _> = (0..40).map(|number| (format!("a{number}"), level(number))).collect();
    definitions.insert("a40".to_owned(), json!({"type": "object", "properties": {"z": {"type": "string"}}}));
    let schema = Schema::new(json!({"$ref": "#/$defs/a0", "$defs": definitions})).unwrap();
    let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
    expect!["`properties` at /$defs/a32/properties/x: not strict, since it is nested too deep"]
        .assert_eq(&derived.strict_obstacle().unwrap().to_string());
}

/// Without `strict: true`, OpenAI restricts only the root, so nested schemas must not change.
#[test]
fn only_the_root_changes_without_strict() {
    let target = SchemaTarget::OpenAi;
    let nested = json!({"properties": {"x": {"oneOf": [{"type": "integer", "not": {"const": 1}}, {}]}}, "required": ["x"]});
    check_target(target, nested, &expect!["as given, not strict"]);
    check_target(
        target,
        json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"minProperties": 2}], "not": {"required": ["b"]}, "maxProperties": 4}),
        &expect![[r#"
            {"type":"object","maxProperties":4,"properties":{"a":{}},"required":["a"],"description":"not: {\"required\":[\"b\"]}"}, not strict
            `minProperties` at /allOf/1: left out
            `not` at /: stated only in the description"#]],
    );
    check_target(
        target,
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": {"$ref": "#"}}}}}),
        &expect![[
            r##"{"type":"object","$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#"}}}},"properties":{"x":{"$ref":"#"}}}, not strict"##
        ]],
    );
    check_target(
        target,
        json!({"anyOf": [{"properties": {"a": {"$ref": "#/anyOf/1"}}}, {"properties": {"b": {}}}]}),
        &expect![[r#"
            {"type":"object","properties":{}}, not strict
            `anyOf` at /: sent as one object with the properties of all alternatives
            `properties` at /: left out"#]],
    );
}

#[test]
fn changes_can_be_serialized() {
    let schema = Schema::for_arguments(
        json!({"properties": {"x": {"type": "string", "minLength": 1}}, "additionalProperties": {}}),
    );
    let changes = schema.unwrap().for_provider(SchemaTarget::OpenAiStrict).changes;
    assert!(matches!(changes[0].kind, SchemaChangeKind::NotStrict { .. }));
    let text = serde_json::to_string(&changes).unwrap();
    expect![[r#"[{"pointer":"","keyword":"additionalProperties","kind":"not_strict","reason":"its properties may have any name"}]"#]].assert_eq(&text);
    assert_eq!(serde_json::from_str::<Vec<haft_schema::SchemaChange>>(&text).unwrap(), changes);
}
