//! The size, depth, anchors and patterns of a schema, collected from its plain JSON.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::super::error::{SchemaError, SchemaFault};
use super::{SchemaLimits, regex_size};

/// The data that one walk over all JSON values of a schema collects.
#[derive(Default)]
pub(super) struct Survey<'s> {
    /// The subschemas with an anchor, by the name of their anchor.
    pub(super) anchors: HashMap<&'s str, &'s Value>,
    /// The first `$id` below the root that is not a draft-07 anchor such as `#tree`. `None` if
    /// there is none.
    pub(super) nested_id: Option<&'s str>,
    /// The estimated number of states in all regular expressions of the schema.
    pattern_states: usize,
}

/// Collects the data about `schema`. Fails if `schema` exceeds a limit in `limits`, or if two of
/// its subschemas have the same anchor.
pub(super) fn survey<'s>(schema: &'s Value, limits: &SchemaLimits) -> Result<Survey<'s>, SchemaError> {
    let mut survey = Survey::default();
    let mut nodes = 0;
    let mut open = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        nodes += 1;
        if depth > limits.depth && (value.is_array() || value.is_object()) {
            return Err(SchemaError::new("", SchemaFault::TooDeep(limits.depth)));
        }
        // Children are counted before they are pushed to `open`, because an array may have a
        // million items.
        if nodes + open.len() + child_count(value) > limits.nodes {
            return Err(SchemaError::new("", SchemaFault::TooManyNodes(limits.nodes)));
        }
        if let Value::Object(members) = value {
            survey.record_members(value, members, depth == 1)?;
        }
        open.extend(children(value).map(|child| (child, depth + 1)));
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
    fn record_members(
        &mut self,
        schema: &'s Value,
        members: &'s Map<String, Value>,
        is_root: bool,
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
        if !is_root && named_by_id.is_none() {
            self.nested_id = self.nested_id.or(id);
        }
        let anchors = ["$anchor", "$dynamicAnchor"].map(|key| members.get(key).and_then(Value::as_str));
        for name in anchors.into_iter().flatten().chain(named_by_id) {
            if self.anchors.insert(name, schema).is_some() {
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

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(Map::values))
}
