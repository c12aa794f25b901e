//! A schema for small models: everything in its place, and no more of it than they can use.

use serde_json::{Map, Value, json};

use super::super::reference::join;
use super::change::{SchemaChange, SchemaChangeKind};
use super::flat::{Entry, Flat};
use super::inline::Inline;
use super::told::is_plumbing;

/// How long a description may be, in bytes.
const DESCRIPTION: usize = 300;

/// What ends a description that is cut within a sentence.
const MORE: &str = "…";

/// The keywords that small models can use, or that constrain what they write.
const KEPT: [&str; 17] = [
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

/// What is sent of a schema, and what is lost.
pub(super) fn derive(root: &Value) -> (Value, Vec<SchemaChange>) {
    let mut inline = Inline::new(root, form);
    let mut sent = inline.schema("", root);
    // A tool without arguments says so.
    if !["anyOf", "oneOf"].iter().any(|union| sent.contains_key(*union)) {
        sent.entry("properties").or_insert_with(|| json!({}));
    }
    (Value::Object(sent), inline.into_changes())
}

fn form<'s>(inline: &mut Inline<'s>, flat: Flat<'s>) -> Map<String, Value> {
    let mut sent = Map::new();
    for entry in &flat.keywords {
        if let Some(value) = keyword(inline, entry) {
            // A tuple of draft-07 has another name in what is sent, which declares no draft.
            let is_tuple = entry.name == "items" && value.is_array();
            sent.insert(if is_tuple { "prefixItems" } else { entry.name }.to_owned(), value);
        }
    }
    if !flat.properties.is_empty() {
        let properties = properties(inline, &flat);
        sent.insert("properties".to_owned(), Value::Object(properties));
    }
    if !flat.required.is_empty() {
        sent.insert("required".to_owned(), json!(flat.required));
    }
    sent
}

/// What is sent of a keyword, if anything.
fn keyword<'s>(inline: &mut Inline<'s>, entry: &Entry<'s>) -> Option<Value> {
    let at = join(&entry.at, entry.name);
    match (entry.name, entry.value) {
        ("description", Value::String(text)) => Some(description(inline, entry, text)),
        ("anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(parts)) => {
            let parts = parts.iter().enumerate();
            Some(
                parts
                    .map(|(index, part)| Value::Object(inline.schema(&format!("{at}/{index}"), part)))
                    .collect(),
            )
        }
        ("items" | "additionalProperties", Value::Object(_)) => {
            // That any value fits need not be said.
            Some(inline.schema(&at, entry.value)).filter(|it| !it.is_empty()).map(Value::Object)
        }
        ("items" | "additionalProperties", Value::Bool(true)) => None,
        (name, _) if is_plumbing(name) => None,
        (name, value) if KEPT.contains(&name) && !is_machine_format(entry) => Some(value.clone()),
        (name, _) => {
            inline.lose(&entry.at, name, SchemaChangeKind::Dropped);
            None
        }
    }
}

/// Whether it says how a program keeps a number, such as `int64`.
fn is_machine_format(entry: &Entry<'_>) -> bool {
    let kinds = ["int", "uint", "float", "double"];
    entry.name == "format"
        && entry.value.as_str().is_some_and(|it| kinds.iter().any(|kind| it.starts_with(kind)))
}

/// The first sentences of a description, as many as there is room for.
fn description(inline: &mut Inline<'_>, entry: &Entry<'_>, text: &str) -> Value {
    if text.len() <= DESCRIPTION {
        return Value::from(text);
    }
    inline.lose(&entry.at, entry.name, SchemaChangeKind::Shortened);
    let start = text.get(..text.floor_char_boundary(DESCRIPTION - MORE.len())).unwrap_or_default();
    let ends = [". ", ".\n", "\n\n"].map(|end| start.rfind(end).map(|at| at + 1));
    // A full stop near the beginning ends an abbreviation more often than what there is to say.
    let end = ends.into_iter().flatten().max().filter(|end| *end > DESCRIPTION / 3);
    let whole = end.and_then(|end| start.get(..end)).map(str::trim_end);
    Value::from(whole.map_or_else(|| format!("{start}{MORE}"), str::to_owned))
}

fn properties<'s>(inline: &mut Inline<'s>, flat: &Flat<'s>) -> Map<String, Value> {
    let mut properties = Map::new();
    for property in &flat.properties {
        let is_required = flat.required.contains(&property.name);
        if property.value == &Value::Bool(false) && !is_required {
            inline.lose(&property.at, "type", SchemaChangeKind::Dropped);
            continue;
        }
        let mut schema = inline.schema(&property.at, property.value);
        if !is_required && refuse_null(&mut schema) {
            inline.lose(&property.at, "type", SchemaChangeKind::AbsentForNull);
        }
        properties.insert(property.name.to_owned(), Value::Object(schema));
    }
    properties
}

/// Takes `null` out of what fits, if anything is left; whether there was one.
fn refuse_null(schema: &mut Map<String, Value>) -> bool {
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
        stand_alone(schema, key, only);
    }
    true
}

/// Puts the only one of a list in the place of the list.
fn stand_alone(schema: &mut Map<String, Value>, key: &str, only: Value) {
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
