//! Derivation of schemas for Gemini's API, in its subset of OpenAPI 3.0.

use serde_json::{Map, Value, json};

use super::super::preflight::regex_size::needs_backtracking;
use super::super::reference::join_pointer;
use super::change::{SchemaChange, SchemaChangeKind};
use super::description_notes::{DescriptionNotes, build_annotations};
use super::flatten::{FlatSchema, KeywordEntry, has_only_required, is_assertion};
use super::inliner::{Inliner, any_value};
use super::json_types::{allowed_values, constrained_type, has_type, infer_types};

/// The supported values of `format`, each with its JSON type. Besides these and `enum`, Gemini
/// rejects all formats.
const FORMATS: [(&str, &str); 5] = [
    ("string", "date-time"),
    ("integer", "int32"),
    ("integer", "int64"),
    ("number", "float"),
    ("number", "double"),
];

/// Returns the schema that is derived from `root` for Gemini, and the list of changes.
pub(super) fn derive(root: &Value) -> (Value, Vec<SchemaChange>) {
    let mut inline = Inliner::new(root, derive_flat);
    let mut flat = inline.resolve("", root);
    flatten_root(&mut inline, &mut flat);
    let output = inline.emit(flat);
    (Value::Object(output), inline.into_changes())
}

/// Merges the alternatives of unions at the root `flat` into one object with the properties of all
/// alternatives. A property becomes required if all alternatives of a union require it. A union is
/// kept if its alternatives contain only `required`.
fn flatten_root<'s>(inline: &mut Inliner<'s>, flat: &mut FlatSchema<'s>) {
    let mut notes = Vec::new();
    while let Some(union) = flat.take_keyword("anyOf").or_else(|| flat.take_keyword("oneOf")) {
        let alternatives = alternatives(&union);
        if alternatives.iter().all(|(_, it)| has_only_required(it)) {
            notes.push(union);
            continue;
        }
        inline.report(&union.at, union.name, SchemaChangeKind::Flattened);
        let mut required: Option<Vec<&str>> = None;
        for (at, alternative) in alternatives {
            let mut part = inline.resolve(&at, alternative);
            flatten_root(inline, &mut part);
            flat.targets.extend(part.targets);
            match &mut required {
                Some(required) => required.retain(|name| part.required.contains(name)),
                None => required = Some(part.required),
            }
            for property in part.properties {
                let is_known = |it: &KeywordEntry<'_>| it.name == property.name && it.value == property.value;
                if !flat.properties.iter().any(is_known) {
                    flat.properties.push(property);
                }
            }
            let rules = part.keywords.iter().filter(|it| is_assertion(it.name) && it.name != "type");
            inline
                .changes
                .extend(rules.map(|it| SchemaChange::new(&it.at, it.name, SchemaChangeKind::Dropped)));
        }
        let new = required.into_iter().flatten().filter(|name| !flat.required.contains(name));
        let new: Vec<_> = new.collect();
        flat.required.extend(new);
    }
    flat.keywords.extend(notes);
}

fn alternatives<'s>(union: &KeywordEntry<'s>) -> Vec<(String, &'s Value)> {
    let alternatives = union.value.as_array().into_iter().flatten().enumerate();
    alternatives.map(|(index, it)| (format!("{}/{}/{index}", union.at, union.name), it)).collect()
}

fn derive_flat<'s>(inline: &mut Inliner<'s>, mut flat: FlatSchema<'s>) -> Map<String, Value> {
    let mut notes = DescriptionNotes::default();
    if let Some(union) = flat.take_keyword("anyOf").or_else(|| flat.take_keyword("oneOf")) {
        let alternatives = alternatives(&union);
        // In Gemini's API, each alternative needs a type. Alternatives that only contain `required`
        // have no type, so their union becomes a note in the description.
        if !alternatives.iter().all(|(_, it)| has_only_required(it)) {
            return derive_any_of(inline, flat, &union, alternatives);
        }
        inline.changes.push(notes.add(&union.at, union.name, union.value));
    }
    let names = match infer_types(&flat) {
        Ok(types) => {
            if types.is_assumed {
                inline.report(&flat.pointer, "type", SchemaChangeKind::TypeAssumed);
            }
            types.names
        }
        Err(_) if flat.properties.is_empty() && !is_object(&flat) => {
            return any_value_schema(inline, &flat, notes);
        }
        Err(_) => {
            if !is_object(&flat) {
                inline.report(&flat.pointer, "type", SchemaChangeKind::TypeAssumed);
            }
            vec!["object"]
        }
    };
    // `integer` is omitted beside `number`, which includes it. `nullable` replaces `null`.
    let is_sent = |name: &&str| *name != "null" && !(*name == "integer" && names.contains(&"number"));
    let output_types: Vec<_> = names.iter().copied().filter(is_sent).collect();
    let mut output = match output_types.as_slice() {
        [] => return null_schema(inline, &flat),
        [name] => derive_single_type(inline, &flat, name, notes),
        output_types => {
            let bare = flat.assertions_only();
            let each = output_types
                .iter()
                .map(|name| derive_single_type(inline, &bare, name, DescriptionNotes::default()));
            let each: Vec<_> = each.collect();
            let mut output = build_annotations(&flat, notes, &mut inline.changes);
            output.insert("anyOf".to_owned(), json!(each));
            output
        }
    };
    if names.contains(&"null") {
        output.insert("nullable".to_owned(), json!(true));
    }
    output
}

/// Returns `true` if `flat` declares the single type `object`.
fn is_object(flat: &FlatSchema<'_>) -> bool {
    flat.keyword("type").is_some_and(|it| it.value == "object")
}

/// Derives a schema for a union with the given `alternatives`. Each alternative is merged with the
/// assertions of `flat`, because they apply to all alternatives. A `null` alternative becomes
/// `nullable`.
fn derive_any_of<'s>(
    inline: &mut Inliner<'s>,
    mut flat: FlatSchema<'s>,
    union: &KeywordEntry<'s>,
    alternatives: Vec<(String, &'s Value)>,
) -> Map<String, Value> {
    let (nulls, mut others): (Vec<_>, Vec<_>) = alternatives.into_iter().partition(|(_, it)| is_null(it));
    // The alternative `false` accepts no value, so it can be omitted.
    others.retain(|(_, it)| *it != &Value::Bool(false));
    let mut is_nullable = !nulls.is_empty();
    let mut output = if others.len() > 1 {
        if union.name == "oneOf" {
            inline.report(&union.at, "oneOf", SchemaChangeKind::AnyOf);
        }
        let common = flat.assertions_only();
        let mut each = Vec::new();
        for (at, alternative) in others {
            let mut part = inline.resolve(&at, alternative);
            inline.merge(&mut part, common.clone(), union.name);
            let mut part = inline.emit(part);
            is_nullable |= part.shift_remove("nullable").is_some();
            push_alternative(part, &mut each);
        }
        let mut output = build_annotations(&flat, DescriptionNotes::default(), &mut inline.changes);
        output.insert("anyOf".to_owned(), Value::Array(each));
        output
    } else if let Some((at, only)) = others.pop() {
        let part = inline.resolve(&at, only);
        inline.merge(&mut flat, part, union.name);
        inline.emit(flat)
    } else {
        return null_schema(inline, &flat);
    };
    if is_nullable {
        output.insert("nullable".to_owned(), json!(true));
    }
    output
}

/// Returns `true` if `schema` accepts `null` and no other value, and has no assertions besides
/// `type` and `const`.
fn is_null(schema: &Value) -> bool {
    let allows_null = |(name, value): (&String, &Value)| match name.as_str() {
        "type" => value == "null",
        "const" => value.is_null(),
        name => !is_assertion(name),
    };
    let restricts_type = schema.get("type").or_else(|| schema.get("const")).is_some();
    restricts_type && schema.as_object().is_some_and(|it| it.iter().all(allows_null))
}

fn null_schema(inline: &mut Inliner<'_>, flat: &FlatSchema<'_>) -> Map<String, Value> {
    let is_rule = |name: &str| {
        is_assertion(name) && constrained_type(name).is_none() && !matches!(name, "type" | "enum" | "const")
    };
    let rules = flat.keywords.iter().filter(|it| is_rule(it.name));
    inline.changes.extend(rules.map(|it| SchemaChange::new(&it.at, it.name, SchemaChangeKind::Dropped)));
    let mut output = build_annotations(flat, DescriptionNotes::default(), &mut inline.changes);
    output.insert("type".to_owned(), json!("null"));
    output
}

/// Derives a schema for values of any type from `flat`. Gemini requires a type, so the derived
/// schema is an `anyOf` of several types.
fn any_value_schema<'s>(
    inline: &mut Inliner<'s>,
    flat: &FlatSchema<'s>,
    mut notes: DescriptionNotes,
) -> Map<String, Value> {
    inline.report(&flat.pointer, "type", SchemaChangeKind::Narrowed);
    let rules = flat.keywords.iter().filter(|it| is_assertion(it.name));
    inline.changes.extend(rules.map(|it| notes.add(&it.at, it.name, it.value)));
    if !flat.required.is_empty() {
        inline.report(&flat.pointer, "required", SchemaChangeKind::Dropped);
    }
    let mut output = build_annotations(flat, notes, &mut inline.changes);
    if let Value::Object(any) = any_value() {
        output.extend(any);
    }
    output
}

/// Derives the schema for the values that are valid for `flat` and have the type `name`.
fn derive_single_type<'s>(
    inline: &mut Inliner<'s>,
    flat: &FlatSchema<'s>,
    name: &str,
    mut notes: DescriptionNotes,
) -> Map<String, Value> {
    let mut rules = Map::new();
    let is_about = |keyword| {
        keyword == "format"
            || constrained_type(keyword).is_none_or(|it| it == name || it == "number" && name == "integer")
    };
    for entry in flat.keywords.iter().filter(|it| is_assertion(it.name) && is_about(it.name)) {
        match keyword_action(entry, name) {
            KeywordAction::Keep => drop(rules.insert(entry.name.to_owned(), entry.value.clone())),
            KeywordAction::Skip => {}
            KeywordAction::Drop => inline.report(&entry.at, entry.name, SchemaChangeKind::Dropped),
            KeywordAction::Describe => inline.changes.push(notes.add(&entry.at, entry.name, entry.value)),
        }
    }
    add_enum(inline, flat, name, &mut notes, &mut rules);
    let mut output = build_annotations(flat, notes, &mut inline.changes);
    output.insert("type".to_owned(), json!(name));
    output.append(&mut rules);
    match name {
        "array" => drop(output.insert("items".to_owned(), items_schema(inline, flat))),
        "object" => fill_object(inline, flat, &mut output),
        _ => {}
    }
    output
}

/// The treatment of a keyword in the derivation of a Gemini schema with a single type.
enum KeywordAction {
    /// The keyword is copied to the Gemini schema.
    Keep,
    /// The keyword is omitted and not reported. Either it has no effect, or another function
    /// derives it.
    Skip,
    /// The keyword is omitted, and is reported as [`SchemaChangeKind::Dropped`].
    Drop,
    /// The keyword becomes a note in the description, or is dropped if the note is too long.
    Describe,
}

fn keyword_action(entry: &KeywordEntry<'_>, name: &str) -> KeywordAction {
    let text = entry.value.as_str().unwrap_or_default();
    match entry.name {
        "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
        | "maxProperties" => KeywordAction::Keep,
        "pattern" if !needs_backtracking(text) => KeywordAction::Keep,
        "format" if FORMATS.contains(&(name, text)) => KeywordAction::Keep,
        "type" | "enum" | "const" | "items" | "prefixItems" => KeywordAction::Skip,
        "additionalProperties" | "unevaluatedProperties" | "additionalItems" | "unevaluatedItems" => {
            match entry.value {
                Value::Bool(true) => KeywordAction::Skip,
                // No note is added: models seldom write undeclared properties, and the note would
                // be a distraction.
                Value::Bool(false) => KeywordAction::Drop,
                _ => KeywordAction::Describe,
            }
        }
        _ => KeywordAction::Describe,
    }
}

/// Adds the values of `enum` or `const` to `rules`. Gemini supports only non-empty strings, so
/// other values are omitted. If no non-empty string remains, the keyword becomes a note in the
/// description.
fn add_enum(
    inline: &mut Inliner<'_>,
    flat: &FlatSchema<'_>,
    name: &str,
    notes: &mut DescriptionNotes,
    rules: &mut Map<String, Value>,
) {
    let (Some(values), Some(entry)) =
        (allowed_values(flat), flat.keyword("const").or_else(|| flat.keyword("enum")))
    else {
        return;
    };
    let of_type: Vec<_> = values.into_iter().filter(|value| has_type(value, name)).collect();
    let texts: Vec<_> = of_type.iter().filter_map(|it| it.as_str()).filter(|it| !it.is_empty()).collect();
    if texts.is_empty() {
        inline.changes.push(notes.add(&entry.at, entry.name, entry.value));
        return;
    }
    if texts.len() < of_type.len() {
        inline.report(&entry.at, entry.name, SchemaChangeKind::Narrowed);
    }
    rules.insert("format".to_owned(), json!("enum"));
    rules.insert("enum".to_owned(), json!(texts));
}

/// Derives `items` for the array schema `flat`, because Gemini requires this keyword. Gemini has no
/// tuples, so the items of a tuple become alternatives.
fn items_schema<'s>(inline: &mut Inliner<'s>, flat: &FlatSchema<'s>) -> Value {
    let tuple =
        flat.keyword("prefixItems").or_else(|| flat.keyword("items").filter(|it| it.value.is_array()));
    let rest = flat.keyword("items").filter(|it| !it.value.is_array() && it.value != &Value::Bool(false));
    if let Some(none) = flat.keyword("items").filter(|it| it.value == &Value::Bool(false)) {
        inline.report(&none.at, none.name, SchemaChangeKind::Dropped);
    }
    let mut each = Vec::new();
    if let Some(tuple) = tuple {
        inline.report(&tuple.at, tuple.name, SchemaChangeKind::AnyOf);
        for (at, item) in alternatives(tuple) {
            each.push(inline.derive_schema(&at, item));
        }
    }
    if let Some(rest) = rest {
        each.push(inline.derive_schema(&join_pointer(&rest.at, "items"), rest.value));
    }
    each.into_iter().reduce(union_of).map_or_else(
        || {
            Value::Object(any_value_schema(
                inline,
                &FlatSchema { pointer: flat.pointer.clone(), ..FlatSchema::default() },
                DescriptionNotes::default(),
            ))
        },
        Value::Object,
    )
}

fn fill_object<'s>(inline: &mut Inliner<'s>, flat: &FlatSchema<'s>, output: &mut Map<String, Value>) {
    let mut properties: Map<String, Value> = Map::new();
    for property in &flat.properties {
        if property.value == &Value::Bool(false) && !flat.required.contains(&property.name) {
            inline.report(&property.at, "type", SchemaChangeKind::Dropped);
            continue;
        }
        let schema = inline.derive_schema(&property.at, property.value);
        match properties.get_mut(property.name) {
            // A property may occur twice, because several alternatives of the root declare it.
            Some(Value::Object(known)) => {
                inline.report(&property.at, "type", SchemaChangeKind::AnyOf);
                *known = union_of(std::mem::take(known), schema);
            }
            _ => drop(properties.insert(property.name.to_owned(), Value::Object(schema))),
        }
    }
    // Gemini rejects undeclared names in `required`, so these properties are declared with any
    // value.
    for name in &flat.required {
        if !properties.contains_key(*name) {
            inline.report(&flat.pointer, "required", SchemaChangeKind::Narrowed);
            properties.insert((*name).to_owned(), any_value());
        }
    }
    if !properties.is_empty() {
        output.insert("properties".to_owned(), Value::Object(properties));
    }
    if !flat.required.is_empty() {
        output.insert("required".to_owned(), json!(flat.required));
    }
}

/// Appends the alternative `part` to the list `each`. If `part` is an `anyOf`, appends its
/// alternatives one by one, each with the other keywords of `part`, because alternatives must not
/// be nested.
fn push_alternative(mut part: Map<String, Value>, each: &mut Vec<Value>) {
    let Some(Value::Array(parts)) = part.shift_remove("anyOf") else {
        each.push(Value::Object(part));
        return;
    };
    for mut inner in parts {
        if let Value::Object(inner) = &mut inner {
            for (name, value) in &part {
                inner.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        each.push(inner);
    }
}

/// Returns a schema for all values that `one` or `other` accepts. Two enums are merged into one.
fn union_of(mut one: Map<String, Value>, mut other: Map<String, Value>) -> Map<String, Value> {
    if one == other {
        return one;
    }
    let is_list =
        |it: &Map<String, Value>| it.keys().all(|name| matches!(name.as_str(), "type" | "format" | "enum"));
    if is_list(&one)
        && is_list(&other)
        && let (Some(Value::Array(values)), Some(Value::Array(more))) =
            (one.get_mut("enum"), other.get("enum"))
    {
        let new: Vec<_> = more.iter().filter(|it| !values.contains(it)).cloned().collect();
        values.extend(new);
        return one;
    }
    let is_nullable = [&mut one, &mut other].map(|it| it.shift_remove("nullable").is_some()).contains(&true);
    let mut each = Vec::new();
    push_alternative(one, &mut each);
    push_alternative(other, &mut each);
    let mut output = Map::from_iter([("anyOf".to_owned(), Value::Array(each))]);
    if is_nullable {
        output.insert("nullable".to_owned(), json!(true));
    }
    output
}
