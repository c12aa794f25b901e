//! What is checked before a schema meets the compiler: that it is small, closed and comes to an end.
//!
//! Nothing here recurses beyond a bound, so that no input can exhaust the stack.

mod graph;
mod keyword;
mod measure;
pub(super) mod pattern;
#[cfg(test)]
mod tests;

use jsonschema::Draft;
use serde_json::Value;

pub(super) use self::graph::{Graph, Node};
pub(super) use self::keyword::{Place, subschemas};
pub use self::measure::exceeds_depth;
pub(super) use self::measure::{dismantle, exceeds_size};
use super::error::{SchemaError, SchemaFault};

/// The most levels of objects and arrays in a checked value: 100. The parser of `serde_json` reads 128.
pub const VALUE_DEPTH: usize = 100;

/// Bounds on a schema, checked before it is compiled.
///
/// # Examples
///
/// ```
/// use haft_schema::{Schema, SchemaFault, SchemaLimits};
/// use serde_json::json;
///
/// let limits = SchemaLimits { depth: 2, ..SchemaLimits::default() };
/// let error = Schema::with_limits(json!({"properties": {"x": {"type": "integer"}}}), &limits).unwrap_err();
/// assert_eq!(error.fault(), &SchemaFault::TooDeep(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaLimits {
    /// The length as compact JSON, in bytes. 256 KiB by default.
    pub bytes: usize,
    /// How many objects and arrays may be inside each other. 64 by default.
    pub depth: usize,
    /// How many JSON values the schema may have in all. 10,000 by default.
    pub nodes: usize,
    /// How many subschemas may apply to one value, each counted as often as references lead to it. 10,000 by
    /// default.
    pub expansion: usize,
    /// How many states all regular expressions may take together, estimated before they are compiled. 100,000 by
    /// default.
    pub patterns: usize,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, depth: 64, nodes: 10_000, expansion: 10_000, patterns: 100_000 }
    }
}

/// Lets a schema pass that is safe to compile and to validate with, and says in which dialect it is written.
pub(super) fn inspect(schema: &Value, limits: &SchemaLimits) -> Result<Draft, SchemaError> {
    let survey = measure::survey(schema, limits)?;
    let draft = draft_of(schema, "")?.unwrap_or(Draft::Draft202012);
    let graph = Graph::of(schema, &survey)?;
    graph.bounded(limits.expansion)?;
    Ok(draft)
}

/// The subschemas of a schema that has passed.
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

/// The dialect that a subschema declares, if it does.
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
