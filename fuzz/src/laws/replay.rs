//! Applies recorded repairs to the original value, to check that they result in the repaired value.

use haft_core::schema::{Repair, RepairKind, json_type};
use serde_json::{Value, json};

/// Applies the recorded `repairs` to `value`, the original value. Returns the repaired value.
///
/// # Panics
///
/// Panics if a repair cannot be applied to the value.
pub(super) fn replayed(mut value: Value, repairs: &[Repair]) -> Value {
    for repair in repairs {
        replay(&mut value, repair);
    }
    value
}

fn replay(value: &mut Value, repair: &Repair) {
    let Repair { pointer, kind } = repair;
    let target = value.pointer_mut(pointer).unwrap_or_else(|| panic!("no value at the pointer: {repair}"));
    match kind {
        RepairKind::ReadString { spells } => {
            let text = target.as_str().unwrap_or_else(|| panic!("not a string: {repair}"));
            let parsed: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {repair}"));
            assert_eq!(spells, json_type(&parsed), "{repair}");
            *target = parsed;
        }
        RepairKind::Unwrapped { key } => {
            let members = target.as_object_mut().unwrap_or_else(|| panic!("not an object: {repair}"));
            assert_eq!(members.len(), 1, "{repair}");
            *target = members.shift_remove(key).unwrap_or_else(|| panic!("no such key: {repair}"));
        }
        RepairKind::DroppedNull | RepairKind::DroppedKeyword => {
            assert!(target.is_null() || *kind == RepairKind::DroppedKeyword, "{repair}");
            let (parent, name) = pointer.rsplit_once('/').expect("the root is no property");
            let members = value.pointer_mut(parent).and_then(Value::as_object_mut);
            let members = members.unwrap_or_else(|| panic!("not a property: {repair}"));
            members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        RepairKind::NoArguments => {
            assert!(target.is_null() || target.as_str().is_some_and(|it| it.trim().is_empty()), "{repair}");
            *target = json!({});
        }
        other => panic!("unknown repair: {other:?}"),
    }
}
