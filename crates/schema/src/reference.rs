//! `$ref` references within a JSON Schema document, and JSON pointers.

use std::iter;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// The maximum number of consecutive references that are followed, as in `a → b → c`.
const MAX_HOPS: usize = 8;

/// The target of a `$ref` within its own document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a JSON Schema reference has two forms")]
pub enum Reference {
    /// A JSON pointer: `#/$defs/tree` contains the pointer `/$defs/tree`, and `#` the empty pointer
    /// of the root.
    Pointer(String),
    /// An anchor: `#tree` contains the anchor `tree`.
    Anchor(String),
}

impl Reference {
    /// Parses `text`, the value of a `$ref`. Returns `None` if `text` is a reference to another
    /// document, or if the percent-decoded fragment is not valid UTF-8.
    pub fn parse(text: &str) -> Option<Self> {
        let fragment = percent_decode_str(text.strip_prefix('#')?).decode_utf8().ok()?.into_owned();
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        Some(if is_pointer { Self::Pointer(fragment) } else { Self::Anchor(fragment) })
    }
}

/// Follows the `$ref` of `schema` in the document `root`, and then the `$ref` of each target, at
/// most [`MAX_HOPS`] in total. Returns the last target. Returns `schema` itself if it has no
/// `$ref`, or if its `$ref` is an anchor or has no target.
pub(crate) fn follow<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    steps(root, schema).last().map_or(schema, |(_, target)| target)
}

/// Returns the JSON pointer of the schema that [`follow`] returns for `root`. The pointer is empty
/// if `root` has no `$ref` to follow.
pub(crate) fn root_target(root: &Value) -> String {
    steps(root, root).last().map_or_else(String::new, |(pointer, _)| pointer)
}

/// Returns an iterator over the targets in the chain of references that starts with the `$ref` of
/// `schema`. Each item consists of the JSON pointer of a target and the target itself.
fn steps<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = (String, &'s Value)> {
    let next = move |schema: &Value| {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(Reference::parse);
        let Some(Reference::Pointer(pointer)) = reference else { return None };
        let target = root.pointer(&pointer)?;
        Some((pointer, target))
    };
    iter::successors(next(schema), move |(_, schema)| next(schema)).take(MAX_HOPS)
}

/// Returns the JSON pointer `pointer` with `token` appended. In `token`, `~` and `/` are escaped
/// (RFC 6901, section 3).
pub fn join_pointer(pointer: &str, token: &str) -> String {
    let mut joined = pointer.to_owned();
    push_token(&mut joined, token);
    joined
}

/// Appends `token` to the JSON pointer `pointer`, as [`join_pointer`] does.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}
