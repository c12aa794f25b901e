//! Constraints that a provider does not support, as text in descriptions.

use serde_json::{Map, Value};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flatten::{FlatSchema, is_assertion};

/// Maximum length of a note, in bytes.
const MAX_NOTE: usize = 200;

/// Constraints to append to the description of a schema, such as `minLength: 1`.
#[derive(Default)]
pub(super) struct DescriptionNotes(Vec<String>);

impl DescriptionNotes {
    /// Adds a constraint as a note if it is short and has no references.
    pub(super) fn add(&mut self, at: &str, keyword: &str, value: &Value) -> SchemaChange {
        let text = format!("{keyword}: {value}");
        // The target of a reference is not in the note.
        let is_short = text.len() <= MAX_NOTE && !text.contains("\"$ref\"");
        self.0.extend(is_short.then_some(text));
        SchemaChange::new(
            at,
            keyword,
            if is_short { SchemaChangeKind::Described } else { SchemaChangeKind::Dropped },
        )
    }

    /// Appends the notes to the description.
    pub(super) fn describe(self, schema: &mut Map<String, Value>) {
        if self.0.is_empty() {
            return;
        }
        let notes = self.0.join("; ");
        let description = match schema.get("description").and_then(Value::as_str) {
            None | Some("") => notes,
            Some(given) => format!("{given} ({notes})"),
        };
        schema.insert("description".to_owned(), Value::from(description));
    }
}

/// The annotations of a schema: title, and description with notes. Other annotations become notes.
pub(super) fn annotations(
    flat: &FlatSchema<'_>,
    mut notes: DescriptionNotes,
    changes: &mut Vec<SchemaChange>,
) -> Map<String, Value> {
    let mut annotations = Map::new();
    for entry in flat.keywords.iter().filter(|it| !is_assertion(it.name)) {
        match entry.name {
            "title" | "description" => drop(annotations.insert(entry.name.to_owned(), entry.value.clone())),
            name if is_schema_metadata(name) => {}
            _ => changes.push(notes.add(&entry.at, entry.name, entry.value)),
        }
    }
    notes.describe(&mut annotations);
    annotations
}

/// Returns `true` for keywords about the schema itself, not about values.
pub(super) fn is_schema_metadata(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$vocabulary")
}
