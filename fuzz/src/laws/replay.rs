//! What a record of repairs says, done again.

use haft_core::schema::{Repair, RepairKind};
use serde_json::{Value, json};

/// The value that the recorded repairs make of another one.
///
/// # Panics
///
/// Panics where a repair says what cannot be.
pub(super) fn replayed(mut value: Value, repairs: &[Repair]) -> Value {
    for repair in repairs {
        replay(&mut value, repair);
    }
    value
}

fn replay(value: &mut Value, repair: &Repair) {
    let Repair { pointer, kind } = repair;
    let place = value.pointer_mut(pointer).unwrap_or_else(|| panic!("nothing is there: {repair}"));
    match kind {
        RepairKind::ReadString { spells } => {
            let text = place.as_str().unwrap_or_else(|| panic!("no string: {repair}"));
            let spelled: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {repair}"));
            assert_eq!(spells, type_of(&spelled), "{repair}");
            *place = spelled;
        }
        RepairKind::Unwrapped { key } => {
            let members = place.as_object_mut().unwrap_or_else(|| panic!("no object: {repair}"));
            assert_eq!(members.len(), 1, "{repair}");
            *place = members.shift_remove(key).unwrap_or_else(|| panic!("no such key: {repair}"));
        }
        RepairKind::DroppedNull => {
            assert!(place.is_null(), "{repair}");
            let (parent, name) = pointer.rsplit_once('/').expect("the root is no property");
            let members = value.pointer_mut(parent).and_then(Value::as_object_mut);
            let members = members.unwrap_or_else(|| panic!("no property: {repair}"));
            members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        RepairKind::NoArguments => {
            assert!(place.is_null() || place.as_str().is_some_and(|it| it.trim().is_empty()), "{repair}");
            *place = json!({});
        }
        other => panic!("an unknown repair: {other:?}"),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
