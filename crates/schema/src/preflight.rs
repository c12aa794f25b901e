//! Checks of a schema before its compilation: bounded size, no references to other documents, and
//! no infinite recursion.
//!
//! The checks recurse to a limited depth, so no schema overflows the stack.

mod graph;
pub(super) mod regex_size;
mod subschema;
mod survey;
#[cfg(test)]
mod tests;

use jsonschema::Draft;
use serde_json::Value;

pub(super) use self::graph::{Node, SchemaGraph};
pub(super) use self::subschema::{InstanceLocation, subschemas};
pub use self::survey::exceeds_depth;
pub(super) use self::survey::{child_count, drop_iteratively, exceeds_size};
use super::error::{SchemaError, SchemaFault};

/// The maximum nesting of objects and arrays in a valid value: 100 levels. Long chains of `allOf`
/// or `$ref` in a schema reduce this limit. The parser of `serde_json` accepts 127 levels, so each
/// valid value can be parsed again from its JSON text.
pub const MAX_VALUE_DEPTH: usize = 100;

/// Limits for a schema, checked before it is compiled.
///
/// # Examples
///
/// ```
/// use haft_schema::{Schema, SchemaFault, SchemaLimits};
/// use serde_json::json;
///
/// let limits = SchemaLimits { depth: 2, ..SchemaLimits::default() };
/// let schema = json!({"properties": {"x": {"type": "integer"}}});
/// let error = Schema::with_limits(schema, &limits).unwrap_err();
/// assert_eq!(error.fault(), &SchemaFault::TooDeep(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaLimits {
    /// The maximum length of the schema as compact JSON, in bytes. 256 KiB by default.
    pub bytes: usize,
    /// The maximum nesting of objects and arrays in the schema. 64 by default.
    pub depth: usize,
    /// The maximum number of JSON values in the schema, including nested values. 10,000 by default.
    pub nodes: usize,
    /// The maximum number of subschemas that apply to the same value, for example through `allOf`
    /// and `$ref`. A subschema counts once per reference to it. 10,000 by default.
    pub expansion: usize,
    /// The maximum number of states in all regular expressions of the schema. The number is
    /// estimated before the expressions are compiled. 100,000 by default.
    pub pattern_states: usize,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, depth: 64, nodes: 10_000, expansion: 10_000, pattern_states: 100_000 }
    }
}

/// Checks `schema` against `limits`, and rejects invalid references and infinite recursion. Returns
/// the dialect of `schema`.
pub(super) fn check_limits_and_references(
    schema: &Value,
    limits: &SchemaLimits,
) -> Result<Draft, SchemaError> {
    let survey = survey::survey(schema, limits)?;
    let draft = draft_of(schema, "")?.unwrap_or(Draft::Draft202012);
    let graph = SchemaGraph::of(schema, &survey)?;
    graph.check_limits(limits.expansion)?;
    Ok(draft)
}

/// Returns the graph of the subschemas of `schema`, without a check of limits. Returns `None` if
/// `schema` has a fault that the preflight rejects, such as a reference without a target.
pub(super) fn build_graph(schema: &Value) -> Option<SchemaGraph<'_>> {
    let unlimited = SchemaLimits {
        bytes: usize::MAX,
        depth: usize::MAX,
        nodes: usize::MAX,
        expansion: usize::MAX,
        pattern_states: usize::MAX,
    };
    SchemaGraph::of(schema, &survey::survey(schema, &unlimited).ok()?).ok()
}

/// Returns the dialect declared by the `$schema` keyword of `schema`, or `None` if the keyword is
/// absent. Fails if the dialect is neither draft 2020-12 nor draft-07. The error reports `pointer`
/// as the location of `schema`.
fn draft_of(schema: &Value, pointer: &str) -> Result<Option<Draft>, SchemaError> {
    let Some(declared) = schema.get("$schema") else { return Ok(None) };
    match declared.as_str().map(Draft::from_schema_uri) {
        Some(draft @ (Draft::Draft202012 | Draft::Draft7)) => Ok(Some(draft)),
        _ => {
            let name = declared.as_str().map_or_else(|| declared.to_string(), str::to_owned);
            Err(SchemaError::new(pointer, SchemaFault::UnknownDialect(name)))
        }
    }
}
