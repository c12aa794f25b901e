//! Rules that a provider does not know, in words.

use serde_json::{Map, Value};

use super::loss::{Loss, LossKind};

/// How long a rule may be that is told, in bytes.
const LENGTH: usize = 200;

/// Rules that go into the description of a schema.
#[derive(Default)]
pub(super) struct Told(Vec<String>);

impl Told {
    /// Takes a rule, if it is not too long to be told.
    pub(super) fn tell(&mut self, at: &str, keyword: &str, value: &Value) -> Loss {
        let text = format!("{keyword}: {value}");
        let is_short = text.len() <= LENGTH;
        self.0.extend(is_short.then_some(text));
        Loss::new(at, keyword, if is_short { LossKind::Described } else { LossKind::Dropped })
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
