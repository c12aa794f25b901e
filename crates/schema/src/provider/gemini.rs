//! The subset of OpenAPI 3.0 that Gemini's API knows as `Schema`.

use serde_json::{Map, Value, json};

use super::super::preflight::pattern::backtracks;
use super::super::reference::join;
use super::change::{SchemaChange, SchemaChangeKind};
use super::flat::{Entry, Flat, is_assertion, is_requirement};
use super::inline::{Inline, any_value};
use super::kinds::{constants, is_of, subject, types};
use super::told::{Told, head};

/// The formats that do not fail a request, each for its type.
const FORMATS: [(&str, &str); 5] = [
    ("string", "date-time"),
    ("integer", "int32"),
    ("integer", "int64"),
    ("number", "float"),
    ("number", "double"),
];

/// What is sent of a schema, and what is lost.
pub(super) fn derive(root: &Value) -> (Value, Vec<SchemaChange>) {
    let mut inline = Inline::new(root, form);
    let mut flat = inline.read("", root);
    make_one_object(&mut inline, &mut flat);
    let sent = inline.emit(flat);
    (Value::Object(sent), inline.into_changes())
}

/// Gives the root the properties of all its alternatives: it must be one object. What all of them require it requires.
fn make_one_object<'s>(inline: &mut Inline<'s>, flat: &mut Flat<'s>) {
    let mut told = Vec::new();
    while let Some(union) = flat.take("anyOf").or_else(|| flat.take("oneOf")) {
        let alternatives = alternatives(&union);
        if alternatives.iter().all(|(_, it)| is_requirement(it)) {
            told.push(union);
            continue;
        }
        inline.lose(&union.at, union.name, SchemaChangeKind::Flattened);
        let mut required: Option<Vec<&str>> = None;
        for (at, alternative) in alternatives {
            let mut part = inline.read(&at, alternative);
            make_one_object(inline, &mut part);
            flat.targets.extend(part.targets);
            match &mut required {
                Some(required) => required.retain(|name| part.required.contains(name)),
                None => required = Some(part.required),
            }
            for property in part.properties {
                let is_known = |it: &Entry<'_>| it.name == property.name && it.value == property.value;
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
    flat.keywords.extend(told);
}

fn alternatives<'s>(union: &Entry<'s>) -> Vec<(String, &'s Value)> {
    let alternatives = union.value.as_array().into_iter().flatten().enumerate();
    alternatives.map(|(index, it)| (format!("{}/{}/{index}", union.at, union.name), it)).collect()
}

fn form<'s>(inline: &mut Inline<'s>, mut flat: Flat<'s>) -> Map<String, Value> {
    let mut told = Told::default();
    if let Some(union) = flat.take("anyOf").or_else(|| flat.take("oneOf")) {
        let alternatives = alternatives(&union);
        // Which properties must be there cannot be an alternative: each has a type.
        if !alternatives.iter().all(|(_, it)| is_requirement(it)) {
            return any_of(inline, flat, &union, alternatives);
        }
        inline.changes.push(told.tell(&union.at, union.name, union.value));
    }
    let names = match types(&flat) {
        Ok(types) => {
            if types.is_assumed {
                inline.lose(&flat.at, "type", SchemaChangeKind::TypeAssumed);
            }
            types.names
        }
        Err(_) if flat.properties.is_empty() && !is_object(&flat) => return anything(inline, &flat, told),
        Err(_) => {
            if !is_object(&flat) {
                inline.lose(&flat.at, "type", SchemaChangeKind::TypeAssumed);
            }
            vec!["object"]
        }
    };
    // A whole number is a number.
    let is_said = |name: &&str| *name != "null" && !(*name == "integer" && names.contains(&"number"));
    let said: Vec<_> = names.iter().copied().filter(is_said).collect();
    let mut sent = match said.as_slice() {
        [] => return null(inline, &flat),
        [name] => plain(inline, &flat, name, told),
        said => {
            let bare = flat.bare();
            let each = said.iter().map(|name| plain(inline, &bare, name, Told::default()));
            let each: Vec<_> = each.collect();
            let mut sent = head(&flat, told, &mut inline.changes);
            sent.insert("anyOf".to_owned(), json!(each));
            sent
        }
    };
    if names.contains(&"null") {
        sent.insert("nullable".to_owned(), json!(true));
    }
    sent
}

/// Whether it is declared to be an object, though perhaps no object fits.
fn is_object(flat: &Flat<'_>) -> bool {
    flat.keyword("type").is_some_and(|it| it.value == "object")
}

/// Alternatives, each with what is said of all of them.
fn any_of<'s>(
    inline: &mut Inline<'s>,
    mut flat: Flat<'s>,
    union: &Entry<'s>,
    alternatives: Vec<(String, &'s Value)>,
) -> Map<String, Value> {
    let (nulls, mut others): (Vec<_>, Vec<_>) = alternatives.into_iter().partition(|(_, it)| is_null(it));
    // What fits nothing is no alternative.
    others.retain(|(_, it)| *it != &Value::Bool(false));
    let mut is_nullable = !nulls.is_empty();
    let mut sent = if others.len() > 1 {
        if union.name == "oneOf" {
            inline.lose(&union.at, "oneOf", SchemaChangeKind::AnyOf);
        }
        let common = flat.bare();
        let mut each = Vec::new();
        for (at, alternative) in others {
            let mut part = inline.read(&at, alternative);
            inline.merge(&mut part, common.clone(), union.name);
            let mut part = inline.emit(part);
            is_nullable |= part.shift_remove("nullable").is_some();
            splice(part, &mut each);
        }
        let mut sent = head(&flat, Told::default(), &mut inline.changes);
        sent.insert("anyOf".to_owned(), Value::Array(each));
        sent
    } else if let Some((at, only)) = others.pop() {
        let part = inline.read(&at, only);
        inline.merge(&mut flat, part, union.name);
        inline.emit(flat)
    } else {
        return null(inline, &flat);
    };
    if is_nullable {
        sent.insert("nullable".to_owned(), json!(true));
    }
    sent
}

/// Whether a schema says that a value is `null`, and nothing else of it.
fn is_null(schema: &Value) -> bool {
    let is_silent = |(name, value): (&String, &Value)| match name.as_str() {
        "type" => value == "null",
        "const" => value.is_null(),
        name => !is_assertion(name),
    };
    let says_so = schema.get("type").or_else(|| schema.get("const")).is_some();
    says_so && schema.as_object().is_some_and(|it| it.iter().all(is_silent))
}

fn null(inline: &mut Inline<'_>, flat: &Flat<'_>) -> Map<String, Value> {
    let is_rule = |name: &str| {
        is_assertion(name) && subject(name).is_none() && !matches!(name, "type" | "enum" | "const")
    };
    let rules = flat.keywords.iter().filter(|it| is_rule(it.name));
    inline.changes.extend(rules.map(|it| SchemaChange::new(&it.at, it.name, SchemaChangeKind::Dropped)));
    let mut sent = head(flat, Told::default(), &mut inline.changes);
    sent.insert("type".to_owned(), json!("null"));
    sent
}

/// What is sent for any value: there is no word for that.
fn anything<'s>(inline: &mut Inline<'s>, flat: &Flat<'s>, mut told: Told) -> Map<String, Value> {
    inline.lose(&flat.at, "type", SchemaChangeKind::Narrowed);
    let rules = flat.keywords.iter().filter(|it| is_assertion(it.name));
    inline.changes.extend(rules.map(|it| told.tell(&it.at, it.name, it.value)));
    if !flat.required.is_empty() {
        inline.lose(&flat.at, "required", SchemaChangeKind::Dropped);
    }
    let mut sent = head(flat, told, &mut inline.changes);
    if let Value::Object(any) = any_value() {
        sent.extend(any);
    }
    sent
}

/// A schema of one type.
fn plain<'s>(inline: &mut Inline<'s>, flat: &Flat<'s>, name: &str, mut told: Told) -> Map<String, Value> {
    let mut rules = Map::new();
    let is_about = |keyword| {
        keyword == "format"
            || subject(keyword).is_none_or(|it| it == name || it == "number" && name == "integer")
    };
    for entry in flat.keywords.iter().filter(|it| is_assertion(it.name) && is_about(it.name)) {
        match fate(entry, name) {
            Fate::Kept => drop(rules.insert(entry.name.to_owned(), entry.value.clone())),
            Fate::Silent => {}
            Fate::Dropped => inline.lose(&entry.at, entry.name, SchemaChangeKind::Dropped),
            Fate::Told => inline.changes.push(told.tell(&entry.at, entry.name, entry.value)),
        }
    }
    fix_values(inline, flat, name, &mut told, &mut rules);
    let mut sent = head(flat, told, &mut inline.changes);
    sent.insert("type".to_owned(), json!(name));
    sent.append(&mut rules);
    match name {
        "array" => drop(sent.insert("items".to_owned(), items(inline, flat))),
        "object" => fill_object(inline, flat, &mut sent),
        _ => {}
    }
    sent
}

/// What becomes of a keyword about values of one type.
enum Fate {
    Kept,
    /// It says nothing, or it is handled elsewhere.
    Silent,
    Dropped,
    Told,
}

fn fate(entry: &Entry<'_>, name: &str) -> Fate {
    let text = entry.value.as_str().unwrap_or_default();
    match entry.name {
        "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
        | "maxProperties" => Fate::Kept,
        "pattern" if !backtracks(text) => Fate::Kept,
        "format" if FORMATS.contains(&(name, text)) => Fate::Kept,
        "type" | "enum" | "const" | "items" | "prefixItems" => Fate::Silent,
        "additionalProperties" | "unevaluatedProperties" | "additionalItems" | "unevaluatedItems" => {
            match entry.value {
                Value::Bool(true) => Fate::Silent,
                // Told, it would be noise: models seldom write what is not listed.
                Value::Bool(false) => Fate::Dropped,
                _ => Fate::Told,
            }
        }
        _ => Fate::Told,
    }
}

/// `enum` and `const`, which only texts have, and no empty ones.
fn fix_values(
    inline: &mut Inline<'_>,
    flat: &Flat<'_>,
    name: &str,
    told: &mut Told,
    rules: &mut Map<String, Value>,
) {
    let (Some(values), Some(entry)) =
        (constants(flat), flat.keyword("const").or_else(|| flat.keyword("enum")))
    else {
        return;
    };
    let of_type: Vec<_> = values.into_iter().filter(|value| is_of(value, name)).collect();
    let texts: Vec<_> = of_type.iter().filter_map(|it| it.as_str()).filter(|it| !it.is_empty()).collect();
    if texts.is_empty() {
        inline.changes.push(told.tell(&entry.at, entry.name, entry.value));
        return;
    }
    if texts.len() < of_type.len() {
        inline.lose(&entry.at, entry.name, SchemaChangeKind::Narrowed);
    }
    rules.insert("format".to_owned(), json!("enum"));
    rules.insert("enum".to_owned(), json!(texts));
}

/// The items of an array, which must have some. Those of a tuple are alternatives.
fn items<'s>(inline: &mut Inline<'s>, flat: &Flat<'s>) -> Value {
    let tuple =
        flat.keyword("prefixItems").or_else(|| flat.keyword("items").filter(|it| it.value.is_array()));
    let rest = flat.keyword("items").filter(|it| !it.value.is_array() && it.value != &Value::Bool(false));
    if let Some(none) = flat.keyword("items").filter(|it| it.value == &Value::Bool(false)) {
        inline.lose(&none.at, none.name, SchemaChangeKind::Dropped);
    }
    let mut each = Vec::new();
    if let Some(tuple) = tuple {
        inline.lose(&tuple.at, tuple.name, SchemaChangeKind::AnyOf);
        for (at, item) in alternatives(tuple) {
            each.push(inline.schema(&at, item));
        }
    }
    if let Some(rest) = rest {
        each.push(inline.schema(&join(&rest.at, "items"), rest.value));
    }
    each.into_iter().reduce(either).map_or_else(
        || Value::Object(anything(inline, &Flat { at: flat.at.clone(), ..Flat::default() }, Told::default())),
        Value::Object,
    )
}

fn fill_object<'s>(inline: &mut Inline<'s>, flat: &Flat<'s>, sent: &mut Map<String, Value>) {
    let mut properties: Map<String, Value> = Map::new();
    for property in &flat.properties {
        if property.value == &Value::Bool(false) && !flat.required.contains(&property.name) {
            inline.lose(&property.at, "type", SchemaChangeKind::Dropped);
            continue;
        }
        let schema = inline.schema(&property.at, property.value);
        match properties.get_mut(property.name) {
            // Alternatives of the root may each have one of that name.
            Some(Value::Object(known)) => {
                inline.lose(&property.at, "type", SchemaChangeKind::AnyOf);
                *known = either(std::mem::take(known), schema);
            }
            _ => drop(properties.insert(property.name.to_owned(), Value::Object(schema))),
        }
    }
    // What is required must be declared, and can then be given.
    for name in &flat.required {
        if !properties.contains_key(*name) {
            inline.lose(&flat.at, "required", SchemaChangeKind::Narrowed);
            properties.insert((*name).to_owned(), any_value());
        }
    }
    if !properties.is_empty() {
        sent.insert("properties".to_owned(), Value::Object(properties));
    }
    if !flat.required.is_empty() {
        sent.insert("required".to_owned(), json!(flat.required));
    }
}

/// Adds an alternative to others. Each has a type, so that there are none within one: what describes it is said of each of its own.
fn splice(mut part: Map<String, Value>, each: &mut Vec<Value>) {
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

/// Takes what fits one of two schemas. Two lists of texts become one.
fn either(mut one: Map<String, Value>, mut other: Map<String, Value>) -> Map<String, Value> {
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
    splice(one, &mut each);
    splice(other, &mut each);
    let mut sent = Map::from_iter([("anyOf".to_owned(), Value::Array(each))]);
    if is_nullable {
        sent.insert("nullable".to_owned(), json!(true));
    }
    sent
}
