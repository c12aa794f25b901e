use haft_core::{Schema, schema::canonical_json};
use serde_json::Value;

use crate::Case;

/// Checks the preflight, the compilation and the validation of schemas:
///
/// - Any JSON value is either compiled as a schema or rejected with an error.
/// - A compiled schema contains the original JSON value, and is the same after a JSON round trip.
/// - Any value is either valid, or has violations with texts of bounded length and with pointers
///   that exist in the value.
/// - A schema for tool arguments describes an object and accepts only objects.
/// - The canonical text of a value can be parsed, and the result is an equal value.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn check_schema(input: &[u8]) {
    let Some(case) = Case::parse(input) else { return };
    let mut values = case.values();
    values.push(case.schema.clone());
    values.iter().for_each(check_canonical_text);
    match Schema::new(case.schema.clone()) {
        Ok(schema) => {
            assert_eq!(schema.as_value(), &case.schema);
            let read: Schema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
            assert_eq!(read, schema);
            values.iter().for_each(|value| check_violations(&schema, value));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(schema) = Schema::for_arguments(case.schema) {
        assert_eq!(schema.as_value()["type"], "object");
        assert_eq!(schema.clone().into_arguments().unwrap(), schema);
        values.iter().for_each(|value| assert!(value.is_object() || !schema.is_valid(value)));
    }
}

/// Checks that parsing the canonical text of `value` gives an equal value, which has the same
/// canonical text.
fn check_canonical_text(value: &Value) {
    let text = canonical_json(value);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, value);
    assert_eq!(canonical_json(&read), text);
}

/// Checks that `value` is valid for `schema`, or that its violations point to existing parts of
/// `value`.
fn check_violations(schema: &Schema, value: &Value) {
    let Err(violations) = schema.validate(value) else {
        assert!(schema.is_valid(value));
        return;
    };
    assert!(!schema.is_valid(value), "{violations}");
    let listed = violations.as_slice();
    assert!((1..=20).contains(&listed.len()));
    assert!(violations.to_string().len() <= 4 << 10);
    for violation in listed {
        assert!(value.pointer(&violation.pointer).is_some(), "{violation}");
        assert!(violation.to_string().len() <= 4 << 10);
    }
}
