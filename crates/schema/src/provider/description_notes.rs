//! Notes about the constraints that a provider does not support. The notes are appended to the
//! `description` of the derived schema.

use serde_json::{Map, Value};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flatten::{FlatSchema, is_assertion};

/// The maximum length of a note in bytes. A constraint with a longer note is dropped.
const MAX_NOTE_BYTES: usize = 200;

/// Notes about constraints, such as `minLength: 1`, to be appended to the description of a schema.
#[derive(Default)]
pub(super) struct DescriptionNotes(Vec<String>);

impl DescriptionNotes {
    /// Adds the text `keyword: value` to the notes if it is short and contains no references.
    /// Returns a change of the kind `Described`, or `Dropped` if the text was not added.
    pub(super) fn add(&mut self, at: &str, keyword: &str, value: &Value) -> SchemaChange {
        let text = format!("{keyword}: {value}");
        // A model cannot resolve a reference in a note, because the note does not contain its
        // target.
        let is_short = text.len() <= MAX_NOTE_BYTES && !text.contains("\"$ref\"");
        self.0.extend(is_short.then_some(text));
        SchemaChange::new(
            at,
            keyword,
            if is_short { SchemaChangeKind::Described } else { SchemaChangeKind::Dropped },
        )
    }

    /// Appends the notes to the `description` of `schema`.
    pub(super) fn append_to(self, schema: &mut Map<String, Value>) {
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

/// Returns the annotations of a derived schema: the `title` of `flat`, and its `description` with
/// `notes`. Other annotations, such as `default`, are added to the notes and reported in `changes`.
pub(super) fn build_annotations(
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
    notes.append_to(&mut annotations);
    annotations
}

/// Returns `true` if `keyword` is about the schema itself and not about its values, for example
/// `$id`.
pub(super) fn is_schema_metadata(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$vocabulary")
}
