use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PartialJson, parse_partial};

fn parse(text: &str) -> Option<Value> {
    let mut partial = PartialJson::default();
    partial.push(text);
    partial.value()
}

#[test]
fn open_values_are_closed_and_tokens_are_not_halved() {
    for (text, expected) in [
        ("", None),
        ("  ", None),
        ("12", None),
        ("\"", Some(json!(""))),
        ("\"a\\", Some(json!("a"))),
        ("\"a\\u00e", Some(json!("a"))),
        (r#""\ud83c"#, Some(json!(""))),
        (r#""\ud83c\udf0d"#, Some(json!("🌍"))),
        ("{", Some(json!({}))),
        (r#"{"na"#, Some(json!({}))),
        (r#"{"name""#, Some(json!({}))),
        (r#"{"name": "#, Some(json!({}))),
        (r#"{"name": "A"#, Some(json!({"name": "A"}))),
        (r#"{"a": tru"#, Some(json!({}))),
        (r#"{"a": true"#, Some(json!({}))),
        (r#"{"a": true,"#, Some(json!({"a": true}))),
        (r#"{"a": -1.5e3}"#, Some(json!({"a": -1.5e3}))),
        ("[1, 2", Some(json!([1]))),
        ("[[{\"a\": [\"x", Some(json!([[{"a": ["x"]}]]))),
        ("[] and more", Some(json!([]))),
        ("[1, x!", Some(json!([1]))),
        ("{'a': 1}", Some(json!({}))),
        ("[1}", Some(json!([1]))),
    ] {
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let deep = "[".repeat(100_000);
    let mut partial = PartialJson::default();
    partial.push(&deep);
    assert!(partial.value().is_some() && !partial.is_complete());
}

/// The total size of the snapshots is linear in the length of the text, although each character is
/// a separate piece.
#[test]
fn snapshots_are_linear_in_total() {
    let text = json!({"text": "x".repeat(20_000)}).to_string();
    let (mut partial, mut total) = (PartialJson::default(), 0);
    for character in text.chars() {
        partial.push(&character.to_string());
        total += partial.take_snapshot().map_or(0, |value| value.to_string().len());
    }
    assert!(total < 40 * text.len(), "{total}");
}

#[test]
fn missing_members_have_defaults() {
    #[derive(Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Inner {
        x: u8,
        y: Option<String>,
    }
    #[derive(Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Outer {
        inner: Inner,
        list: Vec<u8>,
    }
    let outer: Outer = parse_partial(&json!({"inner": {"y": "a"}})).unwrap();
    assert_eq!(outer, Outer { inner: Inner { x: 0, y: Some("a".to_owned()) }, list: Vec::new() });
    assert!(parse_partial::<Outer>(&json!({"list": "x"})).is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Returns `true` if `later` continues `earlier`: strings and lists grow at their end, and objects
/// keep their members.
fn continues(earlier: &Value, later: &Value) -> bool {
    match (earlier, later) {
        (Value::String(a), Value::String(b)) => b.starts_with(a.as_str()),
        (Value::Array(a), Value::Array(b)) => {
            b.len() >= a.len() && a.iter().zip(b).all(|(a, b)| continues(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, a)| b.get(key).is_some_and(|b| continues(a, b)))
        }
        (a, b) => a == b,
    }
}

proptest! {
    /// Each partial value continues the one before, and the last is the value.
    #[test]
    fn partial_values_grow_to_the_value(value in any_value().prop_filter("a container", |it| it.is_array() || it.is_object())) {
        let mut partial = PartialJson::default();
        let mut before = None;
        for character in serde_json::to_string_pretty(&value).unwrap().chars() {
            partial.push(&character.to_string());
            let now = partial.value();
            if let (Some(before), Some(now)) = (&before, &now) {
                prop_assert!(continues(before, now), "{} {}", before, now);
            }
            before = now;
        }
        prop_assert!(partial.is_complete());
        prop_assert_eq!(before, Some(value));
    }
}
