//! Derivation of the root schema that OpenAI accepts without `strict: true`: an object without
//! alternatives.

use serde_json::{Map, Value, json};

use super::super::preflight;
use super::super::reference::{Reference, join_pointer};
use super::ProviderSchema;
use super::change::{SchemaChange, SchemaChangeKind};
use super::description_notes::DescriptionNotes;
use super::flatten::is_assertion;

/// Keywords that are removed from the root. OpenAI rejects all of them except `$ref`, whose target
/// may contain rejected keywords.
const REJECTED_KEYWORDS: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"];

/// Returns the schema that is derived from `root` for OpenAI, and appends its changes to `changes`.
/// A boolean `root` and a `root` without any of the [`REJECTED_KEYWORDS`] are returned unchanged.
pub(super) fn derive(root: &Value, changes: Vec<SchemaChange>) -> ProviderSchema {
    let as_given = |changes| ProviderSchema { value: root.clone(), is_strict: false, changes };
    let Value::Object(members) = root else { return as_given(changes) };
    if !REJECTED_KEYWORDS.iter().any(|keyword| members.contains_key(*keyword)) {
        return as_given(changes);
    }
    let mut union = RootMerger {
        root,
        changes,
        properties: Vec::new(),
        required: Vec::new(),
        notes: DescriptionNotes::default(),
    };
    union.add("", members, true);
    let mut value = union.build_object(members);
    union.drop_additional_properties(members, &mut value);
    std::mem::take(&mut union.notes).append_to(&mut value);
    let value = Value::Object(value);
    // The graph cannot be built if a remaining reference points into a removed keyword.
    if preflight::build_graph(&value).is_some() {
        return ProviderSchema { value, is_strict: false, changes: union.changes };
    }
    union.changes.push(SchemaChange::new("", "properties", SchemaChangeKind::Dropped));
    ProviderSchema {
        value: json!({"type": "object", "properties": {}}),
        is_strict: false,
        changes: union.changes,
    }
}

/// The object under construction, with the properties of all alternatives of the root.
struct RootMerger<'s> {
    root: &'s Value,
    changes: Vec<SchemaChange>,
    /// The properties: each name, with all distinct schemas that the alternatives declare for this
    /// name.
    properties: Vec<(&'s str, Vec<&'s Value>)>,
    required: Vec<&'s str>,
    notes: DescriptionNotes,
}

impl<'s> RootMerger<'s> {
    /// Adds the keywords of `schema`, a part of the root at the JSON pointer `at`. `is_certain` is
    /// `false` in alternatives: their `required` is ignored, because it does not apply to the whole
    /// object.
    fn add(&mut self, at: &str, schema: &'s Map<String, Value>, is_certain: bool) {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, schema) in properties {
                        self.add_property(&join_pointer(at, "properties"), name, schema);
                    }
                }
                ("required", Value::Array(names)) if is_certain => {
                    for name in names.iter().filter_map(Value::as_str) {
                        if !self.required.contains(&name) {
                            self.required.push(name);
                        }
                    }
                }
                ("$ref", Value::String(reference)) => self.add_target(reference, is_certain),
                ("allOf", Value::Array(parts)) => self.add_all(&join_pointer(at, keyword), parts, is_certain),
                ("anyOf" | "oneOf", Value::Array(alternatives)) => {
                    self.changes.push(SchemaChange::new(at, keyword, SchemaChangeKind::Flattened));
                    if at.is_empty() {
                        self.notes.add(at, keyword, value);
                    }
                    self.add_all(&join_pointer(at, keyword), alternatives, false);
                }
                // The type of the derived root is always `object`. Other keywords of the root are
                // copied later.
                ("type", types) if !is_object(types) => {
                    self.changes.push(SchemaChange::new(at, keyword, SchemaChangeKind::Dropped));
                }
                ("type" | "required", _) => {}
                (name, _) if at.is_empty() && REJECTED_KEYWORDS.contains(&name) => {
                    self.changes.push(self.notes.add(at, name, value));
                }
                (name, _) if !at.is_empty() && is_assertion(name) => {
                    self.changes.push(SchemaChange::new(at, name, SchemaChangeKind::Dropped));
                }
                _ => {}
            }
        }
    }

    fn add_all(&mut self, at: &str, schemas: &'s [Value], is_certain: bool) {
        for (index, schema) in schemas.iter().enumerate() {
            self.add_part(&format!("{at}/{index}"), schema, is_certain);
        }
    }

    /// Adds the keywords of the target of `reference`. The preflight has already rejected infinite
    /// recursion and references without a target.
    fn add_target(&mut self, reference: &str, is_certain: bool) {
        let Some(Reference::Pointer(pointer)) = Reference::parse(reference) else {
            self.changes.push(SchemaChange::new("", "$ref", SchemaChangeKind::Dropped));
            return;
        };
        if let Some(target) = self.root.pointer(&pointer) {
            self.add_part(&pointer, target, is_certain);
        }
    }

    fn add_part(&mut self, at: &str, schema: &'s Value, is_certain: bool) {
        match schema {
            Value::Object(schema) => self.add(at, schema, is_certain),
            Value::Bool(false) => self.changes.push(SchemaChange::new(at, "type", SchemaChangeKind::Dropped)),
            _ => {}
        }
    }

    fn add_property(&mut self, at: &str, name: &'s str, schema: &'s Value) {
        match self.properties.iter_mut().find(|(known, _)| *known == name) {
            None => self.properties.push((name, vec![schema])),
            Some((_, schemas)) if schemas.contains(&schema) => {}
            Some((_, schemas)) => {
                schemas.push(schema);
                self.changes.push(SchemaChange::new(
                    &join_pointer(at, name),
                    "type",
                    SchemaChangeKind::AnyOf,
                ));
            }
        }
    }

    /// Removes `additionalProperties` from `output` if alternatives add properties that `root` does
    /// not declare. Beside these properties, the keyword would apply to fewer names than in `root`.
    fn drop_additional_properties(&mut self, root: &Map<String, Value>, output: &mut Map<String, Value>) {
        let own = root.get("properties").and_then(Value::as_object);
        let is_own = |name: &str| own.is_some_and(|own| own.contains_key(name));
        let is_exact = root.get("additionalProperties").is_none_or(|it| it == &Value::Bool(true));
        if !is_exact && !self.properties.iter().all(|(name, _)| is_own(name)) {
            output.shift_remove("additionalProperties");
            self.changes.push(SchemaChange::new("", "additionalProperties", SchemaChangeKind::Dropped));
        }
    }

    /// Returns a copy of `root` with the properties of all alternatives, and without
    /// [`REJECTED_KEYWORDS`].
    fn build_object(&self, root: &Map<String, Value>) -> Map<String, Value> {
        let property = |(name, schemas): &(&str, Vec<&Value>)| {
            let schema =
                if let [only] = schemas.as_slice() { json!(only) } else { json!({"anyOf": schemas}) };
            ((*name).to_owned(), schema)
        };
        let mut object = Map::from_iter([("type".to_owned(), json!("object"))]);
        let is_kept = |name: &str| !REJECTED_KEYWORDS.contains(&name) && name != "required" && name != "type";
        object.extend(
            root.iter().filter(|(name, _)| is_kept(name)).map(|(name, it)| (name.clone(), it.clone())),
        );
        object.insert("properties".to_owned(), self.properties.iter().map(property).collect());
        if !self.required.is_empty() {
            object.insert("required".to_owned(), json!(self.required));
        }
        object
    }
}

/// Returns `true` if `types`, the value of a `type` keyword, allows objects.
fn is_object(types: &Value) -> bool {
    types == "object" || types.as_array().is_some_and(|types| types.iter().any(|it| it == "object"))
}
