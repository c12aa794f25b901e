//! Derivation of schemas without `$ref` and `allOf`, which are merged into the enclosing schema.

use std::{collections::HashSet, rc::Rc};

use serde_json::{Map, Value, json};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flatten::{FlatSchema, Flattener, is_assertion};
use super::json_types::infer_types;

/// The maximum nesting of subschemas in a derived schema. Models rarely write values with more
/// levels, so deeper subschemas are reduced to their type.
const MAX_NESTING: usize = 16;

/// The maximum size of a derived schema. Each subschema counts as 1, and every 32 bytes of its text
/// count as 1. Within the default limits, a schema usually reaches this size only by inlining the
/// same reference targets many times.
const MAX_SIZE: usize = 16_000;

/// A function that derives one subschema for a provider. It calls [`Inliner::derive_schema`] or
/// [`Inliner::emit`] for nested subschemas.
pub(super) type DeriveFn = for<'s> fn(&mut Inliner<'s>, FlatSchema<'s>) -> Map<String, Value>;

/// The state of a derivation that inlines all references. Unsupported keywords are dropped and
/// reported in `changes`.
pub(super) struct Inliner<'s> {
    pub(super) changes: Vec<SchemaChange>,
    flattener: Flattener<'s>,
    derive: DeriveFn,
    /// The JSON pointers of the reference targets that enclose the current subschema. A reference
    /// to one of these targets is recursive.
    enclosing_targets: Vec<Rc<str>>,
    nesting: usize,
    /// The part of [`MAX_SIZE`] that is still available.
    remaining_size: usize,
}

impl<'s> Inliner<'s> {
    pub(super) fn new(root: &'s Value, derive: DeriveFn) -> Self {
        let enclosing_targets = vec![Rc::from("")];
        Self {
            changes: Vec::new(),
            flattener: Flattener::lossy(root),
            derive,
            enclosing_targets,
            nesting: 0,
            remaining_size: MAX_SIZE,
        }
    }

    /// Derives a schema from `schema`, the subschema at the JSON pointer `at`.
    pub(super) fn derive_schema(&mut self, at: &str, schema: &'s Value) -> Map<String, Value> {
        let flat = self.resolve(at, schema);
        self.emit(flat)
    }

    /// Derives a schema from `flat`, a subschema that is already merged with its `allOf` and with
    /// the target of its `$ref`.
    pub(super) fn emit(&mut self, mut flat: FlatSchema<'s>) -> Map<String, Value> {
        let targets = std::mem::take(&mut flat.targets);
        if targets.iter().any(|target| self.enclosing_targets.contains(target)) {
            self.report(&flat.pointer, "$ref", SchemaChangeKind::Unexpanded);
            return any_value_of_type(&flat);
        }
        if self.nesting == MAX_NESTING || !self.spend(size_of(&flat)) {
            self.report_unexpanded(&flat);
            return any_value_of_type(&flat);
        }
        let outside = self.enclosing_targets.len();
        self.enclosing_targets.extend(targets);
        self.nesting += 1;
        let output = (self.derive)(self, flat);
        self.nesting -= 1;
        self.enclosing_targets.truncate(outside);
        output
    }

    /// Returns `schema`, the subschema at the JSON pointer `at`, merged with its `allOf` and with
    /// the target of its `$ref`.
    pub(super) fn resolve(&mut self, at: &str, schema: &'s Value) -> FlatSchema<'s> {
        let flat = self.flattener.resolve(at, schema);
        self.changes.extend(self.flattener.take_changes());
        flat.unwrap_or_else(|obstacle| {
            self.changes.push(obstacle);
            FlatSchema::default()
        })
    }

    /// Merges `other` into `flat`. Both apply to the same value, because `keyword` combines them. A
    /// merge that is too large is skipped, and reported as a change of `keyword`.
    pub(super) fn merge(&mut self, flat: &mut FlatSchema<'s>, other: FlatSchema<'s>, keyword: &str) {
        let size = |it: &FlatSchema<'_>| it.properties.len() + it.keywords.len() + 1;
        if !self.spend(size(flat) * size(&other) / 64) {
            self.report(&other.pointer.clone(), keyword, SchemaChangeKind::Unexpanded);
            return;
        }
        let merged = self.flattener.merge(flat, other, keyword);
        self.changes.extend(self.flattener.take_changes());
        self.changes.extend(merged.err());
    }

    /// Returns the reported changes without duplicates, because a subschema that is inlined twice
    /// reports its changes twice.
    pub(super) fn into_changes(self) -> Vec<SchemaChange> {
        let mut known = HashSet::new();
        self.changes.into_iter().filter(|change| known.insert(change.clone())).collect()
    }

    /// Subtracts `cost` from the remaining size. Returns `false` if less than `cost` remains.
    fn spend(&mut self, cost: usize) -> bool {
        let left = self.remaining_size.checked_sub(cost);
        self.remaining_size = left.unwrap_or(0);
        left.is_some()
    }

    /// Reports the assertions of `flat` that are lost when `flat` is reduced to its type.
    fn report_unexpanded(&mut self, flat: &FlatSchema<'s>) {
        let rules = flat.keywords.iter().filter(|it| is_assertion(it.name) && it.name != "type");
        self.changes.extend(rules.map(|it| SchemaChange::new(&it.at, it.name, SchemaChangeKind::Unexpanded)));
        for (keyword, is_lost) in
            [("properties", !flat.properties.is_empty()), ("required", !flat.required.is_empty())]
        {
            if is_lost {
                self.report(&flat.pointer, keyword, SchemaChangeKind::Unexpanded);
            }
        }
    }

    pub(super) fn report(&mut self, at: &str, keyword: &str, kind: SchemaChangeKind) {
        self.changes.push(SchemaChange::new(at, keyword, kind));
    }
}

/// Returns a schema for strings, numbers, booleans and objects. Gemini requires a type, so this
/// schema stands for any value.
pub(super) fn any_value() -> Value {
    let each = ["string", "number", "boolean", "object"].map(|name| json!({"type": name}));
    json!({"anyOf": each})
}

/// Returns a schema for any value of the same type as `flat`. It replaces a subschema that is not
/// expanded.
fn any_value_of_type(flat: &FlatSchema<'_>) -> Map<String, Value> {
    let described = flat.keyword("description").map(|it| (it.name.to_owned(), it.value.clone()));
    let mut output: Map<_, _> = described.into_iter().collect();
    let any = match infer_types(flat).map(|types| types.names).as_deref() {
        Ok([name]) => any_of_type(name),
        Ok(names) => json!({"anyOf": names.iter().map(|name| any_of_type(name)).collect::<Vec<_>>()}),
        Err(_) if flat.properties.is_empty() => any_value(),
        Err(_) => any_of_type("object"),
    };
    if let Value::Object(any) = any {
        output.extend(any);
    }
    output
}

fn any_of_type(name: &str) -> Value {
    if name == "array" { json!({"type": name, "items": any_value()}) } else { json!({"type": name}) }
}

/// Returns the size of `flat` without nested subschemas, in the unit of [`MAX_SIZE`].
fn size_of(flat: &FlatSchema<'_>) -> usize {
    let is_text = |name: &str| {
        matches!(name, "enum" | "const" | "default" | "examples" | "description" | "title" | "pattern")
    };
    let texts = flat.keywords.iter().filter(|it| is_text(it.name)).map(|it| json_bytes(it.value));
    1 + texts.sum::<usize>() / 32
}

/// Returns the approximate length of `value` as JSON, in bytes.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(json_bytes).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, it)| name.len() + 3 + json_bytes(it)).sum::<usize>() + 2
        }
        _ => 4,
    }
}
