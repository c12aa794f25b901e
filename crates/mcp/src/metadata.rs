//! What comes with a result besides what is read: where it is kept, and how it is written again.
//!
//! In the metadata of an output, `_meta` is that of the result. `content` is a list of what single pieces hold
//! besides, such as `annotations` and `_meta`; the `index` of each counts the pieces of content.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const RESULT: &str = "_meta";
const CONTENT: &str = "content";
const INDEX: &str = "index";

/// What the block at an index holds besides, unless that is nothing.
pub(crate) fn of_block(index: usize, rest: Map<String, Value>) -> Option<Value> {
    let mut rest: Map<_, _> = rest.into_iter().filter(|(_, value)| !value.is_null()).collect();
    if rest.is_empty() {
        return None;
    }
    rest.insert(INDEX.to_owned(), index.into());
    Some(Value::Object(rest))
}

/// The metadata of an output.
pub(crate) fn of_result(meta: Option<Value>, blocks: Vec<Value>) -> BTreeMap<String, Value> {
    let meta = meta.filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()));
    let blocks = Some(blocks).filter(|blocks| !blocks.is_empty()).map(Value::Array);
    [(RESULT, meta), (CONTENT, blocks)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// The `_meta` of a result.
pub(crate) fn result(metadata: &mut BTreeMap<String, Value>) -> Option<Value> {
    metadata.remove(RESULT)
}

/// What single pieces hold besides, with the index of each.
pub(crate) fn blocks(
    metadata: &mut BTreeMap<String, Value>,
) -> impl Iterator<Item = (usize, Map<String, Value>)> {
    let blocks = match metadata.remove(CONTENT) {
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    };
    blocks.into_iter().filter_map(|block| {
        let Value::Object(mut block) = block else { return None };
        let index = block.remove(INDEX)?.as_u64()?;
        Some((usize::try_from(index).ok()?, block))
    })
}
