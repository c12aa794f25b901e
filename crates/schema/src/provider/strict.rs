//! OpenAI's strict subset.

mod keywords;
mod object;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::change::{SchemaChange, SchemaChangeKind};
use super::flat::{Entry, Flat, Reader, is_requirement};
use super::kinds::{Types, types};
use super::limits;
use super::told::{Told, head};

/// How many subschemas may be inside each other on the way to one. Far more than the subset allows.
const NESTING: usize = 32;

/// What is sent of a schema, and what is lost; or why it cannot be strict.
pub(super) fn derive(root: &Value) -> Result<(Value, Vec<SchemaChange>), SchemaChange> {
    let mut strict = Strict::new(root);
    let mut sent = strict.root(root)?;
    let mut definitions = Map::new();
    while let Some((name, pointer, schema)) = strict.open.pop_front() {
        definitions.insert(name, Value::Object(strict.schema(&pointer, schema)?));
    }
    if !definitions.is_empty() {
        sent.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let sent = Value::Object(sent);
    limits::check(&sent)?;
    Ok((sent, strict.changes))
}

/// Derives one strict schema. Whatever can be referred to becomes a definition of it.
struct Strict<'s> {
    reader: Reader<'s>,
    changes: Vec<SchemaChange>,
    /// The names of the definitions, by the pointers of what they are made of.
    names: HashMap<String, String>,
    taken: HashSet<String>,
    /// Definitions that are referred to and not made yet.
    open: VecDeque<(String, String, &'s Value)>,
    nesting: usize,
}

impl<'s> Strict<'s> {
    fn new(root: &'s Value) -> Self {
        Self {
            reader: Reader::exact(root),
            changes: Vec::new(),
            names: HashMap::new(),
            taken: HashSet::new(),
            open: VecDeque::new(),
            nesting: 0,
        }
    }

    fn root(&mut self, root: &'s Value) -> Result<Map<String, Value>, SchemaChange> {
        let mut flat = self.reader.followed("", root)?;
        let mut told = Told::default();
        if let Some((union, _)) = self.union(&mut flat, &mut told)? {
            return Err(SchemaChange::not_strict(&union.at, union.name, "the root must be one object"));
        }
        let Types { names, is_assumed } = types(&flat)?;
        if names != ["object"] {
            return Err(SchemaChange::not_strict("", "type", "its root is no object"));
        }
        self.note_assumed(&flat, is_assumed);
        self.plain(&flat, &names, told, true)
    }

    fn schema(&mut self, at: &str, schema: &'s Value) -> Result<Map<String, Value>, SchemaChange> {
        let flat = self.reader.flat(at, schema)?;
        self.emit(flat)
    }

    fn emit(&mut self, flat: Flat<'s>) -> Result<Map<String, Value>, SchemaChange> {
        if self.nesting == NESTING {
            return Err(SchemaChange::not_strict(&flat.at, "properties", "it is nested too deep"));
        }
        self.nesting += 1;
        let emitted = self.emit_nested(flat);
        self.nesting -= 1;
        emitted
    }

    fn emit_nested(&mut self, mut flat: Flat<'s>) -> Result<Map<String, Value>, SchemaChange> {
        if let Some(reference) = flat.reference {
            return self.reference(&flat, reference);
        }
        let mut told = Told::default();
        if let Some((union, alternatives)) = self.union(&mut flat, &mut told)? {
            return self.alternatives(&flat, &union, alternatives);
        }
        let Types { names, is_assumed } = types(&flat)?;
        self.note_assumed(&flat, is_assumed);
        if names.len() == 1 || names.iter().all(|name| !matches!(*name, "object" | "array")) {
            return self.plain(&flat, &names, told, false);
        }
        // Each keyword is about values of one type, so that the types can be told apart without a loss.
        let mut sent = head(&flat, told, &mut self.changes);
        let bare = flat.bare();
        let alternatives = names.iter().map(|name| self.plain(&bare, &[*name], Told::default(), false));
        let alternatives: Vec<_> = alternatives.collect::<Result<_, _>>()?;
        sent.insert("anyOf".to_owned(), json!(alternatives));
        Ok(sent)
    }

    /// A reference stands alone; what describes it goes around it.
    fn reference(&mut self, flat: &Flat<'s>, reference: &str) -> Result<Map<String, Value>, SchemaChange> {
        let (pointer, target) = self.reader.target(&flat.at, reference)?;
        let name = if pointer.is_empty() { None } else { Some(self.definition(pointer, target)) };
        let reference = name.map_or_else(|| "#".to_owned(), |name| format!("#/$defs/{name}"));
        let reference = Map::from_iter([("$ref".to_owned(), Value::from(reference))]);
        let mut sent = head(flat, Told::default(), &mut self.changes);
        if sent.is_empty() {
            return Ok(reference);
        }
        sent.insert("anyOf".to_owned(), json!([reference]));
        Ok(sent)
    }

    /// The name of a definition, which is the last one of its pointer where it can be.
    fn definition(&mut self, pointer: String, target: &'s Value) -> String {
        if let Some(name) = self.names.get(&pointer) {
            return name.clone();
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().map(|it| if is_plain(it) { it } else { '_' }).collect();
        let mut name = plain.clone();
        for number in 2.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            name = format!("{plain}_{number}");
        }
        self.names.insert(pointer.clone(), name.clone());
        self.open.push_back((name.clone(), pointer, target));
        name
    }

    /// Takes out `anyOf` or `oneOf` with its alternatives. Where these only require properties, they cannot be told
    /// apart strictly, as every property is there: then `anyOf` becomes a rule that is told.
    fn union(
        &mut self,
        flat: &mut Flat<'s>,
        told: &mut Told,
    ) -> Result<Option<(Entry<'s>, &'s [Value])>, SchemaChange> {
        let Some(union) = flat.take("anyOf").or_else(|| flat.take("oneOf")) else { return Ok(None) };
        if flat.keyword("oneOf").is_some() {
            return Err(SchemaChange::not_strict(&flat.at, "oneOf", "it stands beside `anyOf`"));
        }
        let alternatives = union.value.as_array().map(Vec::as_slice).unwrap_or_default();
        if !alternatives.iter().all(is_requirement) {
            return Ok(Some((union, alternatives)));
        }
        if union.name == "oneOf" {
            return Err(SchemaChange::not_strict(&union.at, "oneOf", "null counts as given there"));
        }
        self.tell(&union, told);
        Ok(None)
    }

    /// Alternatives, each with what is said of all of them.
    fn alternatives(
        &mut self,
        flat: &Flat<'s>,
        union: &Entry<'s>,
        alternatives: &'s [Value],
    ) -> Result<Map<String, Value>, SchemaChange> {
        if union.name == "oneOf" {
            self.changes.push(SchemaChange::new(&union.at, "oneOf", SchemaChangeKind::AnyOf));
        }
        let mut sent = head(flat, Told::default(), &mut self.changes);
        let common = flat.bare();
        let mut any_of = Vec::new();
        for (index, alternative) in alternatives.iter().enumerate() {
            let at = format!("{}/{}/{index}", union.at, union.name);
            any_of.push(if common.is_silent() {
                self.schema(&at, alternative)?
            } else {
                let mut merged = self.reader.followed(&at, alternative)?;
                self.reader.merge(&mut merged, common.clone(), union.name)?;
                self.emit(merged)?
            });
        }
        sent.insert("anyOf".to_owned(), json!(any_of));
        Ok(sent)
    }

    fn tell(&mut self, entry: &Entry<'s>, told: &mut Told) {
        self.changes.push(told.tell(&entry.at, entry.name, entry.value));
    }

    fn note_assumed(&mut self, flat: &Flat<'s>, is_assumed: bool) {
        if is_assumed {
            self.changes.push(SchemaChange::new(&flat.at, "type", SchemaChangeKind::TypeAssumed));
        }
    }
}
