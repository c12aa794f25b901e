//! The schema that steers the model, made from the schema that its reply must fit.
//!
//! The grammar engine knows most of JSON Schema, not all of it. A guide says of a schema what the engine
//! understands, and is often narrower: it asks for no property that is not declared and for no number that cannot
//! be read back. Where it has to be wider, the finished value is checked against the schema itself.

mod formats;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

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
const ANNOTATIONS: [&str; 9] =
    ["$schema", "$id", "$defs", "definitions", "$anchor", "$comment", "default", "examples", "x-guidance"];

const PATTERNS: [&str; 5] = ["pattern", "patternProperties", "format", "multipleOf", "propertyNames"];

/// Keywords whose presence makes it unsafe to rule out what `properties` does not list.
const OPENERS: [&str; 9] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "minProperties",
    "unevaluatedProperties",
];

/// Makes the guide of a schema.
pub(crate) fn guide(schema: &Value, detail: Detail) -> Value {
    let mut guide =
        Guide { root: schema, detail, definitions: BTreeMap::new(), combines: mentions(schema, "allOf") };
    let mut guided = guide.subschema(schema, false);
    if let Value::Object(object) = &mut guided {
        let definitions = guide.definitions.into_values();
        object.insert("$defs".to_owned(), Value::Object(definitions.collect()));
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
    /// What references point at, by reference, under names that need no escaping.
    definitions: BTreeMap<String, (String, Value)>,
    /// Whether schemas are intersected anywhere, so that none may be narrowed on its own.
    combines: bool,
}

impl Guide<'_> {
    /// `branch` is one of several that a property-bearing schema combines with itself.
    fn subschema(&mut self, schema: &Value, branch: bool) -> Value {
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
                "format" => {
                    narrowed(value, &mut guided);
                    continue;
                }
                _ => value.clone(),
            };
            guided.insert(keyword.clone(), value);
        }
        if !branch && !self.combines && detail.keeps("properties") && is_closed_by_intent(keywords) {
            guided.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        Value::Object(guided)
    }

    fn each_value(&mut self, schemas: &Value) -> Value {
        let Value::Object(schemas) = schemas else { return schemas.clone() };
        let guided = schemas.iter().map(|(name, schema)| (name.clone(), self.subschema(schema, false)));
        Value::Object(guided.collect())
    }

    fn each_item(&mut self, schemas: &Value, branches: bool) -> Value {
        let Value::Array(schemas) = schemas else { return schemas.clone() };
        Value::Array(schemas.iter().map(|schema| self.subschema(schema, branches)).collect())
    }

    fn reference(&mut self, reference: &Value) -> Value {
        let key = reference.as_str().unwrap_or_default();
        let name = match self.definitions.get(key) {
            Some((name, _)) => name.clone(),
            None => {
                let name = format!("d{}", self.definitions.len());
                // Entered before it is filled, so that a schema may refer to itself.
                self.definitions.insert(key.to_owned(), (name.clone(), Value::Bool(true)));
                let guided = resolve(self.root, key).map(|target| self.subschema(target, false));
                self.definitions.insert(key.to_owned(), (name.clone(), guided.unwrap_or(Value::Bool(true))));
                name
            }
        };
        Value::String(format!("#/$defs/{name}"))
    }
}

/// Whether an object means to have the properties that it lists and no others, which few schemas spell out.
fn is_closed_by_intent(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("properties")
        && !keywords.contains_key("additionalProperties")
        && !OPENERS.iter().any(|opener| keywords.contains_key(*opener))
}

/// Follows a reference within the document: a JSON pointer, percent-encoded. Anchors are not followed.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
    root.pointer(&pointer)
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
