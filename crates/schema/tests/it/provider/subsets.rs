//! Tests of schemas derived for Gemini and for small models. Both targets can represent every
//! schema at least approximately.

use expect_test::expect;
use haft_schema::{
    Schema,
    SchemaTarget::{Gemini, OpenAi, SmallModel},
};
use serde_json::{Map, json};

use super::check_target;

/// Returns the schema of an order, as Pydantic generates it, or schemars for a Rust type with
/// `Option`.
fn order_schema() -> serde_json::Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OrderArguments",
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"$ref": "#/$defs/Item"},
                "minItems": 1,
                "description": "What is ordered.",
            },
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Note"},
            "priority": {"$ref": "#/$defs/Priority", "description": "How soon."},
            "when": {"type": ["string", "null"], "format": "date"},
            "price": {"type": "number", "exclusiveMinimum": 0},
        },
        "required": ["items"],
        "additionalProperties": false,
        "$defs": {
            "Item": {
                "type": "object",
                "properties": {"sku": {"type": "string", "minLength": 1}, "count": {"type": "integer", "format": "int64"}},
                "required": ["sku"],
            },
            "Priority": {"enum": ["low", "high"]},
        },
    })
}

#[test]
fn schema_of_a_typical_order() {
    check_target(
        Gemini,
        order_schema(),
        &expect![[r#"
            {"title":"OrderArguments","type":"object","properties":{"items":{"description":"What is ordered.","type":"array","minItems":1,"items":{"type":"object","properties":{"sku":{"type":"string","minLength":1},"count":{"type":"integer","format":"int64"}},"required":["sku"]}},"note":{"title":"Note","description":"default: null","type":"string","nullable":true},"priority":{"description":"How soon.","type":"string","format":"enum","enum":["low","high"]},"when":{"description":"format: \"date\"","type":"string","nullable":true},"price":{"description":"exclusiveMinimum: 0","type":"number"}},"required":["items"]}, not strict
            `additionalProperties` at /: left out
            `default` at /properties/note: stated only in the description
            `format` at /properties/when: stated only in the description
            `exclusiveMinimum` at /properties/price: stated only in the description"#]],
    );
    check_target(
        SmallModel,
        order_schema(),
        &expect![[r#"
            {"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string","minLength":1},"count":{"type":"integer"}},"required":["sku"]},"minItems":1,"description":"What is ordered."},"note":{"type":"string"},"priority":{"description":"How soon.","enum":["low","high"]},"when":{"type":"string","format":"date"},"price":{"type":"number","exclusiveMinimum":0}},"required":["items"]}, not strict
            `title` at /: left out
            `additionalProperties` at /: left out
            `format` at /$defs/Item/properties/count: left out
            `title` at /properties/note: left out
            `type` at /properties/note: absent instead of null
            `type` at /properties/when: absent instead of null"#]],
    );
}

/// A recursive `$ref` is inlined once. The same `$ref` inside the inlined schema becomes a schema
/// for any value of its type.
#[test]
fn recursive_tree_is_inlined_once() {
    let tree = json!({
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {
            "type": "object",
            "description": "A node.",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }},
    });
    check_target(
        Gemini,
        tree.clone(),
        &expect![[r#"
        {"type":"object","properties":{"root":{"description":"A node.","type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"description":"A node.","type":"object"}}}}}}, not strict
        `$ref` at /$defs/node/properties/children/items: not inlined, any value of its type is allowed"#]],
    );
    check_target(
        SmallModel,
        tree,
        &expect![[r#"
        {"type":"object","properties":{"root":{"type":"object","description":"A node.","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"description":"A node.","type":"object"}}}}}}, not strict
        `$ref` at /$defs/node/properties/children/items: not inlined, any value of its type is allowed"#]],
    );
    let root = json!({"properties": {"next": {"$ref": "#"}, "list": {"type": "array", "items": {"$ref": "#/properties/list"}}}});
    check_target(
        Gemini,
        root.clone(),
        &expect![[r#"
            {"type":"object","properties":{"next":{"type":"object"},"list":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}}}}}}, not strict
            `$ref` at /properties/next: not inlined, any value of its type is allowed
            `$ref` at /properties/list/items: not inlined, any value of its type is allowed"#]],
    );
    check_target(
        SmallModel,
        root,
        &expect![[r#"
            {"type":"object","properties":{"next":{"type":"object"},"list":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}}}}}}, not strict
            `$ref` at /properties/next: not inlined, any value of its type is allowed
            `$ref` at /properties/list/items: not inlined, any value of its type is allowed"#]],
    );
}

/// The schema of a serde enum consists of alternatives with a constant tag. The alternatives must
/// not be merged, except at the root for Gemini, where the schema must be a single object.
#[test]
fn tagged_alternatives_are_kept() {
    let shape = json!({
        "properties": {"shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
            {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
            {"type": "null"},
        ], "description": "What to draw."}},
    });
    check_target(
        Gemini,
        shape.clone(),
        &expect![[r#"
        {"type":"object","properties":{"shape":{"description":"What to draw.","anyOf":[{"type":"object","properties":{"kind":{"type":"string","format":"enum","enum":["circle"]},"radius":{"type":"number"}},"required":["kind","radius"]},{"type":"object","properties":{"kind":{"type":"string","format":"enum","enum":["square"]},"side":{"type":"number"}},"required":["kind","side"]}],"nullable":true}}}, not strict
        `oneOf` at /properties/shape: sent as `anyOf`, so that several alternatives may fit"#]],
    );
    check_target(
        SmallModel,
        shape,
        &expect![[r#"
        {"type":"object","properties":{"shape":{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"number"}},"required":["kind","radius"]},{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"}},"required":["kind","side"]}],"description":"What to draw."}}}, not strict
        `type` at /properties/shape: absent instead of null"#]],
    );
    let root = json!({"oneOf": [
        {"properties": {"action": {"const": "open"}, "path": {"type": "string"}}, "required": ["action", "path"]},
        {"properties": {"action": {"const": "close"}, "id": {"type": "integer"}}, "required": ["action"]},
    ]});
    check_target(
        Gemini,
        root.clone(),
        &expect![[r#"
            {"type":"object","properties":{"action":{"type":"string","format":"enum","enum":["open","close"]},"path":{"type":"string"},"id":{"type":"integer"}},"required":["action"]}, not strict
            `oneOf` at /: sent as one object with the properties of all alternatives
            `type` at /oneOf/1/properties/action: sent as `anyOf`, so that several alternatives may fit"#]],
    );
    check_target(SmallModel, root, &expect!["as given, not strict"]);
}

/// Gemini rejects a request with an unsupported keyword. Every unsupported keyword must be removed,
/// replaced by supported keywords, or moved to the description.
#[test]
fn keywords_rejected_by_gemini_are_replaced() {
    let refused = json!({"properties": {
        "any": {},
        "anything": true,
        "list": {"type": "array"},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
        "level": {"enum": [1, 2, 3]},
        "empty": {"enum": ["", "a"]},
        "mixed": {"enum": ["a", 1, null]},
        "url": {"type": "string", "format": "uri"},
        "types": {"type": ["string", "integer", "number", "null"], "description": "A number, or its name."},
        "nested": {"anyOf": [{"type": ["string", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}]},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "step": {"type": "integer", "multipleOf": 5, "exclusiveMaximum": 100},
        "code": {"type": "string", "pattern": "^(?!x)"},
        "object": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
        "nullable": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
        "nothing": {"type": "null"},
    }});
    check_target(
        Gemini,
        refused,
        &expect![[r#"
            {"type":"object","properties":{"any":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]},"anything":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]},"list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}},"pair":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"level":{"description":"enum: [1,2,3]","type":"integer"},"empty":{"type":"string","format":"enum","enum":["a"]},"mixed":{"anyOf":[{"type":"string","format":"enum","enum":["a"]},{"description":"enum: [\"a\",1,null]","type":"integer"}],"nullable":true},"url":{"description":"format: \"uri\"","type":"string"},"types":{"description":"A number, or its name.","anyOf":[{"type":"string"},{"type":"number"}],"nullable":true},"nested":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"boolean"}],"nullable":true},"map":{"description":"additionalProperties: {\"type\":\"integer\"}","type":"object"},"step":{"description":"multipleOf: 5; exclusiveMaximum: 100","type":"integer"},"code":{"description":"pattern: \"^(?!x)\"","type":"string"},"object":{"type":"object","properties":{"a":{"type":"string"},"b":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}},"required":["a","b"]},"nullable":{"type":"object","properties":{"a":{"type":"string"}},"nullable":true},"nothing":{"type":"null"}}}, not strict
            `type` at /properties/any: some valid values are removed
            `type` at /properties/anything: some valid values are removed
            `type` at /properties/list: some valid values are removed
            `items` at /properties/pair: left out
            `prefixItems` at /properties/pair: sent as `anyOf`, so that several alternatives may fit
            `enum` at /properties/level: stated only in the description
            `enum` at /properties/empty: some valid values are removed
            `enum` at /properties/mixed: stated only in the description
            `format` at /properties/url: stated only in the description
            `additionalProperties` at /properties/map: stated only in the description
            `multipleOf` at /properties/step: stated only in the description
            `exclusiveMaximum` at /properties/step: stated only in the description
            `pattern` at /properties/code: stated only in the description
            `required` at /properties/object: some valid values are removed"#]],
    );
    let tuple = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "string"}]}},
    });
    check_target(
        Gemini,
        tuple,
        &expect![[r#"
        {"type":"object","properties":{"pair":{"type":"array","items":{"type":"string"}}}}, not strict
        `items` at /properties/pair: sent as `anyOf`, so that several alternatives may fit"#]],
    );
}

/// If two parts of an `allOf` contain the same keyword with different values, the first value must
/// be kept, and the second must be reported as dropped.
#[test]
fn first_of_conflicting_keywords_is_kept() {
    let parts = json!({
        "allOf": [
            {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer"}, "c": {"type": "integer"}}, "minProperties": 2},
            {"$ref": "#/$defs/more"},
        ],
        "maxProperties": 3,
        "$defs": {"more": {"properties": {"d": {"not": {"type": "string"}}, "e": {"$ref": "#x"}}, "maxProperties": 4, "$anchor": "x"}},
    });
    check_target(
        Gemini,
        parts.clone(),
        &expect![[r#"
        {"type":"object","maxProperties":3,"minProperties":2,"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"integer"},"d":{"description":"not: {\"type\":\"string\"}","anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]},"e":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"}]}},"required":["a"]}, not strict
        `type` at /allOf/1/properties/a: left out
        `maxProperties` at /$defs/more: left out
        `type` at /$defs/more/properties/d: some valid values are removed
        `not` at /$defs/more/properties/d: stated only in the description
        `$ref` at /$defs/more/properties/e: left out
        `type` at /$defs/more/properties/e: some valid values are removed"#]],
    );
    check_target(
        SmallModel,
        parts,
        &expect![[r#"
        {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"integer"},"d":{},"e":{}},"required":["a"]}, not strict
        `type` at /allOf/1/properties/a: left out
        `maxProperties` at /$defs/more: left out
        `maxProperties` at /: left out
        `minProperties` at /allOf/1: left out
        `not` at /$defs/more/properties/d: left out
        `$ref` at /$defs/more/properties/e: left out"#]],
    );
}

/// A keyword such as `additionalProperties` depends on the properties declared beside it. Merging
/// an `allOf` would change its meaning, so the keyword must be dropped.
#[test]
fn keywords_that_depend_on_siblings_are_dropped() {
    let remainder = json!({"allOf": [{"properties": {"a": {}}}], "additionalProperties": {"type": "string"}});
    check_target(
        OpenAi,
        remainder.clone(),
        &expect![[r#"
        {"type":"object","properties":{"a":{}}}, not strict
        `additionalProperties` at /: left out"#]],
    );
    check_target(
        SmallModel,
        remainder,
        &expect![[r#"
        {"type":"object","properties":{"a":{}}}, not strict
        `additionalProperties` at /: left out"#]],
    );
    let items = json!({"properties": {"a": {"allOf": [{"prefixItems": [{"type": "string"}]}], "items": {"type": "integer"}}}});
    check_target(
        SmallModel,
        items,
        &expect![[r#"
        {"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}]}}}, not strict
        `items` at /properties/a: left out"#]],
    );
}

/// A property without valid values is dropped. A root without valid values becomes a plain object.
/// Both changes must be reported.
#[test]
fn contradictions_are_dropped_or_replaced() {
    let never = json!({"properties": {"a": {"type": "string"}, "b": false}});
    check_target(
        Gemini,
        never.clone(),
        &expect![[r#"
        {"type":"object","properties":{"a":{"type":"string"}}}, not strict
        `type` at /properties/b: left out"#]],
    );
    check_target(
        SmallModel,
        never,
        &expect![[r#"
        {"type":"object","properties":{"a":{"type":"string"}}}, not strict
        `type` at /properties/b: left out"#]],
    );
    check_target(
        Gemini,
        json!({"const": 2}),
        &expect![[r#"
            {"description":"const: 2","type":"object"}, not strict
            `const` at /: stated only in the description"#]],
    );
    check_target(
        OpenAi,
        json!({"allOf": [true, false, {"type": "number"}]}),
        &expect![[r#"
        {"type":"object","properties":{}}, not strict
        `type` at /allOf/1: left out
        `type` at /allOf/2: left out"#]],
    );
}

/// In a schema of the type `null`, an assertion such as `not` must be dropped and reported.
#[test]
fn assertions_about_null_are_dropped() {
    let rule = json!({"properties": {"a": {"type": "null", "not": {"const": 1}}}});
    check_target(
        Gemini,
        rule,
        &expect![[r#"
        {"type":"object","properties":{"a":{"type":"null"}}}, not strict
        `not` at /properties/a: left out"#]],
    );
}

/// A schema and a part of its `allOf` may require the same property. `required` must contain it
/// once, because JSON Schema forbids duplicates.
#[test]
fn property_required_by_several_parts_is_listed_once() {
    let parts = json!({"properties": {"a": {}}, "required": ["a"], "allOf": [{"required": ["a"]}]});
    check_target(
        OpenAi,
        parts,
        &expect![[r#"{"type":"object","properties":{"a":{}},"required":["a"]}, not strict"#]],
    );
}

/// The expansion of a small schema with many references to the same subschema is bounded.
#[test]
fn size_of_inlined_schemas_is_bounded() {
    let mut doubled = json!({"type": "string"});
    for _ in 0..8 {
        let rules: Vec<_> = (0..10).map(|number| json!({"minProperties": number})).collect();
        doubled = json!({"type": "object", "properties": {"p": doubled}, "anyOf": rules});
    }
    let long = "x".repeat(100_000);
    let names: Map<_, _> =
        (0..1_000).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/long"}))).collect();
    let alternatives: Vec<_> = (0..500).map(|number| json!({"title": number.to_string()})).collect();
    for schema in [
        json!({"properties": {"x": doubled}}),
        json!({"properties": names, "$defs": {"long": {"enum": [long]}}}),
        json!({"properties": {"x": {"anyOf": alternatives, "oneOf": alternatives, "properties": names, "type": "object"}}, "$defs": {"long": {}}}),
    ] {
        let schema = Schema::for_arguments(schema).unwrap();
        for target in [Gemini, SmallModel] {
            let derived = schema.for_provider(target);
            assert!(derived.value.to_string().len() < 2_000_000, "{target:?}");
            assert!(derived.changes.len() < 50_000);
        }
    }
}

/// For small models, a long description is cut after a whole sentence if possible. If it is cut
/// within a sentence, it ends with an ellipsis.
#[test]
fn descriptions_for_small_models_are_shortened() {
    let long = format!(
        "Finds pages, e.g. of a wiki. {}",
        "It looks at the titles first, then at the text. ".repeat(8)
    );
    let words = "word ".repeat(100);
    let schema = json!({"properties": {
        "q": {"type": "string", "description": long, "title": "Q", "if": {"minLength": 1}, "then": {"maxLength": 9}, "x-order": 1},
        "w": {"description": words},
    }});
    check_target(
        SmallModel,
        schema,
        &expect![[r#"
        {"type":"object","properties":{"q":{"type":"string","description":"Finds pages, e.g. of a wiki. It looks at the titles first, then at the text. It looks at the titles first, then at the text. It looks at the titles first, then at the text. It looks at the titles first, then at the text. It looks at the titles first, then at the text."},"w":{"description":"word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word wo…"}}}, not strict
        `description` at /properties/q: shortened
        `title` at /properties/q: left out
        `if` at /properties/q: left out
        `then` at /properties/q: left out
        `x-order` at /properties/q: left out
        `description` at /properties/w: shortened"#]],
    );
}
