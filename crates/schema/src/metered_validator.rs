//! A validator with a cost budget for each check.
//!
//! The `jsonschema` crate has no budget, and the cost of a check may be exponential in the depth of
//! the value. In the validator of this module, each subschema first subtracts its cost from the
//! budget. When the budget is used up, every subschema rejects its value, so the check ends soon. A
//! check within the budget has the same result as the validator of the original schema.

use jsonschema::{Draft, FancyRegex, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::cost::{self, MAX_BACKTRACKS, ValidationCost};
use super::preflight::{self, InstanceLocation, Node, SchemaGraph};

/// An internal keyword that subtracts the cost of a subschema from the budget. The value of the
/// keyword is the index of the subschema in the graph. A keyword with this name in the original
/// schema is removed.
const COST_KEYWORD: &str = "haft:cost";

/// Compiles `schema`, which must have passed the preflight, to a validator with a budget. Returns
/// `None` if the rewritten schema cannot be compiled.
pub(super) fn compile(schema: &Value, draft: Draft) -> Option<Validator> {
    let graph = preflight::build_graph(schema)?;
    let costs: Vec<_> = graph.nodes().iter().map(|node| ValidationCost::of(node.schema)).collect();
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true).offline();
    let options =
        options.with_pattern_options(pattern_options()).with_keyword(COST_KEYWORD, move |_, number, _| {
            let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
            let cost = number.and_then(|number| costs.get(number)).copied().unwrap_or_default();
            Ok(Box::new(CostKeyword(cost)))
        });
    options.build(&flatten(&graph, draft)).ok()
}

/// Returns the options of the regular expression engine, which limit a match to [`MAX_BACKTRACKS`]
/// backtracks.
pub(super) fn pattern_options() -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS)
}

struct CostKeyword(ValidationCost);

impl<'i> Keyword<'i> for CostKeyword {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) { Ok(()) } else { Err(ValidationError::custom("a check within its budget")) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        cost::spend(self.0.of_value(value))
    }
}

/// Returns the schema of `graph`, rewritten for a validator with a budget: each subschema becomes a
/// definition in `$defs`, guarded by the keyword [`COST_KEYWORD`]. Unreachable subschemas are
/// omitted, because the compiler ignores them in the original schema, but might reject them as
/// definitions.
fn flatten(graph: &SchemaGraph<'_>, draft: Draft) -> Value {
    let mut all = Map::new();
    let mut open = vec![0];
    while let Some(number) = open.pop() {
        let Some(node) = graph.node_at(number).filter(|_| !all.contains_key(&number.to_string())) else {
            continue;
        };
        let then = flatten_node(graph, node, draft, &mut open).unwrap_or_else(|| node.schema.clone());
        all.insert(number.to_string(), json!({"if": {COST_KEYWORD: number}, "then": then, "else": false}));
    }
    json!({"$ref": definition_reference(0), "$defs": all})
}

/// Returns a copy of the subschema `node`. References to definitions replace its nested subschemas,
/// and the numbers of these definitions are appended to `open`. Returns `None` if the subschema is
/// a boolean.
fn flatten_node(
    graph: &SchemaGraph<'_>,
    node: &Node<'_>,
    draft: Draft,
    open: &mut Vec<usize>,
) -> Option<Value> {
    let mut to = |number| {
        open.push(number);
        json!({"$ref": definition_reference(number)})
    };
    let mut keywords = Map::new();
    for (keyword, value) in node.schema.as_object()?.iter().filter(|(keyword, _)| is_known(draft, keyword)) {
        let is_kept = !keyword.starts_with('$') || keyword == "$schema";
        let holds = preflight::subschemas("", keyword, value);
        let Some(first) = holds.first() else {
            if is_kept && keyword != COST_KEYWORD {
                keywords.insert(keyword.clone(), value.clone());
            }
            continue;
        };
        let mut place = |schema: &Value| graph.node_index(schema).map_or_else(|| schema.clone(), &mut to);
        let value = match value {
            _ if first.location == InstanceLocation::None => continue,
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
        match edge.reference.filter(|keyword| is_known(draft, keyword)) {
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

/// Returns `true` if the dialect `draft` supports `keyword`. The graph contains the subschemas of
/// draft 2020-12 and draft-07, so keywords of the other dialect must be skipped.
fn is_known(draft: Draft, keyword: &str) -> bool {
    match draft {
        Draft::Draft7 => !matches!(
            keyword,
            "$dynamicRef" | "prefixItems" | "dependentSchemas" | "unevaluatedProperties" | "unevaluatedItems"
        ),
        _ => keyword != "additionalItems",
    }
}

fn definition_reference(number: usize) -> String {
    format!("#/$defs/{number}")
}
