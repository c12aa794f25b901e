//! Derivation of schemas for the strict modes of OpenAI and Anthropic.

mod keywords;
mod object;
mod recursion;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::change::{SchemaChange, SchemaChangeKind};
use super::description_notes::{DescriptionNotes, build_annotations};
use super::flatten::{FlatSchema, Flattener, KeywordEntry, has_only_required};
use super::json_types::{Types, infer_types};
use super::strict_limits;

/// The maximum nesting of subschemas in a strict schema. It is higher than OpenAI's limit of 10
/// levels of objects, because `anyOf` nests without adding a level.
const MAX_NESTING: usize = 32;

/// The provider whose strict mode a schema is derived for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StrictMode {
    OpenAi,
    Anthropic,
}

/// Returns the schema for `mode` that is derived from `root`, and the list of changes. If `root` has
/// no strict form, fails with the change that prevents it.
pub(super) fn derive(root: &Value, mode: StrictMode) -> Result<(Value, Vec<SchemaChange>), SchemaChange> {
    let mut strict = StrictDeriver::new(root, mode);
    let mut output = strict.derive_root(root)?;
    let mut definitions = Map::new();
    while let Some((name, pointer, schema)) = strict.pending_definitions.pop_front() {
        definitions.insert(name, Value::Object(strict.derive_schema(&pointer, schema)?));
    }
    if !definitions.is_empty() {
        output.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let output = Value::Object(output);
    match mode {
        StrictMode::OpenAi => strict_limits::check_limits(&output)?,
        StrictMode::Anthropic => recursion::check_references(&output)?,
    }
    Ok((output, strict.changes))
}

/// The state of the derivation of a strict schema. The target of each remaining `$ref`, except the
/// root, becomes a definition in `$defs`.
struct StrictDeriver<'s> {
    mode: StrictMode,
    flattener: Flattener<'s>,
    changes: Vec<SchemaChange>,
    /// The names of the definitions, by the JSON pointers of their original subschemas.
    definition_names: HashMap<String, String>,
    /// All definition names in use. A new definition needs a different name.
    taken_names: HashSet<String>,
    /// The definitions that are referenced but not derived yet. Each item consists of the name, the
    /// JSON pointer and the original subschema.
    pending_definitions: VecDeque<(String, String, &'s Value)>,
    nesting: usize,
}

impl<'s> StrictDeriver<'s> {
    fn new(root: &'s Value, mode: StrictMode) -> Self {
        Self {
            mode,
            flattener: Flattener::exact(root),
            changes: Vec::new(),
            definition_names: HashMap::new(),
            taken_names: HashSet::new(),
            pending_definitions: VecDeque::new(),
            nesting: 0,
        }
    }

    /// Derives the root schema, which must be a single object.
    fn derive_root(&mut self, root: &'s Value) -> Result<Map<String, Value>, SchemaChange> {
        let mut flat = self.flattener.resolve("", root)?;
        let mut notes = DescriptionNotes::default();
        if let Some((union, _)) = self.take_union(&mut flat, &mut notes)? {
            return Err(SchemaChange::not_strict(&union.at, union.name, "the root must be one object"));
        }
        let Types { names, is_assumed } = infer_types(&flat)?;
        if names != ["object"] {
            return Err(SchemaChange::not_strict("", "type", "the root is not an object"));
        }
        self.report_assumed(&flat, is_assumed);
        self.derive_plain(&flat, &names, notes, true)
    }

    fn derive_schema(&mut self, at: &str, schema: &'s Value) -> Result<Map<String, Value>, SchemaChange> {
        let flat = self.flattener.flatten(at, schema)?;
        self.emit(flat)
    }

    fn emit(&mut self, flat: FlatSchema<'s>) -> Result<Map<String, Value>, SchemaChange> {
        if self.nesting == MAX_NESTING {
            return Err(SchemaChange::not_strict(&flat.pointer, "properties", "it is nested too deep"));
        }
        self.nesting += 1;
        let emitted = self.emit_nested(flat);
        self.nesting -= 1;
        emitted
    }

    fn emit_nested(&mut self, mut flat: FlatSchema<'s>) -> Result<Map<String, Value>, SchemaChange> {
        if let Some(reference) = flat.reference {
            return self.derive_reference(&flat, reference);
        }
        let mut notes = DescriptionNotes::default();
        if let Some((union, alternatives)) = self.take_union(&mut flat, &mut notes)? {
            return self.derive_alternatives(&flat, &union, alternatives);
        }
        let Types { names, is_assumed } = infer_types(&flat)?;
        self.report_assumed(&flat, is_assumed);
        if names.len() == 1 || names.iter().all(|name| !matches!(*name, "object" | "array")) {
            return self.derive_plain(&flat, &names, notes, false);
        }
        // An `anyOf` with one alternative per type, each with all assertions for its type, accepts
        // the same values.
        let mut output = build_annotations(&flat, notes, &mut self.changes);
        let bare = flat.assertions_only();
        let alternatives =
            names.iter().map(|name| self.derive_plain(&bare, &[*name], DescriptionNotes::default(), false));
        let alternatives: Vec<_> = alternatives.collect::<Result<_, _>>()?;
        output.insert("anyOf".to_owned(), json!(alternatives));
        Ok(output)
    }

    /// Derives the strict form of `flat`, a `$ref` that may have annotations. Strict mode allows no
    /// keywords beside a `$ref`, so a `$ref` with annotations becomes an `anyOf` with one
    /// alternative.
    fn derive_reference(
        &mut self,
        flat: &FlatSchema<'s>,
        reference: &str,
    ) -> Result<Map<String, Value>, SchemaChange> {
        let (pointer, target) = self.flattener.resolve_target(&flat.pointer, reference)?;
        let name = if pointer.is_empty() { None } else { Some(self.name_definition(pointer, target)) };
        let reference = name.map_or_else(|| "#".to_owned(), |name| format!("#/$defs/{name}"));
        let reference = Map::from_iter([("$ref".to_owned(), Value::from(reference))]);
        let mut output = build_annotations(flat, DescriptionNotes::default(), &mut self.changes);
        if output.is_empty() {
            return Ok(reference);
        }
        output.insert("anyOf".to_owned(), json!([reference]));
        Ok(output)
    }

    /// Returns the name of the definition for `target`, the reference target at the JSON pointer
    /// `pointer`. The name is the last token of `pointer`, made unique. The first call for a target
    /// schedules the derivation of its definition.
    fn name_definition(&mut self, pointer: String, target: &'s Value) -> String {
        if let Some(name) = self.definition_names.get(&pointer) {
            return name.clone();
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().map(|it| if is_plain(it) { it } else { '_' }).collect();
        let mut name = plain.clone();
        for number in 2.. {
            if self.taken_names.insert(name.clone()) {
                break;
            }
            name = format!("{plain}_{number}");
        }
        self.definition_names.insert(pointer.clone(), name.clone());
        self.pending_definitions.push_back((name.clone(), pointer, target));
        name
    }

    /// Removes `anyOf` or `oneOf` from `flat`, and returns the keyword and its alternatives.
    /// Returns `None` if `flat` has neither.
    ///
    /// An `anyOf` whose alternatives only contain `required` becomes one of the `notes`, because a
    /// strict schema requires all properties anyway. A `oneOf` of this kind is an error, and so is
    /// a `oneOf` beside `anyOf`.
    fn take_union(
        &mut self,
        flat: &mut FlatSchema<'s>,
        notes: &mut DescriptionNotes,
    ) -> Result<Option<(KeywordEntry<'s>, &'s [Value])>, SchemaChange> {
        let Some(union) = flat.take_keyword("anyOf").or_else(|| flat.take_keyword("oneOf")) else {
            return Ok(None);
        };
        if flat.keyword("oneOf").is_some() {
            return Err(SchemaChange::not_strict(&flat.pointer, "oneOf", "it stands beside `anyOf`"));
        }
        let alternatives = union.value.as_array().map(Vec::as_slice).unwrap_or_default();
        if !alternatives.iter().all(has_only_required) {
            return Ok(Some((union, alternatives)));
        }
        if union.name == "oneOf" {
            return Err(SchemaChange::not_strict(&union.at, "oneOf", "null counts as given there"));
        }
        self.add_note(&union, notes);
        Ok(None)
    }

    /// Derives an `anyOf` for the `alternatives` of `union`. Each alternative is merged with the
    /// assertions of `flat`, because they apply to all alternatives.
    fn derive_alternatives(
        &mut self,
        flat: &FlatSchema<'s>,
        union: &KeywordEntry<'s>,
        alternatives: &'s [Value],
    ) -> Result<Map<String, Value>, SchemaChange> {
        if union.name == "oneOf" {
            self.changes.push(SchemaChange::new(&union.at, "oneOf", SchemaChangeKind::AnyOf));
        }
        let mut output = build_annotations(flat, DescriptionNotes::default(), &mut self.changes);
        let common = flat.assertions_only();
        let mut any_of = Vec::new();
        for (index, alternative) in alternatives.iter().enumerate() {
            let at = format!("{}/{}/{index}", union.at, union.name);
            any_of.push(if common.has_no_assertions() {
                self.derive_schema(&at, alternative)?
            } else {
                let mut merged = self.flattener.resolve(&at, alternative)?;
                self.flattener.merge(&mut merged, common.clone(), union.name)?;
                self.emit(merged)?
            });
        }
        output.insert("anyOf".to_owned(), json!(any_of));
        Ok(output)
    }

    /// Adds a note about the keyword `entry` to `notes`, and reports the change.
    fn add_note(&mut self, entry: &KeywordEntry<'s>, notes: &mut DescriptionNotes) {
        self.changes.push(notes.add(&entry.at, entry.name, entry.value));
    }

    /// Reports a change if the type of `flat` was derived from other keywords (`is_assumed`).
    fn report_assumed(&mut self, flat: &FlatSchema<'s>, is_assumed: bool) {
        if is_assumed {
            self.changes.push(SchemaChange::new(&flat.pointer, "type", SchemaChangeKind::TypeAssumed));
        }
    }
}
