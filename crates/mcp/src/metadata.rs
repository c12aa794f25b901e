//! Access to the MCP data in [`ToolOutput::metadata`]: the `_meta` of a tool result, and the extra
//! fields of its content blocks.
//!
//! `metadata["_meta"]` is the `_meta` of the result. `metadata["content"]` is a list with one entry
//! for each content block that has extra fields, such as `annotations`. The field `index` of an
//! entry is the position of its block in the content.
//!
//! [`ToolOutput::metadata`]: haft_core::ToolOutput::metadata

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const META_KEY: &str = "_meta";
const CONTENT: &str = "content";
const INDEX: &str = "index";

/// Builds the entry of `metadata["content"]` for the content block at `index`. `extra` contains the
/// extra fields of the block. Returns `None` if all of them are `null`.
pub(crate) fn block_metadata(index: usize, extra: Map<String, Value>) -> Option<Value> {
    let mut entry: Map<_, _> = extra.into_iter().filter(|(_, value)| !value.is_null()).collect();
    if entry.is_empty() {
        return None;
    }
    entry.insert(INDEX.to_owned(), index.into());
    Some(Value::Object(entry))
}

/// Builds the metadata of a tool output. `meta` is the `_meta` of the result, and `entries` are the
/// values from [`block_metadata`].
pub(crate) fn output_metadata(meta: Option<Value>, entries: Vec<Value>) -> BTreeMap<String, Value> {
    let meta = meta.filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()));
    let entries = Some(entries).filter(|entries| !entries.is_empty()).map(Value::Array);
    [(META_KEY, meta), (CONTENT, entries)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Removes and returns the `_meta` of the result. Returns `None` if `metadata` does not contain it.
pub(crate) fn take_result_meta(metadata: &mut BTreeMap<String, Value>) -> Option<Value> {
    metadata.remove(META_KEY)
}

/// Removes `metadata["content"]`. Returns the index and the extra fields of each content block that
/// has an entry.
pub(crate) fn take_block_entries(
    metadata: &mut BTreeMap<String, Value>,
) -> impl Iterator<Item = (usize, Map<String, Value>)> {
    let entries = match metadata.remove(CONTENT) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    entries.into_iter().filter_map(|entry| {
        let Value::Object(mut extra) = entry else { return None };
        let index = extra.remove(INDEX)?.as_u64()?;
        Some((usize::try_from(index).ok()?, extra))
    })
}
