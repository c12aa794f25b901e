use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::toolset::ToolList;
use serde_json::{Value, json, value::RawValue};

use super::{encode_strict_tool, encode_tool};
use crate::format::block::to_raw_json;

/// The limits of the API for all strict tools of a request: tools, optional properties, and
/// properties with alternatives. Source: *Structured outputs*, schema complexity limits.
const STRICT_LIMITS: [usize; 3] = [20, 24, 16];

/// A tool as JSON text, with its name.
#[derive(Debug)]
pub(crate) struct EncodedTool {
    pub(crate) name: String,
    pub(crate) json: Box<RawValue>,
}

/// A cache in a tool list: the encoded tools, with and without `strict`.
#[derive(Default)]
struct ToolsCache(Mutex<HashMap<bool, Arc<[EncodedTool]>>>);

/// Returns the encoded tools of `list`. The tools are cached in the list. If `strict` is `true`, each
/// tool with a compatible schema is strict, up to the limits of the API.
pub(crate) fn cached_tools(list: &ToolList, strict: bool) -> Arc<[EncodedTool]> {
    let cache = list.memoize(|_| ToolsCache::default());
    let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cached.entry(strict).or_insert_with(|| encode_list(list, strict).into()))
}

fn encode_list(list: &ToolList, strict: bool) -> Vec<EncodedTool> {
    let (mut used, mut without) = ([0; 3], Vec::new());
    let mut tools = Vec::new();
    for definition in list.tools().iter().map(|tool| tool.definition()) {
        let mut json = if strict { encode_strict_tool(definition) } else { encode_tool(definition) };
        let total = add_costs(used, json.get("input_schema").unwrap_or(&Value::Null));
        let fits =
            json.get("strict").is_some() && (0..).zip(total).all(|(place, cost)| is_within(place, cost));
        if fits {
            used = total;
        } else if strict {
            without.push(definition.name().as_str());
            json = encode_tool(definition);
        }
        tools.push(EncodedTool { name: definition.name().to_string(), json: to_raw_json(&json) });
    }
    if !without.is_empty() {
        let count = without.len();
        let tools = without.get(..5).unwrap_or(&without).join(", ");
        tracing::warn!(count, tools, "some tools cannot be sent with `strict`");
    }
    tools
}

fn is_within(place: usize, cost: usize) -> bool {
    STRICT_LIMITS.get(place).is_some_and(|limit| cost <= *limit)
}

/// Adds the costs of the strict tool with the input schema `schema`: see [`STRICT_LIMITS`].
fn add_costs([tools, optional, unions]: [usize; 3], schema: &Value) -> [usize; 3] {
    let (more_optional, more_unions) = count_constraints(schema);
    [tools + 1, optional + more_optional, unions + more_unions]
}

/// Counts the optional properties and the alternatives in `schema`.
fn count_constraints(schema: &Value) -> (usize, usize) {
    let children: Vec<_> = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => return (0, 0),
    };
    let properties = schema.get("properties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    let is_union = schema.get("anyOf").is_some() || schema.get("type").is_some_and(Value::is_array);
    let own = (properties.saturating_sub(required), usize::from(is_union));
    children.into_iter().map(count_constraints).fold(own, |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// Returns a tool without arguments, for the calls of earlier messages in a request without tools.
pub(crate) fn placeholder(name: &str) -> Box<RawValue> {
    to_raw_json(&json!({"name": name, "input_schema": {"type": "object", "properties": {}}}))
}
