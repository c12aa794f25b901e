//! Detection of recursive schemas, which Anthropic's strict mode does not support.

use std::collections::HashMap;

use serde_json::Value;

use super::super::change::SchemaChange;

/// Checks that no reference in the strict schema `root` leads to a subschema that contains it.
pub(super) fn check_references(root: &Value) -> Result<(), SchemaChange> {
    let mut search = Search { root, states: HashMap::new() };
    if search.is_acyclic(root) {
        Ok(())
    } else {
        Err(SchemaChange::not_strict("", "$ref", "the schema is recursive"))
    }
}

struct Search<'s> {
    root: &'s Value,
    /// The definitions that were visited, by their names. The value is `false` during the visit.
    states: HashMap<&'s str, bool>,
}

impl<'s> Search<'s> {
    fn is_acyclic(&mut self, schema: &'s Value) -> bool {
        match schema {
            Value::Object(members) => {
                members.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
                    ("$ref", Value::String(reference)) => self.is_acyclic_reference(reference),
                    ("$defs" | "enum" | "const", _) => true,
                    _ => self.is_acyclic(value),
                })
            }
            Value::Array(list) => list.iter().all(|value| self.is_acyclic(value)),
            _ => true,
        }
    }

    fn is_acyclic_reference(&mut self, reference: &'s str) -> bool {
        let Some(name) = reference.strip_prefix("#/$defs/") else { return false };
        if let Some(is_done) = self.states.get(name) {
            return *is_done;
        }
        let root = self.root;
        let Some(target) = root.get("$defs").and_then(|definitions| definitions.get(name)) else {
            return true;
        };
        self.states.insert(name, false);
        let is_acyclic = self.is_acyclic(target);
        self.states.insert(name, is_acyclic);
        is_acyclic
    }
}
