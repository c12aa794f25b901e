//! Derivation of strict schemas from schemas without alternatives.

use serde_json::{Map, Value, json};

use super::super::super::reference::join_pointer;
use super::super::change::{SchemaChange, SchemaChangeKind};
use super::super::description_notes::{DescriptionNotes, build_annotations};
use super::super::flatten::{FlatSchema, is_assertion};
use super::super::json_types::{allowed_values, has_type};
use super::keywords::{KeywordAction, keyword_action};
use super::{StrictDeriver, StrictMode};

impl<'s> StrictDeriver<'s> {
    /// Derives the strict form of `flat`, a schema without alternatives. `types` contains a single
    /// type, or several scalar types.
    pub(super) fn derive_plain(
        &mut self,
        flat: &FlatSchema<'s>,
        types: &[&str],
        mut notes: DescriptionNotes,
        is_root: bool,
    ) -> Result<Map<String, Value>, SchemaChange> {
        let has_optional = flat.properties.iter().any(|it| !flat.required.contains(&it.name));
        let mut rules = Map::new();
        for entry in flat.keywords.iter().filter(|it| is_assertion(it.name)) {
            match keyword_action(self.mode, entry, types, has_optional) {
                KeywordAction::Keep => drop(rules.insert(entry.name.to_owned(), entry.value.clone())),
                KeywordAction::Skip => {}
                KeywordAction::Describe => self.add_note(entry, &mut notes),
                KeywordAction::Reject => {
                    return Err(SchemaChange::not_strict(&entry.at, entry.name, "it has no strict form"));
                }
            }
        }
        let mut output = build_annotations(flat, notes, &mut self.changes);
        output.insert("type".to_owned(), if let [name] = types { json!(name) } else { json!(types) });
        add_enum(flat, types, &mut output)?;
        output.append(&mut rules);
        if types.contains(&"array") {
            self.fill_array(flat, &mut output)?;
        }
        if types.contains(&"object") {
            self.fill_object(flat, is_root, &mut output)?;
        }
        Ok(output)
    }

    /// Adds the `items` of the array schema `flat` to `output`. Fails for tuples and for arrays
    /// without `items`.
    fn fill_array(
        &mut self,
        flat: &FlatSchema<'s>,
        output: &mut Map<String, Value>,
    ) -> Result<(), SchemaChange> {
        let Some(items) = flat.keyword("items").filter(|it| !it.value.is_array()) else {
            return Err(SchemaChange::not_strict(&flat.pointer, "items", "its items are not of one kind"));
        };
        let items = self.derive_schema(&join_pointer(&items.at, "items"), items.value)?;
        output.insert("items".to_owned(), Value::Object(items));
        Ok(())
    }

    /// Adds the properties of `flat` to `output`. In OpenAI's strict mode, all properties are required,
    /// and optional properties become nullable. Closes the object with `additionalProperties: false`.
    fn fill_object(
        &mut self,
        flat: &FlatSchema<'s>,
        is_root: bool,
        output: &mut Map<String, Value>,
    ) -> Result<(), SchemaChange> {
        reject_undeclared(flat, is_root)?;
        let mut properties = Map::new();
        for property in &flat.properties {
            let is_required = flat.required.contains(&property.name);
            if property.value == &Value::Bool(false) && !is_required {
                continue;
            }
            let mut schema = self.derive_schema(&property.at, property.value)?;
            let is_null_for_absent = !is_required && self.mode == StrictMode::OpenAi;
            if is_null_for_absent && accepts_null(&schema) {
                self.changes.push(SchemaChange::new(&property.at, "type", SchemaChangeKind::NullForAbsent));
            } else if is_null_for_absent {
                schema = make_nullable(schema);
            }
            properties.insert(property.name.to_owned(), Value::Object(schema));
        }
        let is_required =
            |name: &&String| self.mode == StrictMode::OpenAi || flat.required.contains(&name.as_str());
        let required: Vec<_> = properties.keys().filter(is_required).cloned().collect();
        output.insert("properties".to_owned(), Value::Object(properties));
        output.insert("required".to_owned(), json!(required));
        output.insert("additionalProperties".to_owned(), Value::Bool(false));
        Ok(())
    }
}

/// Fails if `flat` allows undeclared properties explicitly, or requires an undeclared property.
/// Also fails for an object that declares no properties and does not forbid undeclared properties,
/// because it is probably a map. At the root, this object is allowed: it is the schema of a tool
/// without arguments.
fn reject_undeclared(flat: &FlatSchema<'_>, is_root: bool) -> Result<(), SchemaChange> {
    const ANY_NAME: &str = "its properties may have any name";
    let others = ["additionalProperties", "unevaluatedProperties"].map(|name| flat.keyword(name));
    let mut others = others.into_iter().flatten().peekable();
    if flat.properties.is_empty() && others.peek().is_none() && !is_root {
        return Err(SchemaChange::not_strict(&flat.pointer, "properties", ANY_NAME));
    }
    if let Some(entry) = others.find(|it| it.value != &Value::Bool(false)) {
        return Err(SchemaChange::not_strict(&entry.at, entry.name, ANY_NAME));
    }
    let is_declared = |name: &&str| flat.properties.iter().any(|it| it.name == *name);
    if !flat.required.iter().all(is_declared) {
        return Err(SchemaChange::not_strict(
            &flat.pointer,
            "required",
            "it names a property that is not declared",
        ));
    }
    Ok(())
}

/// Adds `enum` or `const` to `output`. Values with types that are not in `types` are omitted,
/// because they are invalid anyway. Fails if a value is an object or an array.
fn add_enum(
    flat: &FlatSchema<'_>,
    types: &[&str],
    output: &mut Map<String, Value>,
) -> Result<(), SchemaChange> {
    let Some(mut values) = allowed_values(flat) else { return Ok(()) };
    values.retain(|value| types.iter().any(|name| has_type(value, name)));
    if values.iter().any(|value| value.is_object() || value.is_array()) {
        return Err(SchemaChange::not_strict(&flat.pointer, "enum", "its values are not scalars"));
    }
    match values.as_slice() {
        [only] if flat.keyword("const").is_some() => output.insert("const".to_owned(), (*only).clone()),
        _ => output.insert("enum".to_owned(), json!(values)),
    };
    Ok(())
}

/// Returns `true` if the strict schema `schema` accepts `null`. References are not followed: if the
/// target of a reference accepts `null`, a second `null` does no harm.
fn accepts_null(schema: &Map<String, Value>) -> bool {
    if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
        return alternatives.iter().filter_map(Value::as_object).any(accepts_null);
    }
    let is_typed = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        Some(name) => name == "null",
        None => false,
    };
    let is_option = match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(only), _) => only.is_null(),
        (None, Some(options)) => options.contains(&Value::Null),
        (None, None) => true,
    };
    is_typed && is_option
}

/// Returns a copy of `schema` that also accepts `null`.
fn make_nullable(mut schema: Map<String, Value>) -> Map<String, Value> {
    let nothing = json!({"type": "null"});
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.push(nothing);
        return schema;
    }
    let has_constants = schema.contains_key("enum") || schema.contains_key("const");
    let is_nested = schema.contains_key("properties") || schema.contains_key("items");
    match schema.get_mut("type") {
        Some(Value::Array(names)) if !has_constants => names.push(Value::from("null")),
        Some(name @ Value::String(_)) if !has_constants && !is_nested => *name = json!([name, "null"]),
        _ => {
            let head = ["title", "description"].map(|name| schema.shift_remove_entry(name));
            let mut around: Map<_, _> = head.into_iter().flatten().collect();
            around.insert("anyOf".to_owned(), json!([schema, nothing]));
            return around;
        }
    }
    schema
}
