//! References within one document.

use std::iter;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// How many references in a row are followed to describe what is behind them.
const HOPS: usize = 8;

/// The target of a `$ref` within its own document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a JSON Schema reference has two forms")]
pub enum Reference {
    /// To a place, by JSON pointer; the root is the empty one.
    Pointer(String),
    /// To a subschema with that anchor.
    Anchor(String),
}

impl Reference {
    /// Parses a reference. Returns `None` if it leaves the document.
    pub fn parse(text: &str) -> Option<Self> {
        let fragment = percent_decode_str(text.strip_prefix('#')?).decode_utf8().ok()?.into_owned();
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        Some(if is_pointer { Self::Pointer(fragment) } else { Self::Anchor(fragment) })
    }
}

/// The schema behind a `$ref` by pointer, and behind that, for a few steps. What is no such reference is itself.
pub(crate) fn follow<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    steps(root, schema).last().map_or(schema, |(_, target)| target)
}

/// The pointer to what [`follow`] finds from the root.
pub(crate) fn place(root: &Value) -> String {
    steps(root, root).last().map_or_else(String::new, |(pointer, _)| pointer)
}

/// Where the references of a schema lead, one after the other.
fn steps<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = (String, &'s Value)> {
    let next = move |schema: &Value| {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(Reference::parse);
        let Some(Reference::Pointer(pointer)) = reference else { return None };
        let target = root.pointer(&pointer)?;
        Some((pointer, target))
    };
    iter::successors(next(schema), move |(_, schema)| next(schema)).take(HOPS)
}

/// Appends a step to a JSON pointer, escaping `~` and `/` (RFC 6901, section 3).
pub fn join(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}
