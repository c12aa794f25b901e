//! The graph of a schema. Its nodes are subschemas, and its edges lead to nested and to referenced
//! subschemas.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::super::error::{SchemaError, SchemaFault};
use super::super::reference::Reference;
use super::subschema::{self, InstanceLocation};
use super::survey::Survey;

/// The maximum length of a chain of subschemas that apply to the same value. The validator uses
/// stack space for each subschema of the chain.
const MAX_CHAIN_LENGTH: usize = 500;

/// The number of nested references that the compiler of `jsonschema` follows immediately. It
/// compiles the targets of deeper references later, on an empty stack.
const MAX_COUNTED_REFERENCES: usize = 8;

/// The maximum nesting of subschemas during compilation. The compiler uses stack space for each
/// level: in a debug build, 400 levels overflow a stack of 2 MiB.
const MAX_NESTING: usize = 300;

/// The graph of all subschemas that are reachable from the root. The root is the first node.
pub(crate) struct SchemaGraph<'s> {
    nodes: Vec<Node<'s>>,
    /// The index in `nodes` of each subschema, by the address of the subschema in the document.
    index: HashMap<*const Value, usize>,
}

/// A subschema and its JSON pointer in the document.
pub(crate) struct Node<'s> {
    pub(crate) schema: &'s Value,
    pub(crate) pointer: String,
    /// The edges from this subschema to nested and to referenced subschemas.
    pub(crate) edges: Vec<Edge<'s>>,
}

/// An edge from one subschema to a nested or referenced subschema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge<'s> {
    pub(crate) location: InstanceLocation<'s>,
    pub(crate) node: usize,
    /// The keyword of a reference, such as `$ref`. `None` if the edge leads to a nested subschema.
    pub(crate) reference: Option<&'static str>,
}

/// The state of a node in a depth-first walk: open while its children are visited, then done with
/// the final count.
enum Visit {
    InProgress,
    Done(u64),
}

/// A stack frame of a depth-first walk: a node, the index of its next edge, and the combined count
/// of its visited children.
struct Frame {
    node: usize,
    child: usize,
    inner: u64,
}

impl Frame {
    fn of(node: usize) -> Self {
        Self { node, child: 0, inner: 0 }
    }

    fn next_child(&mut self, graph: &SchemaGraph<'_>, follows: fn(&Edge<'_>) -> bool) -> Option<usize> {
        loop {
            let edge = graph.node_at(self.node)?.edges.get(self.child)?;
            self.child += 1;
            if follows(edge) {
                return Some(edge.node);
            }
        }
    }
}

impl<'s> SchemaGraph<'s> {
    /// Collects all subschemas of the document `root`. Fails if a `$schema` is unknown, if a
    /// reference has no target or points to another document, or if `root` contains a nested `$id`
    /// together with references.
    pub(super) fn of(root: &'s Value, survey: &Survey<'s>) -> Result<Self, SchemaError> {
        let mut graph = Self { nodes: Vec::new(), index: HashMap::new() };
        graph.add_node(root, String::new());
        let mut next = 0;
        while let Some(node) = graph.nodes.get(next) {
            let (schema, pointer) = (node.schema, node.pointer.clone());
            super::draft_of(schema, &pointer)?;
            let mut edges = Vec::new();
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                for it in subschema::subschemas(&pointer, keyword, value) {
                    let node = graph.add_node(it.schema, it.pointer);
                    edges.push(Edge { location: it.location, node, reference: None });
                }
            }
            for (reference, text) in references(schema) {
                let at = || format!("{pointer}/{reference}");
                let (target, target_pointer) =
                    resolve(root, survey, text).map_err(|it| SchemaError::new(at(), it))?;
                let node = graph.add_node(target, target_pointer);
                edges.push(Edge { location: InstanceLocation::Current, node, reference: Some(reference) });
            }
            if let Some(node) = graph.nodes.get_mut(next) {
                node.edges = edges;
            }
            next += 1;
        }
        Ok(graph)
    }

    /// Returns the nodes of all subschemas. [`Edge::node`] is an index into this slice.
    pub(crate) fn nodes(&self) -> &[Node<'s>] {
        &self.nodes
    }

    /// Returns the nodes of all reference targets, without duplicates.
    pub(crate) fn reference_targets(&self) -> impl Iterator<Item = &Node<'s>> {
        let edges = self.nodes.iter().flat_map(|node| &node.edges);
        let targets: BTreeSet<_> =
            edges.filter(|edge| edge.reference.is_some()).map(|edge| edge.node).collect();
        targets.into_iter().filter_map(|target| self.nodes.get(target))
    }

    /// Returns the node at index `node` of [`nodes`](Self::nodes), or `None` if the index is out of
    /// bounds.
    pub(crate) fn node_at(&self, node: usize) -> Option<&Node<'s>> {
        self.nodes.get(node)
    }

    /// Returns the index of the subschema `schema` in [`nodes`](Self::nodes), or `None` if `schema`
    /// is not in the graph.
    pub(crate) fn node_index(&self, schema: &Value) -> Option<usize> {
        self.index.get(&std::ptr::from_ref(schema)).copied()
    }

    /// Returns the index of the subschema `schema` in `nodes`. Adds a node if there is none yet.
    fn add_node(&mut self, schema: &'s Value, pointer: String) -> usize {
        let nodes = &mut self.nodes;
        *self.index.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            nodes.push(Node { schema, pointer, edges: Vec::new() });
            nodes.len() - 1
        })
    }

    /// Fails if the schema recurses infinitely, applies more than `limit` subschemas to one value,
    /// or is nested too deep for the stack.
    pub(super) fn check_limits(&self, limit: usize) -> Result<(), SchemaError> {
        let here: fn(&Edge<'_>) -> bool = |edge| edge.location == InstanceLocation::Current;
        let counts = self
            .fold_depth_first(here, u64::saturating_add, |_| 1)
            .map_err(|node| self.error_at(node, SchemaFault::InfiniteRecursion))?;
        if let Some((node, _)) = counts.iter().find(|(_, count)| *count > limit as u64) {
            return Err(self.error_at(*node, SchemaFault::TooExpansive(limit)));
        }
        if self.longest_chain() > MAX_CHAIN_LENGTH {
            return Err(self.error_at(0, SchemaFault::TooExpansive(MAX_CHAIN_LENGTH)));
        }
        // The compiler follows nested references on one stack, and each reference may lead to the
        // deepest part of the document. Therefore, each reference reduces the allowed nesting.
        let levels = MAX_NESTING / (1 + self.reference_count().min(MAX_COUNTED_REFERENCES));
        if self.max_nesting() > levels {
            return Err(self.error_at(0, SchemaFault::TooDeep(levels)));
        }
        Ok(())
    }

    fn reference_count(&self) -> usize {
        self.nodes.iter().flat_map(|node| &node.edges).filter(|edge| edge.reference.is_some()).count()
    }

    /// Returns the maximum nesting of subschemas in the document. References are not followed.
    fn max_nesting(&self) -> usize {
        let depths =
            self.fold_depth_first(|edge| edge.reference.is_none(), u64::max, |_| 1).unwrap_or_default();
        let deepest = depths.into_iter().map(|(_, depth)| depth).max();
        deepest.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(1)
    }

    /// Returns the length of the longest chain of subschemas that apply to the same value.
    pub(crate) fn longest_chain(&self) -> usize {
        let chains = self
            .fold_depth_first(|edge| edge.location == InstanceLocation::Current, u64::max, |_| 1)
            .unwrap_or_default();
        let longest = chains.into_iter().map(|(_, length)| length).max();
        longest.and_then(|length| usize::try_from(length).ok()).unwrap_or(1)
    }

    /// Returns the sum of the results of `own` for all nodes reachable from the root, including the
    /// root. `own` receives the index of a node. A node counts once per path from the root. Returns
    /// `None` if a cycle makes the sum infinite.
    pub(crate) fn sum_over_paths(&self, own: impl Fn(usize) -> u64) -> Option<u64> {
        let counts = self
            .fold_depth_first(|edge| edge.location != InstanceLocation::None, u64::saturating_add, own)
            .ok()?;
        counts.iter().find(|(node, _)| *node == 0).map(|(_, count)| *count)
    }

    /// Computes a count for each node: the result of `own` for the index of the node, plus the
    /// counts of its children, folded with `combined`. Only edges accepted by `follows` lead to
    /// children.
    ///
    /// Returns the index and the count of each node, children before parents. Fails with the index
    /// of a node on a cycle.
    fn fold_depth_first(
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
            counts.insert(start, Visit::InProgress);
            let mut path = vec![Frame::of(start)];
            while let Some(frame) = path.last_mut() {
                if let Some(child) = frame.next_child(self, follows) {
                    match counts.get(&child) {
                        Some(Visit::Done(count)) => frame.inner = combined(frame.inner, *count),
                        Some(Visit::InProgress) => return Err(child),
                        None => {
                            counts.insert(child, Visit::InProgress);
                            path.push(Frame::of(child));
                        }
                    }
                    continue;
                }
                let node = frame.node;
                let count = own(node).saturating_add(frame.inner);
                counts.insert(node, Visit::Done(count));
                done.push((node, count));
                path.pop();
                if let Some(parent) = path.last_mut() {
                    parent.inner = combined(parent.inner, count);
                }
            }
        }
        Ok(done)
    }

    fn error_at(&self, node: usize, fault: SchemaFault) -> SchemaError {
        SchemaError::new(self.nodes.get(node).map_or("", |node| &node.pointer), fault)
    }
}

/// Returns the reference keywords of `schema` and their values.
fn references(schema: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| Some((keyword, schema.get(keyword)?.as_str()?)))
}

/// Returns the target of the reference `text` in the document `root`, and the JSON pointer of the
/// target. Fails if there is no target, if the target is in another document, or if the document
/// has a nested `$id`.
fn resolve<'s>(root: &'s Value, survey: &Survey<'s>, text: &str) -> Result<(&'s Value, String), SchemaFault> {
    let reference = Reference::parse(text).ok_or_else(|| SchemaFault::RemoteReference(text.to_owned()))?;
    if let Some(id) = survey.nested_id {
        return Err(SchemaFault::NestedId(id.to_owned()));
    }
    let found = match reference {
        Reference::Pointer(pointer) => root.pointer(&pointer).map(|target| (target, pointer)),
        Reference::Anchor(name) => survey.anchored(&name),
    };
    found
        .filter(|(target, _)| target.is_object() || target.is_boolean())
        .ok_or_else(|| SchemaFault::UnresolvedReference(text.to_owned()))
}
