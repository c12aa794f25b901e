//! A schema with everything in its place: what it refers to is written out, what its `allOf` says is put together.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::flat::{Flat, Reader};
use super::kinds::types;
use super::loss::{Loss, LossKind};

/// How many subschemas are inside each other at most. What is deeper no model writes.
const NESTING: usize = 16;

/// How one subschema is sent. What is in it goes through [`Inline::schema`] or [`Inline::emit`] again.
pub(super) type Form = for<'s> fn(&mut Inline<'s>, Flat<'s>) -> Map<String, Value>;

/// Derives a schema without references. It cannot fail: what a profile does not know is lost, and reported.
pub(super) struct Inline<'s> {
    pub(super) losses: Vec<Loss>,
    reader: Reader<'s>,
    form: Form,
    /// What is being written out, by JSON pointer: what refers to it there has no end.
    open: Vec<Rc<str>>,
    nesting: usize,
}

impl<'s> Inline<'s> {
    pub(super) fn new(root: &'s Value, form: Form) -> Self {
        let open = vec![Rc::from("")];
        Self { losses: Vec::new(), reader: Reader::lossy(root), form, open, nesting: 0 }
    }

    /// What is sent of a subschema.
    pub(super) fn schema(&mut self, at: &str, schema: &'s Value) -> Map<String, Value> {
        let flat = self.read(at, schema);
        self.emit(flat)
    }

    /// What is sent of a subschema that was read.
    pub(super) fn emit(&mut self, mut flat: Flat<'s>) -> Map<String, Value> {
        let targets = std::mem::take(&mut flat.targets);
        if self.nesting == NESTING || targets.iter().any(|target| self.open.contains(target)) {
            let keyword = if targets.is_empty() { "type" } else { "$ref" };
            self.losses.push(Loss::new(&flat.at, keyword, LossKind::Cut));
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
        self.losses.extend(self.reader.losses());
        flat.unwrap_or_else(|obstacle| {
            self.losses.push(obstacle);
            Flat::default()
        })
    }

    /// Adds what another subschema says of the same value.
    pub(super) fn merge(&mut self, flat: &mut Flat<'s>, other: Flat<'s>, keyword: &str) {
        let merged = self.reader.merge(flat, other, keyword);
        self.losses.extend(self.reader.losses());
        self.losses.extend(merged.err());
    }

    pub(super) fn lose(&mut self, at: &str, keyword: &str, kind: LossKind) {
        self.losses.push(Loss::new(at, keyword, kind));
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
    match types(flat).map(|types| types.names).as_deref() {
        Ok(["array"]) => {
            sent.insert("type".to_owned(), json!("array"));
            sent.insert("items".to_owned(), any_value());
        }
        Ok([name]) => drop(sent.insert("type".to_owned(), json!(name))),
        _ => drop(sent.insert("type".to_owned(), json!("object"))),
    }
    sent
}
