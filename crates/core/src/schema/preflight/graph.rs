//! The subschemas of a schema and how they lead to each other.

use std::collections::HashMap;

use serde_json::Value;

use super::super::error::{SchemaError, SchemaFault};
use super::super::reference::Reference;
use super::keyword::{self, Place};
use super::measure::Survey;

/// Every subschema that can be reached, by keyword or by reference.
pub(super) struct Graph<'s> {
    nodes: Vec<Node<'s>>,
    /// The nodes by their address in the document.
    index: HashMap<*const Value, usize>,
}

struct Node<'s> {
    schema: &'s Value,
    pointer: String,
    /// The subschemas that apply to the same value as this one.
    here: Vec<usize>,
}

/// How far the count of one node has come.
enum Count {
    Open,
    Done(usize),
}

/// One step of the walk that counts: a node, its next child, and what was counted so far.
struct Frame {
    node: usize,
    child: usize,
    count: usize,
}

impl Frame {
    fn of(node: usize) -> Self {
        Self { node, child: 0, count: 1 }
    }

    fn next_child(&mut self, graph: &Graph<'_>) -> Option<usize> {
        let child = *graph.nodes.get(self.node)?.here.get(self.child)?;
        self.child += 1;
        Some(child)
    }
}

impl<'s> Graph<'s> {
    /// Collects the subschemas of a document and refuses references that leave it.
    pub(super) fn of(root: &'s Value, survey: &Survey<'s>) -> Result<Self, SchemaError> {
        let mut graph = Self { nodes: Vec::new(), index: HashMap::new() };
        graph.node(root, String::new());
        let mut next = 0;
        while let Some(node) = graph.nodes.get(next) {
            let (schema, pointer) = (node.schema, node.pointer.clone());
            super::draft_of(schema, &pointer)?;
            let mut here = Vec::new();
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                if let Some((place, found)) = keyword::subschemas(&pointer, keyword, value) {
                    let found = found.into_iter().map(|(pointer, schema)| graph.node(schema, pointer));
                    let found: Vec<_> = found.collect();
                    here.extend(found.into_iter().filter(|_| place == Place::Here));
                }
            }
            for (reference, text) in references(schema) {
                let at = || format!("{pointer}/{reference}");
                let (target, target_pointer) =
                    resolve(root, survey, text).map_err(|it| SchemaError::new(at(), it))?;
                here.push(graph.node(target, target_pointer));
            }
            if let Some(node) = graph.nodes.get_mut(next) {
                node.here = here;
            }
            next += 1;
        }
        Ok(graph)
    }

    /// The node of a subschema, new or known.
    fn node(&mut self, schema: &'s Value, pointer: String) -> usize {
        let nodes = &mut self.nodes;
        *self.index.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            nodes.push(Node { schema, pointer, here: Vec::new() });
            nodes.len() - 1
        })
    }

    /// Refuses what applies to one value more than `limit` times, or without an end.
    pub(super) fn bounded(&self, limit: usize) -> Result<(), SchemaError> {
        let mut counts = HashMap::new();
        for start in 0..self.nodes.len() {
            if counts.contains_key(&start) {
                continue;
            }
            counts.insert(start, Count::Open);
            let mut path = vec![Frame::of(start)];
            while let Some(frame) = path.last_mut() {
                if let Some(child) = frame.next_child(self) {
                    match counts.get(&child) {
                        Some(Count::Done(count)) => frame.count = frame.count.saturating_add(*count),
                        Some(Count::Open) => return Err(self.refuse(child, SchemaFault::Endless)),
                        None => {
                            counts.insert(child, Count::Open);
                            path.push(Frame::of(child));
                        }
                    }
                    continue;
                }
                let Frame { node, count, .. } = *frame;
                if count > limit {
                    return Err(self.refuse(node, SchemaFault::TooExpansive(limit)));
                }
                counts.insert(node, Count::Done(count));
                path.pop();
                if let Some(parent) = path.last_mut() {
                    parent.count = parent.count.saturating_add(count);
                }
            }
        }
        Ok(())
    }

    fn refuse(&self, node: usize, fault: SchemaFault) -> SchemaError {
        SchemaError::new(self.nodes.get(node).map_or("", |node| &node.pointer), fault)
    }
}

/// The references of one subschema, by keyword.
fn references(schema: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| Some((keyword, schema.get(keyword)?.as_str()?)))
}

/// The subschema that a reference leads to, with its pointer.
fn resolve<'s>(root: &'s Value, survey: &Survey<'s>, text: &str) -> Result<(&'s Value, String), SchemaFault> {
    let reference = Reference::parse(text).ok_or_else(|| SchemaFault::RemoteReference(text.to_owned()))?;
    if let Some(id) = survey.nested_id {
        return Err(SchemaFault::NestedId(id.to_owned()));
    }
    let found = match reference {
        Reference::Pointer(pointer) => root.pointer(&pointer).map(|target| (target, pointer)),
        Reference::Anchor(name) => {
            survey.anchors.get(name.as_str()).map(|target| (*target, format!("#{name}")))
        }
    };
    found
        .filter(|(target, _)| target.is_object() || target.is_boolean())
        .ok_or_else(|| SchemaFault::UnresolvedReference(text.to_owned()))
}
