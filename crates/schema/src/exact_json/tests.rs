use serde_json::json;

use super::*;
use crate::{JsonText, Schema};

#[track_caller]
fn check(literal: &str, expected: Result<Value, &str>) {
    let text = format!(r#"{{"a/b": [{literal}]}}"#);
    let value = JsonText::from(text.as_str()).value().cloned();
    match expected {
        Ok(expected) => assert_eq!(value, Ok(json!({"a/b": [expected]})), "{literal}"),
        Err(expected) => {
            let message = value.unwrap_err().to_string();
            assert!(message.starts_with(&format!("/a~1b/0: {expected}: {literal}; write ")), "{message}");
        }
    }
}

#[test]
fn numbers_are_exact_or_rejected() {
    for (literal, expected) in [
        ("0", json!(0)),
        ("-0.0", json!(-0.0)),
        ("0e999", json!(0.0)),
        ("3.0", json!(3.0)),
        ("1e3", json!(1000)),
        ("1.5E+3", json!(1500)),
        ("-2.50e1", json!(-25)),
        ("1e-3", json!(0.001)),
        ("1e19", json!(10_000_000_000_000_000_000_u64)),
        ("1e20", json!(1e20)),
        ("6.02214076e23", json!(6.022_140_76e23)),
        ("9007199254740993.0", json!(9_007_199_254_740_993_i64)),
        ("1234567890123456789", json!(1_234_567_890_123_456_789_i64)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0.10000000000000001", json!(0.1)),
        ("0.000000000000000000000000001", json!(1e-27)),
        ("100000000000000000000000", json!(1e23)),
        ("0.300000000000000000000000", json!(0.3)),
    ] {
        check(literal, Ok(expected));
    }
    for (literal, expected) in [
        ("18446744073709551616", "integer out of range"),
        ("-9223372036854775809", "integer out of range"),
        ("123456789012345678901234567890", "integer out of range"),
        ("1e400", "number out of range"),
        ("-1e400", "number out of range"),
        ("1e-400", "number out of range"),
        ("1e99999999999999999999", "number out of range"),
        ("0.123456789012345678", "number with too many digits"),
        ("3.14159265358979323846", "number with too many digits"),
        ("1.00000000000000000000001e30", "number with too many digits"),
    ] {
        check(literal, Err(expected));
    }
}

#[test]
fn integer_beyond_64_bits_is_valid_only_as_a_number() {
    let schema = |kind: Value| Schema::new(json!({"properties": {"n": {"type": kind}}})).unwrap();
    for literal in ["1e30", "-1e30", "100000000000000000000000", "1.5e300"] {
        let value = parse_json(&format!(r#"{{"n": {literal}}}"#)).unwrap();
        assert!(schema(json!("number")).is_valid(&value), "{literal}");
        assert!(schema(json!(["integer", "number"])).is_valid(&value), "{literal}");
        for kind in [json!("integer"), json!(["integer", "null"])] {
            assert!(!schema(kind.clone()).is_valid(&value), "{literal}");
            let violations = schema(kind).validate(&value).unwrap_err().to_string();
            assert!(violations.starts_with("/n: integer out of range: "), "{violations}");
        }
    }
}

#[test]
fn violations_of_numbers_are_listed_with_the_others() {
    let schema =
        Schema::new(json!({"properties": {"id": {"type": "integer"}}, "required": ["name"]})).unwrap();
    let value = parse_json(r#"{"id": 123456789012345678901234567890, "any": [1e400]}"#).unwrap();
    let violations = schema.validate(&value).unwrap_err();
    let messages: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].starts_with("/id: integer out of range: 1234567890"));
    assert!(messages[1].starts_with("/any/0: number out of range: 1e400"));
    assert_eq!(messages[2], r#"/: missing required property "name""#);
}

#[test]
fn every_schema_rejects_a_number_that_cannot_be_held() {
    let value = parse_json(r#"{"x": 1e400}"#).unwrap();
    for schema in [json!(true), json!({}), json!({"type": "object"})] {
        assert!(!Schema::new(schema).unwrap().is_valid(&value));
    }
    assert!(!Schema::object().is_valid(&value));
    assert!(Schema::object().validate(&value).is_err());
}

#[test]
fn text_of_a_number_that_cannot_be_held_is_the_original() {
    let text =
        r#"{"a":[1e400,-123456789012345678901],"b":"{\"haft:number\":\"1\"}","c":{"haft:number":"x"}}"#;
    let value = parse_json(text).unwrap();
    assert_eq!(json_text(&value), text);
    assert!(JsonText::from(value).value().is_err());
}

#[test]
fn leading_value_ends_at_its_original_length() {
    for text in
        ["{\"x\": 1e400} and", " [1e3, 12345678901234567890123, 1e400] 1e400", "[1] and 1e400", "{\"x\": 2}"]
    {
        let (_, end) = parse_leading_json(text).unwrap();
        assert!(text[..end].ends_with(['}', ']']), "{text}: {end}");
        assert!(!text[end..].contains(['}', ']']), "{text}: {end}");
    }
    assert!(parse_leading_json("and [1]").is_none());
}

#[test]
fn rounded_numbers_are_found() {
    for number in [
        "0",
        "-1",
        "-0",
        "18446744073709551615",
        "-9223372036854775808",
        "1.5",
        "0.1",
        "0.10000000000000001",
        "0.30000000000000004",
        "-12345678.123456789",
        "1e2",
        "1E+2",
        "2.50e-3",
        "0e999",
        "0.000000000000000000000",
        "1.50000000000000000000",
        "1000000000000000000000",
        "100000000000000000000000",
        "1e300",
        "1.7976931348623157e308",
    ] {
        assert_eq!(first_rounded_number(number), None, "{number}");
    }
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "12345678901234567890123e-2",
        "9007199254740993.0",
        "0.1234567890123456789",
        "3.14159265358979323846",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
    ] {
        let json = format!(r#"{{"a": [1, "text \" 1e400"], "b": {{"c": {number}}}}}"#);
        assert_eq!(first_rounded_number(&json), Some(number), "{number}");
    }
    for json in
        [r#""18446744073709551616""#, r#"{"1e400": "\\"}"#, r#"["a"#, "tru-", "\"\\", "--------------------"]
    {
        assert_eq!(first_rounded_number(json), None, "{json}");
    }
}
