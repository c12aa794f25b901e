//! Derivation of reduced schemas for small models, with inlined references and without keywords
//! that models do not need.

use serde_json::{Map, Value, json};

use super::super::reference::join_pointer;
use super::change::{SchemaChange, SchemaChangeKind};
use super::description_notes::is_schema_metadata;
use super::flatten::{FlatSchema, KeywordEntry};
use super::inliner::Inliner;

/// The maximum length of a description in the reduced schema, in bytes. Longer descriptions are
/// cut.
const MAX_DESCRIPTION_BYTES: usize = 300;

/// The text appended to a description that is cut in the middle of a sentence.
const ELLIPSIS: &str = "…";

/// Keywords that are copied unchanged. They help small models, or constrained decoding enforces
/// them.
const KEPT_KEYWORDS: [&str; 17] = [
    "type",
    "enum",
    "const",
    "default",
    "examples",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
];

/// Returns the reduced schema that is derived from `root` for small models, and the list of
/// changes.
pub(super) fn derive(root: &Value) -> (Value, Vec<SchemaChange>) {
    let mut inline = Inliner::new(root, derive_flat);
    let mut output = inline.derive_schema("", root);
    // An object root always has `properties`, even for a tool without arguments.
    if !["anyOf", "oneOf"].iter().any(|union| output.contains_key(*union)) {
        output.entry("properties").or_insert_with(|| json!({}));
    }
    (Value::Object(output), inline.into_changes())
}

fn derive_flat<'s>(inline: &mut Inliner<'s>, flat: FlatSchema<'s>) -> Map<String, Value> {
    let mut output = Map::new();
    for entry in &flat.keywords {
        if let Some(value) = derive_keyword(inline, entry) {
            // Draft-07 declares tuples in `items`. The derived schema has no `$schema`, so it needs
            // `prefixItems`, the keyword of draft 2020-12.
            let is_tuple = entry.name == "items" && value.is_array();
            output.insert(if is_tuple { "prefixItems" } else { entry.name }.to_owned(), value);
        }
    }
    if !flat.properties.is_empty() {
        let properties = derive_properties(inline, &flat);
        output.insert("properties".to_owned(), Value::Object(properties));
    }
    if !flat.required.is_empty() {
        output.insert("required".to_owned(), json!(flat.required));
    }
    output
}

/// Derives the value of the keyword `entry` for the reduced schema. Returns `None` if the keyword
/// is omitted.
fn derive_keyword<'s>(inline: &mut Inliner<'s>, entry: &KeywordEntry<'s>) -> Option<Value> {
    let at = join_pointer(&entry.at, entry.name);
    match (entry.name, entry.value) {
        ("description", Value::String(text)) => Some(shorten_description(inline, entry, text)),
        ("anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(parts)) => {
            let parts = parts.iter().enumerate();
            Some(
                parts
                    .map(|(index, part)| Value::Object(inline.derive_schema(&format!("{at}/{index}"), part)))
                    .collect(),
            )
        }
        ("items" | "additionalProperties", Value::Object(_)) => {
            // An empty schema allows any value, and so does a schema without the keyword.
            Some(inline.derive_schema(&at, entry.value)).filter(|it| !it.is_empty()).map(Value::Object)
        }
        ("items" | "additionalProperties", Value::Bool(true)) => None,
        (name, _) if is_schema_metadata(name) => None,
        (name, value) if KEPT_KEYWORDS.contains(&name) && !is_machine_format(entry) => Some(value.clone()),
        (name, _) => {
            inline.report(&entry.at, name, SchemaChangeKind::Dropped);
            None
        }
    }
}

/// Returns `true` if `entry` is a `format` that only states the width of a number, such as `int64`.
fn is_machine_format(entry: &KeywordEntry<'_>) -> bool {
    let kinds = ["int", "uint", "float", "double"];
    entry.name == "format"
        && entry.value.as_str().is_some_and(|it| kinds.iter().any(|kind| it.starts_with(kind)))
}

/// Shortens the description `text` to [`MAX_DESCRIPTION_BYTES`], at the end of a sentence if
/// possible. Reports a change if the text was too long.
fn shorten_description(inline: &mut Inliner<'_>, entry: &KeywordEntry<'_>, text: &str) -> Value {
    if text.len() <= MAX_DESCRIPTION_BYTES {
        return Value::from(text);
    }
    inline.report(&entry.at, entry.name, SchemaChangeKind::Shortened);
    let start =
        text.get(..text.floor_char_boundary(MAX_DESCRIPTION_BYTES - ELLIPSIS.len())).unwrap_or_default();
    let ends = [". ", ".\n", "\n\n"].map(|end| start.rfind(end).map(|at| at + 1));
    // A full stop in the first third usually belongs to an abbreviation.
    let end = ends.into_iter().flatten().max().filter(|end| *end > MAX_DESCRIPTION_BYTES / 3);
    let whole = end.and_then(|end| start.get(..end)).map(str::trim_end);
    Value::from(whole.map_or_else(|| format!("{start}{ELLIPSIS}"), str::to_owned))
}

fn derive_properties<'s>(inline: &mut Inliner<'s>, flat: &FlatSchema<'s>) -> Map<String, Value> {
    let mut properties = Map::new();
    for property in &flat.properties {
        let is_required = flat.required.contains(&property.name);
        if property.value == &Value::Bool(false) && !is_required {
            inline.report(&property.at, "type", SchemaChangeKind::Dropped);
            continue;
        }
        let mut schema = inline.derive_schema(&property.at, property.value);
        if !is_required && remove_null(&mut schema) {
            inline.report(&property.at, "type", SchemaChangeKind::AbsentForNull);
        }
        properties.insert(property.name.to_owned(), Value::Object(schema));
    }
    properties
}

/// Removes `null` from the list of types or alternatives in `schema`, and then also from its `enum`
/// and `default`. Returns `true` if `null` was removed. A schema is not changed if it has neither
/// list, or if it allows only `null`.
fn remove_null(schema: &mut Map<String, Value>) -> bool {
    let is_null = |it: &Value| it == &json!({"type": "null"}) || it == "null";
    let options = schema.get("enum").and_then(Value::as_array);
    if options.is_some_and(|options| options.iter().all(Value::is_null)) {
        return false;
    }
    let Some(key) = ["type", "anyOf", "oneOf"].into_iter().find(|key| {
        let list = schema.get(*key).and_then(Value::as_array);
        list.is_some_and(|list| list.len() > 1 && list.iter().any(is_null))
    }) else {
        return false;
    };
    if let Some(Value::Array(options)) = schema.get_mut("enum") {
        options.retain(|it| !it.is_null());
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.shift_remove("default");
    }
    let Some(Value::Array(list)) = schema.get_mut(key) else { return false };
    list.retain(|it| !is_null(it));
    if let [only] = list.as_slice() {
        let only = only.clone();
        inline_only_alternative(schema, key, only);
    }
    true
}

/// Replaces the single-element list under `key` in `schema` with its element `only`.
///
/// If `only` is a type name, it becomes the value of `key`. If `only` is an object, its keywords
/// replace `key`. An existing `description` of `schema` is kept. `schema` is not changed if it
/// already contains any other keyword of `only`.
fn inline_only_alternative(schema: &mut Map<String, Value>, key: &str, only: Value) {
    match only {
        Value::Object(only) => {
            let is_free = |name: &String| name == "description" || !schema.contains_key(name);
            if only.keys().all(is_free) {
                schema.shift_remove(key);
                for (name, value) in only {
                    schema.entry(name).or_insert(value);
                }
            }
        }
        only => drop(schema.insert(key.to_owned(), only)),
    }
}
