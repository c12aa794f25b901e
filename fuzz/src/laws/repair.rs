use haft_core::{
    Schema,
    schema::{self, RepairPolicy},
};
use serde_json::Value;

use super::replay::replayed;
use crate::Case;

/// Checks the repair of arguments:
///
/// - A valid value does not change. With the strict policy, no value changes.
/// - An invalid value does not change, or the recorded repairs make it valid.
/// - A repaired value is not repaired a second time.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn check_repair(input: &[u8]) {
    let Some(case) = Case::parse(input) else { return };
    let values = case.values();
    let Ok(schema) = Schema::new(case.schema) else { return };
    for value in values {
        check_repaired_value(&schema, &value);
    }
}

fn check_repaired_value(schema: &Schema, value: &Value) {
    let unchanged = |value: &Value| (value.clone(), Vec::new());
    assert_eq!(schema::repair(schema, value.clone(), RepairPolicy::Strict), unchanged(value));
    let (repaired, repairs) = schema::repair(schema, value.clone(), RepairPolicy::Default);
    assert_eq!(replayed(value.clone(), &repairs), repaired, "{repairs:?}");
    if repairs.is_empty() {
        return;
    }
    assert!(!schema.is_valid(value), "a valid value was changed: {repairs:?}");
    assert!(schema.is_valid(&repaired), "repaired to {repaired}: {repairs:?}");
    assert_eq!(schema::repair(schema, repaired.clone(), RepairPolicy::Default), unchanged(&repaired));
}
