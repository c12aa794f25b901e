//! A validator that stops.
//!
//! The validator knows no budget: what a small schema asks for may grow with the power of a value's depth. Here each
//! visit of a subschema first pays its toll, and once nothing is left no value fits any more, so that nothing is
//! looked into. Which values fit stays the same where the budget is enough.

use jsonschema::{Draft, FancyRegex, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::effort::{self, BACKTRACKS, Cost};
use super::preflight::{self, Graph, Node, Place};

/// The keyword that takes the toll of one subschema, by its number. No schema may use it: all are written anew.
const TOLL: &str = "haft:toll";

/// Compiles a schema that the preflight has let pass.
pub(super) fn compile(schema: &Value, draft: Draft) -> Option<Validator> {
    let graph = preflight::graph(schema)?;
    let costs: Vec<_> = graph.nodes().iter().map(|node| Cost::of(node.schema)).collect();
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
    let options = options.with_pattern_options(patterns()).with_keyword(TOLL, move |_, number, _| {
        let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
        let cost = number.and_then(|number| costs.get(number)).copied().unwrap_or_default();
        Ok(Box::new(Toll(cost)))
    });
    options.build(&flat(&graph, draft)).ok()
}

/// How regular expressions are matched: such that one text costs little, whatever the expression.
pub(super) fn patterns() -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS)
}

struct Toll(Cost);

impl<'i> Keyword<'i> for Toll {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) { Ok(()) } else { Err(ValidationError::custom("less effort")) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        effort::spend(self.0.with(value))
    }
}

/// The same schema with each subschema in a place of its own, behind its toll. What nothing leads to is left out: the
/// compiler has not seen it, and might refuse it now.
fn flat(graph: &Graph<'_>, draft: Draft) -> Value {
    let mut all = Map::new();
    let mut open = vec![0];
    while let Some(number) = open.pop() {
        let Some(node) = graph.node_at(number).filter(|_| !all.contains_key(&number.to_string())) else {
            continue;
        };
        let then = apart(graph, node, draft, &mut open).unwrap_or_else(|| node.schema.clone());
        all.insert(number.to_string(), json!({"if": {TOLL: number}, "then": then, "else": false}));
    }
    json!({"$ref": path(0), "$defs": all})
}

/// A subschema with references in place of those that it consists of, which are noted.
fn apart(graph: &Graph<'_>, node: &Node<'_>, draft: Draft, noted: &mut Vec<usize>) -> Option<Value> {
    let mut to = |number| {
        noted.push(number);
        json!({"$ref": path(number)})
    };
    let mut keywords = Map::new();
    for (keyword, value) in node.schema.as_object()?.iter().filter(|(keyword, _)| counts(draft, keyword)) {
        let is_kept = !keyword.starts_with('$') || keyword == "$schema";
        let holds = preflight::subschemas("", keyword, value);
        let Some(first) = holds.first() else {
            if is_kept && keyword != TOLL {
                keywords.insert(keyword.clone(), value.clone());
            }
            continue;
        };
        let mut place = |schema: &Value| graph.number(schema).map_or_else(|| schema.clone(), &mut to);
        let value = match value {
            _ if first.place == Place::Nowhere => continue,
            Value::Object(_) if std::ptr::eq(first.schema, value) => place(value),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (name.clone(), place(member))).collect()
            }
            Value::Array(items) => items.iter().map(place).collect(),
            other => other.clone(),
        };
        keywords.insert(keyword.clone(), value);
    }
    for edge in &node.edges {
        match edge.reference.filter(|keyword| counts(draft, keyword)) {
            Some("$ref") => drop(keywords.insert("$ref".to_owned(), to(edge.node)["$ref"].take())),
            Some(_) => {
                let all = keywords.entry("allOf").or_insert_with(|| json!([]));
                all.as_array_mut()?.push(to(edge.node));
            }
            None => {}
        }
    }
    Some(Value::Object(keywords))
}

/// Whether a keyword with subschemas is known to a dialect. The graph has those of both.
fn counts(draft: Draft, keyword: &str) -> bool {
    match draft {
        Draft::Draft7 => !matches!(
            keyword,
            "$dynamicRef" | "prefixItems" | "dependentSchemas" | "unevaluatedProperties" | "unevaluatedItems"
        ),
        _ => keyword != "additionalItems",
    }
}

fn path(number: usize) -> String {
    format!("#/$defs/{number}")
}
