//! The mapping of `_meta`, `annotations` and other extra fields of a result to
//! [`ToolOutput::metadata`].
//!
//! `metadata["_meta"]` is the `_meta` of the result. `metadata["content"]` is a list with the extra
//! fields of content blocks. The `index` of an entry is the index of its block in the content.
//!
//! [`ToolOutput::metadata`]: haft_core::ToolOutput::metadata

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const META: &str = "_meta";
const CONTENT: &str = "content";
const INDEX: &str = "index";

/// Builds the entry of a content block. Returns `None` if the block has no extra fields.
pub(crate) fn block_entry(index: usize, extra: Map<String, Value>) -> Option<Value> {
    let mut entry: Map<_, _> = extra.into_iter().filter(|(_, value)| !value.is_null()).collect();
    if entry.is_empty() {
        return None;
    }
    entry.insert(INDEX.to_owned(), index.into());
    Some(Value::Object(entry))
}

/// Builds the metadata of an output.
pub(crate) fn output_metadata(meta: Option<Value>, entries: Vec<Value>) -> BTreeMap<String, Value> {
    let meta = meta.filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()));
    let entries = Some(entries).filter(|entries| !entries.is_empty()).map(Value::Array);
    [(META, meta), (CONTENT, entries)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Removes and returns the `_meta` of the result.
pub(crate) fn take_result_meta(metadata: &mut BTreeMap<String, Value>) -> Option<Value> {
    metadata.remove(META)
}

/// Removes the entries of the content blocks. Returns their indices and extra fields.
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
