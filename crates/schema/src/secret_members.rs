//! The secret parts of a value, according to its schema.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Schema;
use super::preflight::{self, InstanceLocation, SchemaGraph};

/// The secret parts of a value. A schema marks them with `writeOnly: true` or `format: password`.
#[derive(Debug, Default, PartialEq)]
pub struct SecretMembers {
    /// `true` if the whole value is secret.
    pub is_whole_value: bool,
    /// The names of secret object members at any level of the value. If a secret has no name, such
    /// as a secret array item, the closest enclosing member is secret as a whole.
    pub names: BTreeSet<String>,
}

impl Schema {
    /// Returns the members that this schema declares as secret. They are computed on the first call
    /// and cached.
    pub fn secret_members(&self) -> &SecretMembers {
        self.0.secret_members.get_or_init(|| secrets_of_schema(self.as_value()))
    }
}

fn secrets_of_schema(schema: &Value) -> SecretMembers {
    if !has_marker(schema) {
        return SecretMembers::default();
    }
    match preflight::build_graph(schema) {
        Some(graph) => secrets_of_graph(&graph),
        None => SecretMembers { is_whole_value: true, names: BTreeSet::new() },
    }
}

/// Returns `true` if `value` contains a JSON object with a secret marker. The object may be a
/// subschema, but also data such as a `default`, so this is only a quick check.
fn has_marker(value: &Value) -> bool {
    match value {
        Value::Object(members) => is_marked(value) || members.values().any(has_marker),
        Value::Array(items) => items.iter().any(has_marker),
        _ => false,
    }
}

fn is_marked(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").and_then(Value::as_str) == Some("password")
}

/// Collects the secret members from the subschemas in `graph`. If a secret has no name, such as an
/// array item, the closest enclosing member becomes secret.
fn secrets_of_graph(graph: &SchemaGraph<'_>) -> SecretMembers {
    let edges = || {
        graph.nodes().iter().enumerate().flat_map(|(node, it)| it.edges.iter().map(move |edge| (node, edge)))
    };
    let mut parents = vec![Vec::new(); graph.nodes().len()];
    for (node, edge) in edges() {
        let is_nameless = !matches!(
            edge.location,
            InstanceLocation::Member(_) | InstanceLocation::Names | InstanceLocation::None
        );
        if let Some(parents) = parents.get_mut(edge.node).filter(|_| is_nameless) {
            parents.push(node);
        }
    }
    let marked = |(node, it): (usize, &preflight::Node<'_>)| is_marked(it.schema).then_some(node);
    let mut next: Vec<usize> = graph.nodes().iter().enumerate().filter_map(marked).collect();
    let mut secret: BTreeSet<usize> = next.iter().copied().collect();
    while let Some(node) = next.pop() {
        let parents = parents.get(node).into_iter().flatten();
        next.extend(parents.filter(|parent| secret.insert(**parent)));
    }
    let names =
        edges().filter(|(_, edge)| secret.contains(&edge.node)).filter_map(|(_, edge)| match edge.location {
            InstanceLocation::Member(name) => Some(name.to_owned()),
            _ => None,
        });
    SecretMembers { names: names.collect(), is_whole_value: secret.contains(&0) }
}
