//! A schema with everything in its place: what it refers to is written out, what its `allOf` says is put together.

use std::{collections::HashSet, rc::Rc};

use serde_json::{Map, Value, json};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flat::{Flat, Reader, is_assertion};
use super::kinds::types;

/// How many subschemas are inside each other at most. What is deeper no model writes.
const NESTING: usize = 16;

/// How much is written out in all: one for each subschema, and for each 32 bytes of its texts. What is not written out twice is far
/// less, whatever the schema.
const SIZE: usize = 16_000;

/// How one subschema is sent. What is in it goes through [`Inline::schema`] or [`Inline::emit`] again.
pub(super) type Form = for<'s> fn(&mut Inline<'s>, Flat<'s>) -> Map<String, Value>;

/// Derives a schema without references. It cannot fail: what a profile does not know is lost, and reported.
pub(super) struct Inline<'s> {
    pub(super) changes: Vec<SchemaChange>,
    reader: Reader<'s>,
    form: Form,
    /// What is being written out, by JSON pointer: what refers to it there has no end.
    open: Vec<Rc<str>>,
    nesting: usize,
    /// What is left of [`SIZE`].
    left: usize,
}

impl<'s> Inline<'s> {
    pub(super) fn new(root: &'s Value, form: Form) -> Self {
        let open = vec![Rc::from("")];
        Self { changes: Vec::new(), reader: Reader::lossy(root), form, open, nesting: 0, left: SIZE }
    }

    /// What is sent of a subschema.
    pub(super) fn schema(&mut self, at: &str, schema: &'s Value) -> Map<String, Value> {
        let flat = self.read(at, schema);
        self.emit(flat)
    }

    /// What is sent of a subschema that was read.
    pub(super) fn emit(&mut self, mut flat: Flat<'s>) -> Map<String, Value> {
        let targets = std::mem::take(&mut flat.targets);
        if targets.iter().any(|target| self.open.contains(target)) {
            self.lose(&flat.at, "$ref", SchemaChangeKind::Unexpanded);
            return end(&flat);
        }
        if self.nesting == NESTING || !self.spend(weight(&flat)) {
            self.cut(&flat);
            return end(&flat);
        }
        let outside = self.open.len();
        self.open.extend(targets);
        self.nesting += 1;
        let sent = (self.form)(self, flat);
        self.nesting -= 1;
        self.open.truncate(outside);
        sent
    }

    pub(super) fn read(&mut self, at: &str, schema: &'s Value) -> Flat<'s> {
        let flat = self.reader.followed(at, schema);
        self.changes.extend(self.reader.changes());
        flat.unwrap_or_else(|obstacle| {
            self.changes.push(obstacle);
            Flat::default()
        })
    }

    /// Adds what another subschema says of the same value.
    pub(super) fn merge(&mut self, flat: &mut Flat<'s>, other: Flat<'s>, keyword: &str) {
        let size = |it: &Flat<'_>| it.properties.len() + it.keywords.len() + 1;
        if !self.spend(size(flat) * size(&other) / 64) {
            self.lose(&other.at.clone(), keyword, SchemaChangeKind::Unexpanded);
            return;
        }
        let merged = self.reader.merge(flat, other, keyword);
        self.changes.extend(self.reader.changes());
        self.changes.extend(merged.err());
    }

    /// What was lost, each once: what is written out twice is lost in one place.
    pub(super) fn into_changes(self) -> Vec<SchemaChange> {
        let mut known = HashSet::new();
        self.changes.into_iter().filter(|change| known.insert(change.clone())).collect()
    }

    fn spend(&mut self, cost: usize) -> bool {
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Notes all that is lost of a subschema where only its type is sent.
    fn cut(&mut self, flat: &Flat<'s>) {
        let rules = flat.keywords.iter().filter(|it| is_assertion(it.name) && it.name != "type");
        self.changes.extend(rules.map(|it| SchemaChange::new(&it.at, it.name, SchemaChangeKind::Unexpanded)));
        for (keyword, is_lost) in
            [("properties", !flat.properties.is_empty()), ("required", !flat.required.is_empty())]
        {
            if is_lost {
                self.lose(&flat.at, keyword, SchemaChangeKind::Unexpanded);
            }
        }
    }

    pub(super) fn lose(&mut self, at: &str, keyword: &str, kind: SchemaChangeKind) {
        self.changes.push(SchemaChange::new(at, keyword, kind));
    }
}

/// What stands for any value, where each needs a type.
pub(super) fn any_value() -> Value {
    let each = ["string", "number", "boolean", "object"].map(|name| json!({"type": name}));
    json!({"anyOf": each})
}

/// What stands for a subschema that is not written out.
fn end(flat: &Flat<'_>) -> Map<String, Value> {
    let described = flat.keyword("description").map(|it| (it.name.to_owned(), it.value.clone()));
    let mut sent: Map<_, _> = described.into_iter().collect();
    let any = match types(flat).map(|types| types.names).as_deref() {
        Ok([name]) => any_of_type(name),
        Ok(names) => json!({"anyOf": names.iter().map(|name| any_of_type(name)).collect::<Vec<_>>()}),
        Err(_) if flat.properties.is_empty() => any_value(),
        Err(_) => any_of_type("object"),
    };
    if let Value::Object(any) = any {
        sent.extend(any);
    }
    sent
}

fn any_of_type(name: &str) -> Value {
    if name == "array" { json!({"type": name, "items": any_value()}) } else { json!({"type": name}) }
}

/// How much a subschema adds to what is written out, without what is inside it.
fn weight(flat: &Flat<'_>) -> usize {
    let is_text = |name: &str| {
        matches!(name, "enum" | "const" | "default" | "examples" | "description" | "title" | "pattern")
    };
    let texts = flat.keywords.iter().filter(|it| is_text(it.name)).map(|it| bytes(it.value));
    1 + texts.sum::<usize>() / 32
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(bytes).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, it)| name.len() + 3 + bytes(it)).sum::<usize>() + 2
        }
        _ => 4,
    }
}
