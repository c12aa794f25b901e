//! Constraints that a provider does not support, written as text into descriptions.

use serde_json::{Map, Value};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flatten::{FlatSchema, is_assertion};

/// The maximum length of the text of one constraint, in bytes. Longer constraints are dropped.
const MAX_NOTE_BYTES: usize = 200;

/// Constraints, such as `minLength: 1`, to append to the description of a schema.
#[derive(Default)]
pub(super) struct DescriptionNotes(Vec<String>);

impl DescriptionNotes {
    /// Adds the constraint `keyword: value` as a note if it is short and contains no references.
    /// Returns the change to report: the constraint is described or dropped.
    pub(super) fn add(&mut self, at: &str, keyword: &str, value: &Value) -> SchemaChange {
        let text = format!("{keyword}: {value}");
        // A model cannot read a reference in a note, because its target is not in the note.
        let is_short = text.len() <= MAX_NOTE_BYTES && !text.contains("\"$ref\"");
        self.0.extend(is_short.then_some(text));
        SchemaChange::new(
            at,
            keyword,
            if is_short { SchemaChangeKind::Described } else { SchemaChangeKind::Dropped },
        )
    }

    /// Appends the notes to the `description` of `schema`.
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

/// Returns the annotations of `flat`: its `title`, and its `description` with `notes`. Other
/// annotations, such as `default`, become notes and are added to `changes`.
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

/// Returns `true` if `keyword` describes the schema itself and not its values, such as `$id`.
pub(super) fn is_schema_metadata(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$vocabulary")
}
