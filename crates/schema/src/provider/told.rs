//! Rules that a provider does not know, in words.

use serde_json::{Map, Value};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flat::{Flat, is_assertion};

/// How long a rule may be that is told, in bytes.
const LENGTH: usize = 200;

/// Rules that go into the description of a schema.
#[derive(Default)]
pub(super) struct Told(Vec<String>);

impl Told {
    /// Takes a rule, if it is short and can be told without the schema around it.
    pub(super) fn tell(&mut self, at: &str, keyword: &str, value: &Value) -> SchemaChange {
        let text = format!("{keyword}: {value}");
        // A reference leads nowhere where its target is not sent.
        let is_short = text.len() <= LENGTH && !text.contains("\"$ref\"");
        self.0.extend(is_short.then_some(text));
        SchemaChange::new(
            at,
            keyword,
            if is_short { SchemaChangeKind::Described } else { SchemaChangeKind::Dropped },
        )
    }

    /// Adds the rules to the description.
    pub(super) fn describe(self, schema: &mut Map<String, Value>) {
        if self.0.is_empty() {
            return;
        }
        let told = self.0.join("; ");
        let description = match schema.get("description").and_then(Value::as_str) {
            None | Some("") => told,
            Some(given) => format!("{given} ({told})"),
        };
        schema.insert("description".to_owned(), Value::from(description));
    }
}

/// What describes a schema: its title, and its description with what can only be told.
pub(super) fn head(flat: &Flat<'_>, mut told: Told, changes: &mut Vec<SchemaChange>) -> Map<String, Value> {
    let mut head = Map::new();
    for entry in flat.keywords.iter().filter(|it| !is_assertion(it.name)) {
        match entry.name {
            "title" | "description" => drop(head.insert(entry.name.to_owned(), entry.value.clone())),
            name if is_plumbing(name) => {}
            _ => changes.push(told.tell(&entry.at, entry.name, entry.value)),
        }
    }
    told.describe(&mut head);
    head
}

/// Whether a keyword says nothing of values, but of the schema itself.
pub(super) fn is_plumbing(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$vocabulary")
}
