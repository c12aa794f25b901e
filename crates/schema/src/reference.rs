//! References within a document.

use std::iter;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Maximum number of consecutive references to follow.
const MAX_HOPS: usize = 8;

/// The target of a `$ref` within its own document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a JSON Schema reference has two forms")]
pub enum Reference {
    /// A JSON pointer: `#/$defs/tree` has the pointer `/$defs/tree`. The root is the empty pointer.
    Pointer(String),
    /// An anchor: `#tree` has the anchor `tree`.
    Anchor(String),
}

impl Reference {
    /// Parses a reference. Returns `None` if it refers to another document.
    pub fn parse(text: &str) -> Option<Self> {
        let fragment = percent_decode_str(text.strip_prefix('#')?).decode_utf8().ok()?.into_owned();
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        Some(if is_pointer { Self::Pointer(fragment) } else { Self::Anchor(fragment) })
    }
}

/// Resolves a `$ref` by JSON pointer, also repeatedly. Returns a schema without such a reference
/// unchanged.
pub(crate) fn follow<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    steps(root, schema).last().map_or(schema, |(_, target)| target)
}

/// The pointer of the schema that [`follow`] returns for the root.
pub(crate) fn root_target(root: &Value) -> String {
    steps(root, root).last().map_or_else(String::new, |(pointer, _)| pointer)
}

/// The consecutive targets of a reference, with their pointers.
fn steps<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = (String, &'s Value)> {
    let next = move |schema: &Value| {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(Reference::parse);
        let Some(Reference::Pointer(pointer)) = reference else { return None };
        let target = root.pointer(&pointer)?;
        Some((pointer, target))
    };
    iter::successors(next(schema), move |(_, schema)| next(schema)).take(MAX_HOPS)
}

/// Appends a token to a JSON pointer, escaping `~` and `/` (RFC 6901, section 3).
pub fn join(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}
