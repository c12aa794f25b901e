//! Validation and repair end in bounded time for every accepted schema and value.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};

use super::super::*;

/// The time limit for a check in these tests. With its cost budget, a check takes much less time,
/// even on a slow machine. Without a budget, the same check would take much longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Validates and repairs `value`, and panics if this takes longer than [`TIMEOUT`]. Returns the
/// text of the violations, or `valid`.
fn validate_in_time(schema: Value, value: &Value) -> String {
    let schema = Schema::new(schema).unwrap();
    let started = Instant::now();
    let text =
        schema.validate(value).map_or_else(|violations| violations.to_string(), |()| "valid".to_owned());
    let validated = started.elapsed();
    repair(&schema, value.clone(), RepairPolicy::Default);
    let repaired = started.elapsed();
    eprintln!("{validated:?} {repaired:?} {text:.100}");
    assert!(repaired < TIMEOUT, "{validated:?} {repaired:?}");
    text
}

fn check_in_time(schema: Value, value: &Value, expected: Expect) {
    expected.assert_eq(&validate_in_time(schema, value));
}

fn nested_value(levels: usize, innermost: Value) -> Value {
    (0..levels).fold(innermost, |inner, _| json!({"c": inner}))
}

#[test]
fn exponential_error_lists_are_not_built() {
    let part = json!({"properties": {"c": {"$ref": "#"}}});
    let schema = json!({"type": "object", "allOf": [part, part]});
    check_in_time(
        schema.clone(),
        &nested_value(30, json!(1)),
        expect![[r#"/: expected a value that fits the schema, received object with "c""#]],
    );
    check_in_time(
        schema,
        &nested_value(2, json!(1)),
        expect![[r#"/c/c: expected object, received integer 1"#]],
    );
}

#[test]
fn errors_of_untagged_nested_unions_are_bounded() {
    let alternatives: Vec<_> = ["a", "b", "d"]
        .map(|name| json!({"type": "object", "properties": {"c": {"$ref": "#"}, name: {"type": "string"}}}))
        .into();
    check_in_time(
        json!({"anyOf": alternatives}),
        &nested_value(40, json!(1)),
        expect![[r#"/: expected a value that fits the schema, received object with "c""#]],
    );
}

/// Each definition refers twice to the next definition. The schema is not recursive, but the cost
/// doubles with each level of the value. The check must stop when its budget is used up.
#[test]
fn doubled_references_per_value_level_exceed_the_budget() {
    let mut definitions = Map::new();
    for number in 0..60 {
        let part = json!({"properties": {"c": {"$ref": format!("#/$defs/{}", number + 1)}}});
        definitions.insert(number.to_string(), json!({"allOf": [part, part]}));
    }
    definitions.insert("60".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
    check_in_time(
        schema.clone(),
        &nested_value(60, json!("a")),
        expect![[
            r#"/: expected a value that can be validated in reasonable time, received object with "c""#
        ]],
    );
    validate_in_time(schema, &nested_value(60, json!(1)));
}

#[test]
fn nested_unevaluated_properties_are_bounded() {
    let schema = (0..20).fold(
        json!({"properties": {"c": {"type": "integer"}}}),
        |inner, _| json!({"allOf": [inner, true], "anyOf": [inner, false], "unevaluatedProperties": false}),
    );
    if let Ok(schema) = Schema::new(schema) {
        validate_in_time(schema.as_value().clone(), &nested_value(1, json!(1)));
    }
    let schema = (0..30).fold(
        json!({"properties": {"c": {"type": "integer"}}}),
        |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}),
    );
    validate_in_time(schema.clone(), &nested_value(1, json!(1)));
    validate_in_time(schema, &nested_value(1, json!("a")));
}

#[test]
fn many_subschemas_for_many_items_are_bounded() {
    let parts: Vec<_> = (0..3_000).map(|_| json!({"type": "integer"})).collect();
    let items: Vec<_> = (0..400_000).map(|_| 1).collect();
    let schema = json!({"items": {"allOf": parts}});
    validate_in_time(schema.clone(), &json!(items));
    let mut few = items;
    few.truncate(9_000);
    let mut few = json!(few);
    few[8_999] = json!("a");
    validate_in_time(schema, &few);
    validate_in_time(json!({"items": {"allOf": parts}}), &json!(vec!["a"; 9_000]));
}

#[test]
fn unique_items_with_equal_hashes_exceed_the_budget() {
    let item = |number: usize| {
        let bits = (0..16).map(|bit| if number >> bit & 1 == 1 { json!([[]]) } else { json!([]) });
        bits.collect::<Value>()
    };
    let items: Vec<_> = (0..16_000).map(item).collect();
    check_in_time(
        json!({"uniqueItems": true}),
        &json!(items),
        expect![
            "/: expected a value that can be validated in reasonable time, received array of 16000 items"
        ],
    );
    let objects: Vec<_> = (0..10_000).map(|id| json!({"id": id, "name": "a"})).collect();
    check_in_time(json!({"uniqueItems": true}), &json!(objects), expect!["valid"]);
}

#[test]
fn backtracking_expressions_are_bounded() {
    let looks_ahead = json!({"pattern": "(?!.*z)y"});
    validate_in_time(looks_ahead.clone(), &Value::from("a".repeat(1 << 20)));
    validate_in_time(json!({"items": {"pattern": r"^(a+)+\1$"}}), &json!(vec!["a".repeat(40) + "b"; 20_000]));
    let texts: Vec<_> = (0..20_000).map(|number| format!("{}{number}", "a".repeat(30))).collect();
    validate_in_time(json!({"items": {"not": {"pattern": r"^(a+)+\1$"}}}), &json!(texts));
    validate_in_time(json!({"pattern": "(.?){1000}(.?){1000}z$"}), &Value::from("a".repeat(1 << 20)));
    check_in_time(looks_ahead, &json!("yes"), expect!["valid"]);
}

#[test]
fn large_values_of_simple_schemas_are_valid() {
    let row = json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string", "maxLength": 20}},
        "required": ["id"],
        "additionalProperties": false,
    });
    let rows: Vec<_> = (0..30_000).map(|id| json!({"id": id, "name": "a name"})).collect();
    check_in_time(json!({"type": "array", "items": row}), &json!(rows), expect!["valid"]);
    check_in_time(
        json!({"properties": {"text": {"type": "string", "pattern": r"^[\s\S]*$"}}}),
        &json!({"text": "a".repeat(1 << 20)}),
        expect!["valid"],
    );
    let leaf = (0..500).fold(json!([]), |mut all, _| {
        all.as_array_mut().unwrap().push(json!({"c": {"c": {"d": []}}}));
        all
    });
    check_in_time(
        json!({"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}}),
        &leaf,
        expect!["valid"],
    );
}

#[test]
fn many_unknown_names_are_explained_in_time() {
    let known: Map<_, _> = (0..4_000).map(|number| (format!("property_{number}"), json!({}))).collect();
    let unknown: Map<_, _> = (0..9_999).map(|number| (format!("propertie_{number}"), json!(1))).collect();
    let schema = json!({"properties": known, "additionalProperties": false});
    let text = validate_in_time(schema, &Value::Object(unknown));
    assert!(text.ends_with("more"), "{text}");
    assert!(text.contains(r#"did you mean "property_"#), "{text}");
}

#[test]
fn long_names_are_shortened() {
    let long = "n".repeat(100_000);
    let schema = Schema::new(json!({
        "properties": {"a": {"required": [long]}, long.clone(): {"type": "string"}}, "additionalProperties": false,
    }))
    .unwrap();
    let mut other = String::new();
    for number in 0..10_000 {
        write!(other, "{number}").unwrap();
    }
    let value = json!({"a": {}, other: 1, long: 1});
    let violations = schema.validate(&value).unwrap_err();
    assert_eq!(violations.as_slice().len(), 3);
    for violation in &violations {
        assert!(violation.to_string().len() <= 2_100);
        assert!(violation.expected.len() + violation.received.len() <= 1_000);
    }
    assert!(violations.to_string().len() <= 4_096);
}

/// The text of all violations of a value has at most 4 KiB, even for 20 long violations. It ends
/// with the number of omitted violations.
#[test]
fn text_of_violations_is_bounded() {
    let names: Vec<_> = (0..20).map(|number| format!("{number:0>300}")).collect();
    let properties: Map<_, _> = names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let value: Map<_, _> = names.iter().map(|name| (name.clone(), json!([1, 2, 3]))).collect();
    let schema = Schema::new(json!({"properties": properties})).unwrap();
    let text = schema.validate(&Value::Object(value)).unwrap_err().to_string();
    assert!(text.len() <= 4_096, "{}", text.len());
    let shown = text.lines().count() - 1;
    assert!(text.ends_with(&format!("\nand {} more", 20 - shown)), "{text}");
}

/// The validator uses stack space for each subschema on the path to the innermost value, and a
/// chain of references adds many subschemas per level. The allowed depth of a value must therefore
/// decrease with the length of the chain.
#[test]
fn long_reference_chains_do_not_exhaust_the_stack() {
    let chain = |length: usize| {
        let mut definitions = Map::new();
        for number in 0..length {
            definitions.insert(number.to_string(), json!({"$ref": format!("#/$defs/{}", number + 1)}));
        }
        let last = json!({"type": "object", "properties": {"c": {"$ref": "#/$defs/0"}}});
        definitions.insert(length.to_string(), last);
        json!({"$ref": "#/$defs/0", "$defs": definitions})
    };
    assert_eq!(validate_in_time(chain(8), &nested_value(98, json!({}))), "valid");
    for length in [20, 80, 400] {
        validate_in_time(chain(length), &nested_value(98, json!({})));
        validate_in_time(chain(length), &nested_value(1_500 / (length + 2) - 1, json!(1)));
        validate_in_time(chain(length), &json!(1));
    }
    assert!(Schema::new(chain(4_000)).is_err());
}

/// The compiler follows nested references recursively, and each reference may lead to the deepest
/// part of the document. A schema that would overflow the stack in a debug build must be rejected.
#[test]
fn deep_parts_with_references_to_each_other_are_rejected() {
    let linked = |definitions: usize, depth: usize| {
        let link = |number: usize| {
            let next = json!({"$ref": format!("#/$defs/{}", number + 1)});
            (number.to_string(), (0..depth).fold(next, |inner, _| json!({"items": inner})))
        };
        let mut all: Map<_, _> = (0..definitions).map(link).collect();
        all.insert(definitions.to_string(), json!({"type": "integer"}));
        json!({"$ref": "#/$defs/0", "$defs": all})
    };
    for (definitions, depth) in [(1, 55), (2, 55), (140, 30), (2_000, 1)] {
        assert!(Schema::new(linked(definitions, depth)).is_ok(), "{definitions} of {depth}");
    }
    for (definitions, depth) in [(8, 55), (140, 55), (10, 40)] {
        let error = Schema::new(linked(definitions, depth)).unwrap_err().to_string();
        assert_eq!(error, "invalid schema at /: nested deeper than 33 levels", "{definitions} of {depth}");
    }
}

/// Each dialect has keywords that the other dialect ignores. The validator with a budget must
/// ignore the same keywords as the original validator.
#[test]
fn metered_validator_ignores_keywords_of_the_other_dialect() {
    let no_schema = json!({"properties": {"a": 1}});
    let draft_7 = |keyword: &str, value: Value| {
        let mut schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"text": {"type": "string"}},
            "uniqueItems": true,
        });
        schema[keyword] = value;
        schema
    };
    for (schema, value) in [
        (json!({"additionalItems": no_schema, "uniqueItems": true}), json!([1])),
        (json!({"additionalItems": {"type": "string"}, "items": {}, "uniqueItems": true}), json!([1])),
        (draft_7("prefixItems", json!([no_schema])), json!([1])),
        (draft_7("unevaluatedProperties", no_schema.clone()), json!({"b": 1})),
        (draft_7("$defs", json!({"a": no_schema})), json!({"b": 1})),
        (draft_7("$dynamicRef", json!("#/definitions/text")), json!({"b": 1})),
    ] {
        let schema = Schema::new(schema).unwrap();
        assert_eq!(schema.validate(&value), Ok(()), "{schema:?}");
    }
}
