//! Derivation of schemas for servers that reject keywords beside a `$ref`.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::super::reference::join_pointer;
use super::change::{SchemaChange, SchemaChangeKind};
use super::portable::{LISTS, MAPS, SINGLE};

/// Returns a copy of `root` in which no keyword without the prefix `$` is beside a `$ref`, and the
/// list of lossy changes.
pub(super) fn derive(root: &Value) -> (Value, Vec<SchemaChange>) {
    let (mut value, mut changes) = (root.clone(), Vec::new());
    adjust("", &mut value, &mut changes);
    (value, changes)
}

fn adjust(at: &str, schema: &mut Value, changes: &mut Vec<SchemaChange>) {
    let Value::Object(keywords) = schema else { return };
    isolate_reference(at, keywords, changes);
    for (keyword, value) in keywords {
        let name = keyword.as_str();
        let at = join_pointer(at, name);
        match value {
            Value::Array(parts) if LISTS.contains(&name) => {
                for (index, part) in parts.iter_mut().enumerate() {
                    adjust(&format!("{at}/{index}"), part, changes);
                }
            }
            Value::Object(members) if MAPS.contains(&name) => {
                for (member, schema) in members {
                    adjust(&join_pointer(&at, member), schema, changes);
                }
            }
            value if SINGLE.contains(&name) => adjust(&at, value, changes),
            _ => {}
        }
    }
}

/// Moves the `$ref` of a schema with other keywords into an `anyOf`. If the schema already has an
/// `anyOf`, the reference is dropped.
fn isolate_reference(at: &str, keywords: &mut Map<String, Value>, changes: &mut Vec<SchemaChange>) {
    let is_alone = keywords.keys().all(|keyword| keyword.starts_with('$'));
    if is_alone || !keywords.get("$ref").is_some_and(Value::is_string) {
        return;
    }
    let reference = keywords.shift_remove("$ref");
    if keywords.contains_key("anyOf") {
        changes.push(SchemaChange::new(at, "$ref", SchemaChangeKind::Dropped));
    } else {
        keywords.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
    }
}
