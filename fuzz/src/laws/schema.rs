use haft_core::{Schema, schema::canonical};
use serde_json::Value;

use crate::Case;

/// Checks the preflight, the compiler and the validation of schemas:
///
/// - Any JSON value is compiled as a schema or rejected.
/// - A compiled schema keeps its JSON value, and survives a JSON round trip.
/// - Any value is valid, or has violations with existing pointers and bounded text.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn schema(input: &[u8]) {
    let Some(case) = Case::read(input) else { return };
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
    if let Ok(schema) = Schema::arguments(case.schema) {
        assert_eq!(schema.as_value()["type"], "object");
        assert_eq!(schema.clone().into_arguments().unwrap(), schema);
        values.iter().for_each(|value| assert!(value.is_object() || !schema.is_valid(value)));
    }
}

/// Checks that the canonical text of `value` parses to the same value, and that the parsed value
/// has the same canonical text.
fn check_canonical_text(value: &Value) {
    let text = canonical(value);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, value);
    assert_eq!(canonical(&read), text);
}

/// Checks that `value` is valid, or has violations that point to existing parts of the value.
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
