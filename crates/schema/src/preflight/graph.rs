//! The subschemas of a schema and how they lead to each other.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::super::error::{SchemaError, SchemaFault};
use super::super::reference::Reference;
use super::keyword::{self, Place};
use super::measure::Survey;

/// How many subschemas may lead on to each other for one value. The validator takes stack for each of them.
const CHAIN: usize = 500;

/// How many references the compiler follows one inside the other before it puts them off.
const NESTED_REFERENCES: usize = 8;

/// How many subschemas inside each other the compiler may meet on its way. It takes stack for each of them: in a debug build
/// 400 are too many for a thread of 2 MiB.
const NESTED: usize = 300;

/// Every subschema that can be reached, by keyword or by reference. The root comes first.
pub(crate) struct Graph<'s> {
    nodes: Vec<Node<'s>>,
    /// The nodes by their address in the document.
    index: HashMap<*const Value, usize>,
}

pub(crate) struct Node<'s> {
    pub(crate) schema: &'s Value,
    pub(crate) pointer: String,
    /// The subschemas that it consists of.
    pub(crate) edges: Vec<Edge<'s>>,
}

/// How one subschema leads to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge<'s> {
    pub(crate) place: Place<'s>,
    pub(crate) node: usize,
    /// The keyword, if it is a reference.
    pub(crate) reference: Option<&'static str>,
}

/// How far the count of one node has come.
enum Count {
    Open,
    Done(u64),
}

/// One step of the walk that counts: a node, its next child, and what its children came to so far.
struct Frame {
    node: usize,
    child: usize,
    inner: u64,
}

impl Frame {
    fn of(node: usize) -> Self {
        Self { node, child: 0, inner: 0 }
    }

    fn next_child(&mut self, graph: &Graph<'_>, follows: fn(&Edge<'_>) -> bool) -> Option<usize> {
        loop {
            let edge = graph.node_at(self.node)?.edges.get(self.child)?;
            self.child += 1;
            if follows(edge) {
                return Some(edge.node);
            }
        }
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
            let mut edges = Vec::new();
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                for it in keyword::subschemas(&pointer, keyword, value) {
                    let node = graph.node(it.schema, it.pointer);
                    edges.push(Edge { place: it.place, node, reference: None });
                }
            }
            for (reference, text) in references(schema) {
                let at = || format!("{pointer}/{reference}");
                let (target, target_pointer) =
                    resolve(root, survey, text).map_err(|it| SchemaError::new(at(), it))?;
                let node = graph.node(target, target_pointer);
                edges.push(Edge { place: Place::Here, node, reference: Some(reference) });
            }
            if let Some(node) = graph.nodes.get_mut(next) {
                node.edges = edges;
            }
            next += 1;
        }
        Ok(graph)
    }

    /// All subschemas. Edges count from the start of this list.
    pub(crate) fn nodes(&self) -> &[Node<'s>] {
        &self.nodes
    }

    /// What references lead to, each once.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Node<'s>> {
        let edges = self.nodes.iter().flat_map(|node| &node.edges);
        let targets: BTreeSet<_> =
            edges.filter(|edge| edge.reference.is_some()).map(|edge| edge.node).collect();
        targets.into_iter().filter_map(|target| self.nodes.get(target))
    }

    /// The subschema of that number.
    pub(crate) fn node_at(&self, node: usize) -> Option<&Node<'s>> {
        self.nodes.get(node)
    }

    /// The number of a subschema.
    pub(crate) fn number(&self, schema: &Value) -> Option<usize> {
        self.index.get(&std::ptr::from_ref(schema)).copied()
    }

    /// The node of a subschema, new or known.
    fn node(&mut self, schema: &'s Value, pointer: String) -> usize {
        let nodes = &mut self.nodes;
        *self.index.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            nodes.push(Node { schema, pointer, edges: Vec::new() });
            nodes.len() - 1
        })
    }

    /// Refuses what applies to one value more than `limit` times, through too many others, or without an end.
    pub(super) fn bounded(&self, limit: usize) -> Result<(), SchemaError> {
        let here: fn(&Edge<'_>) -> bool = |edge| edge.place == Place::Here;
        let counts = self
            .unfolded(here, u64::saturating_add, |_| 1)
            .map_err(|node| self.refuse(node, SchemaFault::InfiniteRecursion))?;
        if let Some((node, _)) = counts.iter().find(|(_, count)| *count > limit as u64) {
            return Err(self.refuse(*node, SchemaFault::TooExpansive(limit)));
        }
        if self.chain() > CHAIN {
            return Err(self.refuse(0, SchemaFault::TooExpansive(CHAIN)));
        }
        // Each reference that is followed may lead to the deepest part of the document.
        let levels = NESTED / (1 + self.references().min(NESTED_REFERENCES));
        if self.levels() > levels {
            return Err(self.refuse(0, SchemaFault::TooDeep(levels)));
        }
        Ok(())
    }

    fn references(&self) -> usize {
        self.nodes.iter().flat_map(|node| &node.edges).filter(|edge| edge.reference.is_some()).count()
    }

    /// How many subschemas are inside each other at most, without following references.
    fn levels(&self) -> usize {
        let depths = self.unfolded(|edge| edge.reference.is_none(), u64::max, |_| 1).unwrap_or_default();
        let deepest = depths.into_iter().map(|(_, depth)| depth).max();
        deepest.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(1)
    }

    /// How many subschemas lead on to each other at most that all apply to one value.
    pub(crate) fn chain(&self) -> usize {
        let chains = self.unfolded(|edge| edge.place == Place::Here, u64::max, |_| 1).unwrap_or_default();
        let longest = chains.into_iter().map(|(_, length)| length).max();
        longest.and_then(|length| usize::try_from(length).ok()).unwrap_or(1)
    }

    /// What the root and all that it leads to come to, each counted as often as it is led to; `None` if that has no
    /// end.
    pub(crate) fn weight(&self, own: impl Fn(usize) -> u64) -> Option<u64> {
        let counts = self.unfolded(|edge| edge.place != Place::Nowhere, u64::saturating_add, own).ok()?;
        counts.iter().find(|(node, _)| *node == 0).map(|(_, count)| *count)
    }

    /// What each node and all that it leads to come to, the inner ones first, or a node that leads back to itself.
    fn unfolded(
        &self,
        follows: fn(&Edge<'_>) -> bool,
        combined: fn(u64, u64) -> u64,
        own: impl Fn(usize) -> u64,
    ) -> Result<Vec<(usize, u64)>, usize> {
        let mut counts = HashMap::new();
        let mut done = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            if counts.contains_key(&start) {
                continue;
            }
            counts.insert(start, Count::Open);
            let mut path = vec![Frame::of(start)];
            while let Some(frame) = path.last_mut() {
                if let Some(child) = frame.next_child(self, follows) {
                    match counts.get(&child) {
                        Some(Count::Done(count)) => frame.inner = combined(frame.inner, *count),
                        Some(Count::Open) => return Err(child),
                        None => {
                            counts.insert(child, Count::Open);
                            path.push(Frame::of(child));
                        }
                    }
                    continue;
                }
                let node = frame.node;
                let count = own(node).saturating_add(frame.inner);
                counts.insert(node, Count::Done(count));
                done.push((node, count));
                path.pop();
                if let Some(parent) = path.last_mut() {
                    parent.inner = combined(parent.inner, count);
                }
            }
        }
        Ok(done)
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
