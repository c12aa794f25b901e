//! Conversion of a JSON Schema to a schema that the grammar engine supports.
//!
//! The grammar engine does not support all of JSON Schema. The derived schema avoids unsupported
//! features, such as some formats and integers above 2^53. It is often narrower than the original
//! schema: for example, it excludes undeclared properties. It can also be wider, so generated
//! values are validated against the original schema.

mod formats;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use self::formats::add_format;

/// The level of detail of a derived schema, which determines its keywords. If the grammar engine
/// rejects the derived schema at one level, a schema is derived at the next, less detailed level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaDetail {
    /// All keywords except [`ANNOTATION_KEYWORDS`]. Some of them may be unknown to the engine,
    /// which ignores them.
    Full,
    /// All keywords except [`ANNOTATION_KEYWORDS`] and [`PATTERN_KEYWORDS`]. A regular expression
    /// may need look-around, which the engine does not support.
    Unpatterned,
    /// Only the keywords for types, properties, items, enumerations, constants, alternatives and
    /// references.
    Outline,
    /// Only the keyword `type` of the root schema.
    Root,
}

impl SchemaDetail {
    /// All levels, from the most to the least detailed.
    pub(crate) const ALL: [Self; 4] = [Self::Full, Self::Unpatterned, Self::Outline, Self::Root];

    fn keeps(self, keyword: &str) -> bool {
        let in_outline =
            ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref"];
        match self {
            Self::Full => !ANNOTATION_KEYWORDS.contains(&keyword),
            Self::Unpatterned => Self::Full.keeps(keyword) && !PATTERN_KEYWORDS.contains(&keyword),
            Self::Outline => in_outline.contains(&keyword),
            Self::Root => keyword == "type",
        }
    }
}

/// Keywords that are not copied to a derived schema. Most of them do not constrain values. Others,
/// such as `x-guidance`, are omitted because the engine would interpret them.
const ANNOTATION_KEYWORDS: [&str; 11] = [
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

/// Keywords that the grammar engine may convert to a regular expression.
const PATTERN_KEYWORDS: [&str; 5] = ["pattern", "patternProperties", "format", "multipleOf", "propertyNames"];

/// The maximum sum of the nesting depths of all definitions. After the sum has reached this limit,
/// each further definition becomes a schema for any value.
///
/// The sum is limited, because the engine resolves definitions recursively and in any order. In the
/// worst case, their depths add up.
const MAX_TOTAL_DEPTH: usize = 1000;

/// Keywords that can allow or require properties outside of `properties`. A schema with one of
/// these keywords does not get `additionalProperties: false`.
const OPEN_OBJECT_KEYWORDS: [&str; 13] = [
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

/// Derives a schema for the grammar engine from `schema`. `detail` determines its keywords.
pub(crate) fn grammar_schema(schema: &Value, detail: SchemaDetail) -> Value {
    let mut builder = GrammarSchemaBuilder {
        root: schema,
        detail,
        names: HashMap::new(),
        pending: VecDeque::new(),
        has_all_of: contains_keyword(schema, "allOf"),
    };
    let mut derived = builder.derive(schema, false);
    if let Value::Object(object) = &mut derived {
        object.insert("$defs".to_owned(), Value::Object(builder.definitions()));
        object.insert("x-guidance".to_owned(), guidance_options());
    }
    derived
}

/// Returns options for the grammar engine. Generated JSON is on one line, with a space after each
/// comma and colon. Unsupported keywords are ignored, and `oneOf` is treated as `anyOf`.
fn guidance_options() -> Value {
    json!({
        "whitespace_flexible": false,
        "item_separator": ", ",
        "key_separator": ": ",
        "lenient": true,
        "coerce_one_of": true,
    })
}

struct GrammarSchemaBuilder<'a> {
    root: &'a Value,
    detail: SchemaDetail,
    /// The names of the definitions in the derived schema, such as `d0`, by their references in the
    /// original schema. New names are necessary because original names may need escaping.
    names: HashMap<&'a str, String>,
    /// The references to definitions that are not derived yet.
    pending: VecDeque<&'a str>,
    /// `true` if `allOf` occurs anywhere in the schema. In this case, no object gets
    /// `additionalProperties: false`, because `allOf` may require further properties.
    has_all_of: bool,
}

impl<'a> GrammarSchemaBuilder<'a> {
    /// Derives a schema from `schema`, a part of the original schema.
    ///
    /// `is_branch` is `true` if the properties of `schema` are combined with those of a parent. The
    /// derived schema then gets no `additionalProperties: false`.
    fn derive(&mut self, schema: &'a Value, is_branch: bool) -> Value {
        let Value::Object(keywords) = schema else { return schema.clone() };
        let mut derived = Map::new();
        let detail = self.detail;
        for (keyword, value) in keywords.iter().filter(|(keyword, _)| detail.keeps(keyword)) {
            let value = match keyword.as_str() {
                "properties" | "patternProperties" => self.derive_values(value),
                "anyOf" | "oneOf" => self.derive_items(value, keywords.contains_key("properties")),
                "allOf" => self.derive_items(value, true),
                "items" | "additionalProperties" | "prefixItems" if value.is_array() => {
                    self.derive_items(value, false)
                }
                "items" | "additionalProperties" | "additionalItems" => self.derive(value, false),
                "$ref" => self.derive_reference(value),
                "const" | "enum" if numbers::contains_inexact_integer(value) => {
                    derived.entry("type").or_insert_with(|| numbers::value_types(value, keyword == "enum"));
                    continue;
                }
                "format" => {
                    add_format(value, &mut derived);
                    continue;
                }
                _ => value.clone(),
            };
            derived.insert(keyword.clone(), value);
        }
        numbers::add_number_bounds(&mut derived);
        if !is_branch && !self.has_all_of && detail.keeps("properties") && is_closed_by_intent(keywords) {
            derived.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        Value::Object(derived)
    }

    fn derive_values(&mut self, schemas: &'a Value) -> Value {
        let Value::Object(schemas) = schemas else { return schemas.clone() };
        let derived = schemas.iter().map(|(name, schema)| (name.clone(), self.derive(schema, false)));
        Value::Object(derived.collect())
    }

    fn derive_items(&mut self, schemas: &'a Value, are_branches: bool) -> Value {
        let Value::Array(schemas) = schemas else { return schemas.clone() };
        Value::Array(schemas.iter().map(|schema| self.derive(schema, are_branches)).collect())
    }

    fn derive_reference(&mut self, reference: &'a Value) -> Value {
        let key = reference.as_str().unwrap_or_default();
        let next = self.names.len();
        let name = self.names.entry(key).or_insert_with(|| {
            self.pending.push_back(key);
            format!("d{next}")
        });
        Value::String(format!("#/$defs/{name}"))
    }

    /// Derives all referenced definitions, in the order of their first references. The function
    /// uses a loop instead of recursion, because a chain of references can be arbitrarily long.
    fn definitions(&mut self) -> Map<String, Value> {
        let mut definitions = Map::new();
        let mut depth = 0;
        while let Some(key) = self.pending.pop_front() {
            let target = if depth < MAX_TOTAL_DEPTH { resolve(self.root, key) } else { None };
            let derived = target.map_or(Value::Bool(true), |target| self.derive(target, false));
            depth += height(&derived);
            definitions.insert(format!("d{}", definitions.len()), derived);
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

/// Returns `true` if the object schema `keywords` most likely describes all properties of its
/// objects. Authors of such schemas often omit `additionalProperties: false`.
fn is_closed_by_intent(keywords: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = keywords.get("properties") else { return false };
    let required = keywords.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| properties.contains_key(name))
        && !keywords.contains_key("additionalProperties")
        && !OPEN_OBJECT_KEYWORDS.iter().any(|opener| keywords.contains_key(*opener))
}

/// Resolves `reference` in the document `root`. The reference must be a URI fragment (`#…`) with a
/// percent-encoded JSON pointer or an anchor. Returns `None` for any other reference, or if the
/// target does not exist.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().ok()?;
    match fragment.is_empty() || fragment.starts_with('/') {
        true => root.pointer(&fragment),
        false => find_anchor(root, &fragment),
    }
}

fn find_anchor<'a>(schema: &'a Value, anchor: &str) -> Option<&'a Value> {
    match schema {
        Value::Object(object) => {
            let has_anchor = |key| object.get(key).and_then(Value::as_str) == Some(anchor);
            match has_anchor("$anchor") || has_anchor("$dynamicAnchor") {
                true => Some(schema),
                false => object.values().find_map(|value| find_anchor(value, anchor)),
            }
        }
        Value::Array(items) => items.iter().find_map(|item| find_anchor(item, anchor)),
        _ => None,
    }
}

fn contains_keyword(schema: &Value, keyword: &str) -> bool {
    match schema {
        Value::Object(object) => {
            object.contains_key(keyword) || object.values().any(|value| contains_keyword(value, keyword))
        }
        Value::Array(items) => items.iter().any(|item| contains_keyword(item, keyword)),
        _ => false,
    }
}
