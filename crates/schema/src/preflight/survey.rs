//! The size, depth, anchors and patterns of a schema, collected from its plain JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::super::error::{SchemaError, SchemaFault};
use super::super::reference::push_token;
use super::{SchemaLimits, regex_size};

/// The maximum size of the JSON pointers of all values in a schema, as a multiple of
/// [`SchemaLimits::bytes`]. The graph of the schema and the validator store a pointer for each
/// subschema: one property name of 150 kB around 3,000 properties would take 900 MB.
const POINTER_BYTES_FACTOR: usize = 64;

/// Data about a schema, collected in one walk over all its JSON values.
#[derive(Default)]
pub(super) struct Survey<'s> {
    /// The subschema for each anchor, and the tokens of its JSON pointer. The tokens are not
    /// joined, because each pointer would contain a copy of a long token near the root.
    anchors: HashMap<&'s str, (&'s Value, Vec<Cow<'s, str>>)>,
    /// The first `$id` below the root that is not a draft-07 anchor such as `#tree`. `None` if
    /// there is none.
    pub(super) nested_id: Option<&'s str>,
    /// The estimated number of states in all regular expressions of the schema.
    pattern_states: usize,
}

/// Collects the [`Survey`] of `schema`. Fails if `schema` exceeds a limit other than
/// [`SchemaLimits::expansion`], or if two of its subschemas have the same anchor.
pub(super) fn survey<'s>(schema: &'s Value, limits: &SchemaLimits) -> Result<Survey<'s>, SchemaError> {
    let mut survey = Survey::default();
    let mut nodes = 1;
    // `path` contains the unvisited children of each value on the path to the current value.
    // `tokens` is the JSON pointer of the current value.
    let (mut path, mut tokens) = (Vec::new(), Vec::new());
    let max_pointer_bytes = limits.bytes.saturating_mul(POINTER_BYTES_FACTOR);
    let (mut pointer_bytes, mut all_pointer_bytes) = (0_usize, 0_usize);
    let mut next = Some(schema);
    loop {
        if let Some(value) = next {
            all_pointer_bytes = all_pointer_bytes.saturating_add(pointer_bytes);
            if all_pointer_bytes > max_pointer_bytes {
                return Err(SchemaError::new("", SchemaFault::PointersTooLarge(max_pointer_bytes)));
            }
            if path.len() >= limits.depth && (value.is_array() || value.is_object()) {
                return Err(SchemaError::new("", SchemaFault::TooDeep(limits.depth)));
            }
            // The children are counted before they are visited, because an array may have a million
            // items.
            nodes += child_count(value);
            if nodes > limits.nodes {
                return Err(SchemaError::new("", SchemaFault::TooManyNodes(limits.nodes)));
            }
            if let Value::Object(members) = value {
                survey.record_members(value, members, &tokens)?;
            }
            path.push(children_with_tokens(value));
        }
        let Some(children) = path.last_mut() else { break };
        next = children.next().map(|(token, child)| {
            pointer_bytes += token.len();
            tokens.push(token);
            child
        });
        if next.is_none() {
            path.pop();
            pointer_bytes -= tokens.pop().map_or(0, |token| token.len());
        }
    }
    if survey.pattern_states > limits.pattern_states {
        return Err(SchemaError::new("", SchemaFault::PatternsTooLarge(limits.pattern_states)));
    }
    if serde_json::to_writer(ByteLimit(limits.bytes), schema).is_err() {
        return Err(SchemaError::new("", SchemaFault::TooLarge(limits.bytes)));
    }
    Ok(survey)
}

impl<'s> Survey<'s> {
    /// Returns the subschema with the anchor `name`, and its JSON pointer. `None` if there is none.
    pub(super) fn anchored(&self, name: &str) -> Option<(&'s Value, String)> {
        let (schema, tokens) = self.anchors.get(name)?;
        let mut pointer = String::new();
        tokens.iter().for_each(|token| push_token(&mut pointer, token));
        Some((schema, pointer))
    }

    fn record_members(
        &mut self,
        schema: &'s Value,
        members: &'s Map<String, Value>,
        tokens: &[Cow<'s, str>],
    ) -> Result<(), SchemaError> {
        let on_names =
            members.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        for pattern in
            members.get("pattern").and_then(Value::as_str).into_iter().chain(on_names.map(String::as_str))
        {
            self.pattern_states = self.pattern_states.saturating_add(regex_size::estimate_states(pattern));
        }
        let id = members.get("$id").and_then(Value::as_str);
        let named_by_id = id.and_then(|id| id.strip_prefix('#'));
        if !tokens.is_empty() && named_by_id.is_none() {
            self.nested_id = self.nested_id.or(id);
        }
        let anchors = ["$anchor", "$dynamicAnchor"].map(|key| members.get(key).and_then(Value::as_str));
        for name in anchors.into_iter().flatten().chain(named_by_id) {
            if self.anchors.insert(name, (schema, tokens.to_vec())).is_some() {
                return Err(SchemaError::new("", SchemaFault::DuplicateAnchor(name.to_owned())));
            }
        }
        Ok(())
    }
}

/// A writer that measures its input. It fails as soon as the input is longer than the given number
/// of bytes.
struct ByteLimit(usize);

impl Write for ByteLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns `true` if objects and arrays in `value` are nested more than `levels` deep. Deeper
/// levels are not visited, so the recursion is bounded.
pub fn exceeds_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(|item| exceeds_depth(item, levels - 1)),
        Value::Object(members) => members.values().any(|member| exceeds_depth(member, levels - 1)),
        _ => false,
    }
}

/// Returns `true` if `value` contains more than `limit` nested values in total. Values of all
/// levels are counted.
pub(crate) fn exceeds_size(value: &Value, limit: usize) -> bool {
    let mut counted = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        counted += child_count(value);
        if counted > limit {
            return true;
        }
        open.extend(children(value));
    }
    false
}

/// Drops `value` without recursion. The `Drop` implementation of `Value` is recursive, so a deeply
/// nested value would overflow the stack.
pub(crate) fn drop_iteratively(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.into_iter().map(|(_, member)| member)),
            _ => {}
        }
    }
}

/// Returns the number of items of an array, or of members of an object. Returns 0 for all other
/// values.
pub(crate) fn child_count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// Returns the children of `value`, each with its token in a JSON pointer.
fn children_with_tokens(value: &Value) -> impl Iterator<Item = (Cow<'_, str>, &Value)> {
    let items = value.as_array().into_iter().flatten().enumerate();
    let items = items.map(|(index, item)| (Cow::Owned(index.to_string()), item));
    let members = value.as_object().into_iter().flatten();
    items.chain(members.map(|(name, member)| (Cow::Borrowed(name.as_str()), member)))
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(Map::values))
}
