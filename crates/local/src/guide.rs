//! The schema that steers the model, made from the schema that its reply must fit.
//!
//! The grammar engine knows most of JSON Schema, not all of it. A guide says of a schema what the engine
//! understands, and is often narrower: it asks for no property that is not declared and for no number that cannot
//! be read back. Where it has to be wider, the finished value is checked against the schema itself.

mod formats;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use self::formats::narrowed;

/// How much of a schema a guide keeps; used when the engine refuses more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything that the engine has a word for.
    Full,
    /// Without patterns, which may need a kind of expression that the engine lacks.
    Unpatterned,
    /// Types, properties, items and enumerations.
    Outline,
    /// Any object for an object, anything else for anything else.
    Root,
}

impl Detail {
    /// From the most to the least.
    pub(crate) const ALL: [Self; 4] = [Self::Full, Self::Unpatterned, Self::Outline, Self::Root];

    fn keeps(self, keyword: &str) -> bool {
        let in_outline =
            ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref"];
        match self {
            Self::Full => !ANNOTATIONS.contains(&keyword),
            Self::Unpatterned => Self::Full.keeps(keyword) && !PATTERNS.contains(&keyword),
            Self::Outline => in_outline.contains(&keyword),
            Self::Root => keyword == "type",
        }
    }
}

/// What steers nothing. Some of it the engine would take for more than that.
const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$comment",
    "default",
    "examples",
    "x-guidance",
];

const PATTERNS: [&str; 5] = ["pattern", "patternProperties", "format", "multipleOf", "propertyNames"];

/// The definitions of a guide are this deep at most, if each is entered from the last: the engine walks them by
/// recursion, and in an order of its own. What comes after that is free, and checked on the finished value.
const DEEPEST: usize = 1000;

/// Keywords whose presence makes it unsafe to rule out what `properties` does not list.
const OPENERS: [&str; 13] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "minProperties",
    "unevaluatedProperties",
];

/// Makes the guide of a schema.
pub(crate) fn guide(schema: &Value, detail: Detail) -> Value {
    let mut guide = Guide {
        root: schema,
        detail,
        names: HashMap::new(),
        waiting: VecDeque::new(),
        combines: mentions(schema, "allOf"),
    };
    let mut guided = guide.subschema(schema, false);
    if let Value::Object(object) = &mut guided {
        object.insert("$defs".to_owned(), Value::Object(guide.definitions()));
        object.insert("x-guidance".to_owned(), layout());
    }
    guided
}

/// JSON as models write it: on one line, with a space behind each comma and colon.
fn layout() -> Value {
    json!({
        "whitespace_flexible": false,
        "item_separator": ", ",
        "key_separator": ": ",
        "lenient": true,
        "coerce_one_of": true,
    })
}

struct Guide<'a> {
    root: &'a Value,
    detail: Detail,
    /// What references point at, by reference: names that need no escaping.
    names: HashMap<&'a str, String>,
    /// References that were named, and whose targets are yet to be made.
    waiting: VecDeque<&'a str>,
    /// Whether schemas are intersected anywhere, so that none may be narrowed on its own.
    combines: bool,
}

impl<'a> Guide<'a> {
    /// `branch` is one of several that a property-bearing schema combines with itself.
    fn subschema(&mut self, schema: &'a Value, branch: bool) -> Value {
        let Value::Object(keywords) = schema else { return schema.clone() };
        let mut guided = Map::new();
        let detail = self.detail;
        for (keyword, value) in keywords.iter().filter(|(keyword, _)| detail.keeps(keyword)) {
            let value = match keyword.as_str() {
                "properties" | "patternProperties" => self.each_value(value),
                "anyOf" | "oneOf" => self.each_item(value, keywords.contains_key("properties")),
                "allOf" => self.each_item(value, true),
                "items" | "additionalProperties" | "prefixItems" if value.is_array() => {
                    self.each_item(value, false)
                }
                "items" | "additionalProperties" | "additionalItems" => self.subschema(value, false),
                "$ref" => self.reference(value),
                "const" | "enum" if numbers::are_inexact(value) => {
                    guided.entry("type").or_insert_with(|| numbers::types(value, keyword == "enum"));
                    continue;
                }
                "format" => {
                    narrowed(value, &mut guided);
                    continue;
                }
                _ => value.clone(),
            };
            guided.insert(keyword.clone(), value);
        }
        numbers::bounded(&mut guided);
        if !branch && !self.combines && detail.keeps("properties") && is_closed_by_intent(keywords) {
            guided.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        Value::Object(guided)
    }

    fn each_value(&mut self, schemas: &'a Value) -> Value {
        let Value::Object(schemas) = schemas else { return schemas.clone() };
        let guided = schemas.iter().map(|(name, schema)| (name.clone(), self.subschema(schema, false)));
        Value::Object(guided.collect())
    }

    fn each_item(&mut self, schemas: &'a Value, branches: bool) -> Value {
        let Value::Array(schemas) = schemas else { return schemas.clone() };
        Value::Array(schemas.iter().map(|schema| self.subschema(schema, branches)).collect())
    }

    fn reference(&mut self, reference: &'a Value) -> Value {
        let key = reference.as_str().unwrap_or_default();
        let next = self.names.len();
        let name = self.names.entry(key).or_insert_with(|| {
            self.waiting.push_back(key);
            format!("d{next}")
        });
        Value::String(format!("#/$defs/{name}"))
    }

    /// What references point at. One after the other, the nearest first: a chain of them is as long as its author likes.
    fn definitions(&mut self) -> Map<String, Value> {
        let mut definitions = Map::new();
        let mut depth = 0;
        while let Some(key) = self.waiting.pop_front() {
            let target = if depth < DEEPEST { resolve(self.root, key) } else { None };
            let guided = target.map_or(Value::Bool(true), |target| self.subschema(target, false));
            depth += height(&guided);
            definitions.insert(format!("d{}", definitions.len()), guided);
        }
        definitions
    }
}

fn height(value: &Value) -> usize {
    match value {
        Value::Object(object) => 1 + object.values().map(height).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(height).max().unwrap_or_default(),
        _ => 1,
    }
}

/// Whether an object means to have the properties that it lists and no others, which few schemas spell out.
fn is_closed_by_intent(keywords: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = keywords.get("properties") else { return false };
    let required = keywords.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| properties.contains_key(name))
        && !keywords.contains_key("additionalProperties")
        && !OPENERS.iter().any(|opener| keywords.contains_key(*opener))
}

/// Follows a reference within the document: a JSON pointer, percent-encoded, or an anchor.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().ok()?;
    match fragment.is_empty() || fragment.starts_with('/') {
        true => root.pointer(&fragment),
        false => anchored(root, &fragment),
    }
}

fn anchored<'a>(schema: &'a Value, anchor: &str) -> Option<&'a Value> {
    match schema {
        Value::Object(object) => {
            let is_it = |key| object.get(key).and_then(Value::as_str) == Some(anchor);
            match is_it("$anchor") || is_it("$dynamicAnchor") {
                true => Some(schema),
                false => object.values().find_map(|value| anchored(value, anchor)),
            }
        }
        Value::Array(items) => items.iter().find_map(|item| anchored(item, anchor)),
        _ => None,
    }
}

fn mentions(schema: &Value, keyword: &str) -> bool {
    match schema {
        Value::Object(object) => {
            object.contains_key(keyword) || object.values().any(|value| mentions(value, keyword))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, keyword)),
        _ => false,
    }
}
