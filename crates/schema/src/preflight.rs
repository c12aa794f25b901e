//! Checks of a schema before its compilation: bounded size, only local references, and no infinite
//! recursion.
//!
//! The recursion of these checks is bounded, so no schema can overflow the stack.

mod graph;
mod measure;
pub(super) mod pattern;
mod subschema;
#[cfg(test)]
mod tests;

use jsonschema::Draft;
use serde_json::Value;

pub(super) use self::graph::{Graph, Node};
pub use self::measure::exceeds_depth;
pub(super) use self::measure::{drop_iteratively, exceeds_size};
pub(super) use self::subschema::{InstanceLocation, subschemas};
use super::error::{SchemaError, SchemaFault};

/// The maximum nesting of objects and arrays in a valid value: 100 levels. Parsed values may be
/// deeper, because the parser of `serde_json` accepts 128 levels.
pub const VALUE_DEPTH: usize = 100;

/// The limits for a schema, checked before it is compiled.
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
    /// The maximum number of JSON values in the schema, at all levels. 10,000 by default.
    pub nodes: usize,
    /// The maximum number of subschemas applied to one value, for example through `allOf` and
    /// `$ref`. A subschema with several references counts once per reference. 10,000 by default.
    pub expansion: usize,
    /// The maximum number of states of all regular expressions in the schema, estimated before they
    /// are compiled. 100,000 by default.
    pub patterns: usize,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, depth: 64, nodes: 10_000, expansion: 10_000, patterns: 100_000 }
    }
}

/// Checks `schema` against `limits`, so that it is safe to compile and to use. Returns the dialect
/// of `schema`.
pub(super) fn inspect(schema: &Value, limits: &SchemaLimits) -> Result<Draft, SchemaError> {
    let survey = measure::survey(schema, limits)?;
    let draft = draft_of(schema, "")?.unwrap_or(Draft::Draft202012);
    let graph = Graph::of(schema, &survey)?;
    graph.check_limits(limits.expansion)?;
    Ok(draft)
}

/// Returns the graph of the subschemas of `schema`. It is `None` only for a schema that has not
/// passed the preflight.
pub(super) fn graph(schema: &Value) -> Option<Graph<'_>> {
    let unlimited = SchemaLimits {
        bytes: usize::MAX,
        depth: usize::MAX,
        nodes: usize::MAX,
        expansion: usize::MAX,
        patterns: usize::MAX,
    };
    Graph::of(schema, &measure::survey(schema, &unlimited).ok()?).ok()
}

/// Returns the dialect declared by the `$schema` keyword of `schema`, or `None` if `schema` has no
/// `$schema`. Fails for an unknown dialect.
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
