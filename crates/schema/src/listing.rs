//! How many errors a value may have, counted before they are listed.
//!
//! The validator lists errors without an end in sight: it goes into every subschema of `allOf` and every alternative of
//! a union, and again where references meet. So its way is walked first, which is cheap and can be stopped.

use serde_json::{Map, Value};

use super::effort::Cost;
use super::preflight::{self, Graph, Place};

/// How many visits of a subschema may lead to an error for all to be listed. An error takes a hundred times the memory
/// of a value.
const VISITS: usize = 50_000;

/// How the errors of one value can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// All of them.
    Whole,
    /// The first one, found without listing others.
    First,
    /// Not at all: it would take too much.
    None,
}

/// Tells how the errors of a value can be listed, and takes what that costs from the effort that is left.
pub(super) fn plan(schema: &Value, value: &Value, effort: &mut u64) -> Listing {
    let Some(graph) = preflight::graph(schema) else { return Listing::None };
    let costs = vec![None; graph.nodes().len()];
    let mut walk = Walk { graph: &graph, costs, visits: 0, has_union: false, effort };
    match walk.visit_all(0, value) {
        None => Listing::None,
        Some(()) if walk.visits <= VISITS => Listing::Whole,
        Some(()) if walk.has_union => Listing::None,
        Some(()) => Listing::First,
    }
}

struct Walk<'g, 's> {
    graph: &'g Graph<'s>,
    /// What each subschema costs, once that is known.
    costs: Vec<Option<Cost>>,
    visits: usize,
    /// Whether there was a union, the one error that holds others.
    has_union: bool,
    effort: &'g mut u64,
}

impl Walk<'_, '_> {
    /// Visits a subschema with a value and whatever follows from that; `None` when the effort is spent.
    fn visit_all(&mut self, node: usize, value: &Value) -> Option<()> {
        let mut open = vec![(node, value)];
        while let Some((node, value)) = open.pop() {
            let cost = self.pay(node, value)?;
            let node = self.graph.node_at(node)?;
            let keywords = node.schema.as_object();
            self.has_union |= keywords.is_some_and(|it| it.contains_key("anyOf") || it.contains_key("oneOf"));
            let skipped = keywords.and_then(|keywords| skipped(keywords, value));
            for edge in &node.edges {
                let target = self.graph.node_at(edge.node)?.schema;
                if edge.place == Place::Names {
                    self.visit_names(edge.node, value)?;
                } else if !skipped.is_some_and(|skipped| std::ptr::eq(skipped, target)) {
                    let times = if cost.looks_again() && edge.place == Place::Here { 3 } else { 1 };
                    for _ in 0..times {
                        let before = open.len();
                        open.extend(parts(edge.place, value).map(|part| (edge.node, part)));
                        *self.effort = self.effort.checked_sub((open.len() - before) as u64)?;
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

    fn pay(&mut self, node: usize, value: &Value) -> Option<Cost> {
        let schema = self.graph.node_at(node)?.schema;
        let cost = *self.costs.get_mut(node)?.get_or_insert_with(|| Cost::of(schema));
        *self.effort = self.effort.checked_sub(cost.with(value))?;
        self.visits += 1;
        Some(cost)
    }
}

/// The parts of a value that a subschema applies to.
fn parts<'v>(place: Place<'_>, value: &'v Value) -> Box<dyn Iterator<Item = &'v Value> + 'v> {
    let items = || value.as_array().into_iter().flatten();
    match place {
        Place::Here => Box::new(std::iter::once(value)),
        Place::Member(name) => Box::new(value.get(name).into_iter()),
        Place::Members => Box::new(value.as_object().into_iter().flat_map(Map::values)),
        Place::Item(index) => Box::new(value.get(index).into_iter()),
        Place::Items => Box::new(items()),
        Place::Names | Place::Nowhere => Box::new(std::iter::empty()),
    }
}

/// The `then` that does not apply, where that can be seen at once. It is what guards an alternative.
fn skipped<'s>(keywords: &'s Map<String, Value>, value: &Value) -> Option<&'s Value> {
    let (condition, then) = (keywords.get("if")?, keywords.get("then")?);
    refuses(condition, value).then_some(then)
}

/// Whether a value surely does not fit a simple schema.
fn refuses(schema: &Value, value: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema == &Value::Bool(false) };
    // Draft-07 ignores what stands beside a reference.
    if keywords.contains_key("$ref") {
        return false;
    }
    keywords.iter().any(|(keyword, wanted)| match (keyword.as_str(), value) {
        ("type", _) => !is_of(value, wanted),
        ("const", Value::String(_)) => wanted != value,
        ("enum", Value::String(_)) => wanted.as_array().is_some_and(|all| !all.contains(value)),
        ("required", Value::Object(members)) => {
            let mut names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.any(|name| !members.contains_key(name))
        }
        ("properties", Value::Object(members)) => {
            let mut declared = wanted.as_object().into_iter().flatten();
            declared.any(|(name, schema)| members.get(name).is_some_and(|member| refuses(schema, member)))
        }
        _ => false,
    })
}

/// Whether a value may be of a type. A number is taken for an integer too.
fn is_of(value: &Value, wanted: &Value) -> bool {
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
