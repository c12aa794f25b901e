//! Selection of the errors that are listed for an invalid value: all errors, only the first, or
//! none.
//!
//! The validator lists the errors of every branch of `allOf` and of every alternative of a union,
//! and repeats them for each reference to the same subschema. Once the listing has started, it
//! cannot be interrupted. Therefore, a cheaper walk with a budget visits the same subschemas first.

use serde_json::{Map, Value};

use super::cost::ValidationCost;
use super::preflight::{self, InstanceLocation, SchemaGraph};

/// The maximum number of subschema visits for which all errors are listed. Each visit may produce
/// an error, and an error takes about a hundred times the memory of a JSON value.
const MAX_VISITS: usize = 50_000;

/// The errors that the validator is allowed to list for an invalid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorPlan {
    /// The validator lists all errors.
    All,
    /// The validator lists only the first error, because a list of all errors could take too much
    /// memory.
    First,
    /// The validator lists no error, because even the first error could take too much time or
    /// memory to produce.
    None,
}

/// Decides which errors of `value` the validator may list. Subtracts the cost of this decision from
/// `budget`.
pub(super) fn plan(schema: &Value, value: &Value, budget: &mut u64) -> ErrorPlan {
    let Some(graph) = preflight::build_graph(schema) else { return ErrorPlan::None };
    let costs = vec![None; graph.nodes().len()];
    let mut walk = Walk { graph: &graph, costs, visits: 0, has_union: false, budget };
    match walk.visit_all(0, value) {
        None => ErrorPlan::None,
        Some(()) if walk.visits <= MAX_VISITS => ErrorPlan::All,
        Some(()) if walk.has_union => ErrorPlan::None,
        Some(()) => ErrorPlan::First,
    }
}

struct Walk<'g, 's> {
    graph: &'g SchemaGraph<'s>,
    /// The costs of the subschemas, in the order of the nodes in `graph`. `None` until the first
    /// visit to the subschema.
    costs: Vec<Option<ValidationCost>>,
    visits: usize,
    /// `true` if the walk visited a subschema with `anyOf` or `oneOf`. The error of a union
    /// contains the errors of all alternatives, so even a single error may be large.
    has_union: bool,
    budget: &'g mut u64,
}

impl Walk<'_, '_> {
    /// Visits the subschema at index `node` of the graph for `value`, and all nested subschemas
    /// that the validator would evaluate. Returns `None` if the budget is used up.
    fn visit_all(&mut self, node: usize, value: &Value) -> Option<()> {
        let mut open = vec![(node, value)];
        while let Some((node, value)) = open.pop() {
            let cost = self.spend_visit(node, value)?;
            let node = self.graph.node_at(node)?;
            let keywords = node.schema.as_object();
            self.has_union |= keywords.is_some_and(|it| it.contains_key("anyOf") || it.contains_key("oneOf"));
            let skipped = keywords.and_then(|keywords| skipped_branch(keywords, value));
            for edge in &node.edges {
                let target = self.graph.node_at(edge.node)?.schema;
                if edge.location == InstanceLocation::Names {
                    self.visit_names(edge.node, value)?;
                } else if !skipped.is_some_and(|skipped| std::ptr::eq(skipped, target)) {
                    let times =
                        if cost.reevaluates() && edge.location == InstanceLocation::Current { 3 } else { 1 };
                    for _ in 0..times {
                        let before = open.len();
                        open.extend(values_at(edge.location, value).map(|part| (edge.node, part)));
                        *self.budget = self.budget.checked_sub((open.len() - before) as u64)?;
                    }
                }
            }
        }
        Some(())
    }

    fn visit_names(&mut self, node: usize, value: &Value) -> Option<()> {
        let names = value.as_object().into_iter().flat_map(Map::keys);
        names.map(|name| self.visit_all(node, &Value::from(name.as_str()))).collect()
    }

    fn spend_visit(&mut self, node: usize, value: &Value) -> Option<ValidationCost> {
        let schema = self.graph.node_at(node)?.schema;
        let cost = *self.costs.get_mut(node)?.get_or_insert_with(|| ValidationCost::of(schema));
        *self.budget = self.budget.checked_sub(cost.of_value(value))?;
        self.visits += 1;
        Some(cost)
    }
}

/// Returns the parts of `value` to which a subschema at `location` applies. The iterator is empty
/// for property names, which [`Walk::visit_names`] visits.
fn values_at<'v>(
    location: InstanceLocation<'_>,
    value: &'v Value,
) -> Box<dyn Iterator<Item = &'v Value> + 'v> {
    let items = || value.as_array().into_iter().flatten();
    match location {
        InstanceLocation::Current => Box::new(std::iter::once(value)),
        InstanceLocation::Member(name) => Box::new(value.get(name).into_iter()),
        InstanceLocation::Members => Box::new(value.as_object().into_iter().flat_map(Map::values)),
        InstanceLocation::Item(index) => Box::new(value.get(index).into_iter()),
        InstanceLocation::Items => Box::new(items()),
        InstanceLocation::Names | InstanceLocation::None => Box::new(std::iter::empty()),
    }
}

/// Returns the `then` subschema of `keywords` if the validator skips it, because `value` is
/// certainly invalid for the `if` subschema. Returns `None` if `value` may be valid for `if`, or if
/// `keywords` does not contain both `if` and `then`. [`union_guards`](super::union_guards) adds
/// these keywords.
fn skipped_branch<'s>(keywords: &'s Map<String, Value>, value: &Value) -> Option<&'s Value> {
    let (condition, then) = (keywords.get("if")?, keywords.get("then")?);
    rejects(condition, value).then_some(then)
}

/// Returns `true` if `value` is certainly invalid for `schema`. Only `type`, `required`,
/// `properties` and, for strings, `const` and `enum` are evaluated. `value` is assumed to satisfy
/// all other keywords.
fn rejects(schema: &Value, value: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema == &Value::Bool(false) };
    // Draft-07 ignores all keywords beside a `$ref`, so they do not reject `value`.
    if keywords.contains_key("$ref") {
        return false;
    }
    keywords.iter().any(|(keyword, wanted)| match (keyword.as_str(), value) {
        ("type", _) => !may_have_type(value, wanted),
        ("const", Value::String(_)) => wanted != value,
        ("enum", Value::String(_)) => wanted.as_array().is_some_and(|all| !all.contains(value)),
        ("required", Value::Object(members)) => {
            let mut names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.any(|name| !members.contains_key(name))
        }
        ("properties", Value::Object(members)) => {
            let mut declared = wanted.as_object().into_iter().flatten();
            declared.any(|(name, schema)| members.get(name).is_some_and(|member| rejects(schema, member)))
        }
        _ => false,
    })
}

/// Returns `true` if `value` may have the type `wanted`, or one of the types if `wanted` is an
/// array. Every number is treated as a possible integer.
fn may_have_type(value: &Value, wanted: &Value) -> bool {
    let is = |wanted: &Value| match (wanted.as_str(), value) {
        (Some("null"), it) => it.is_null(),
        (Some("boolean"), it) => it.is_boolean(),
        (Some("number" | "integer"), it) => it.is_number(),
        (Some("string"), it) => it.is_string(),
        (Some("array"), it) => it.is_array(),
        (Some("object"), it) => it.is_object(),
        _ => true,
    };
    wanted.as_array().map_or_else(|| is(wanted), |all| all.iter().any(is))
}
