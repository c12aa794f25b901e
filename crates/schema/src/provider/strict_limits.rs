//! The size limits of OpenAI's strict mode.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::change::SchemaChange;

/// The maximum number of properties in all objects of a schema.
const MAX_PROPERTIES: usize = 5_000;

/// The maximum nesting of objects and arrays, including the root.
const MAX_LEVELS: usize = 10;

/// The maximum number of values in all enums of a schema.
const MAX_ENUM_VALUES: usize = 1_000;

/// The maximum number of characters in all property names, definition names, enum values and
/// constants of a schema.
const MAX_CHARACTERS: usize = 120_000;

/// The number of values above which the limit [`MAX_LARGE_ENUM_CHARACTERS`] applies to an enum.
const LARGE_ENUM_VALUES: usize = 250;

/// The maximum number of characters in all values of an enum with more than [`LARGE_ENUM_VALUES`]
/// values.
const MAX_LARGE_ENUM_CHARACTERS: usize = 15_000;

/// Checks the strict schema `root` against the size limits. Fails with a change that names the
/// first exceeded limit.
pub(super) fn check_limits(root: &Value) -> Result<(), SchemaChange> {
    let mut size = Size::default();
    size.add(root);
    let exceeded = |keyword, limit, what| {
        Err(SchemaChange::not_strict("", keyword, format!("there are more than {limit} {what}")))
    };
    if size.properties > MAX_PROPERTIES {
        return exceeded("properties", MAX_PROPERTIES, "properties");
    }
    if size.enum_values > MAX_ENUM_VALUES {
        return exceeded("enum", MAX_ENUM_VALUES, "values of enums");
    }
    if size.characters > MAX_CHARACTERS {
        return exceeded("properties", MAX_CHARACTERS, "characters of names and values");
    }
    if size.has_long_enum {
        return exceeded("enum", MAX_LARGE_ENUM_CHARACTERS, "characters in one enum");
    }
    let mut depth = Depth { root, known: HashMap::new() };
    if depth.of(root) > MAX_LEVELS {
        return exceeded("properties", MAX_LEVELS, "levels of objects and arrays");
    }
    Ok(())
}

#[derive(Default)]
struct Size {
    properties: usize,
    enum_values: usize,
    characters: usize,
    has_long_enum: bool,
}

impl Size {
    fn add(&mut self, schema: &Value) {
        let properties = members(schema, "properties");
        let definitions = members(schema, "$defs");
        for name in properties.into_iter().chain(definitions).flat_map(Map::keys) {
            self.characters += name.chars().count();
        }
        self.properties += properties.map_or(0, Map::len);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let characters: usize = values.iter().map(character_count).sum();
            self.enum_values += values.len();
            self.characters += characters;
            self.has_long_enum |= values.len() > LARGE_ENUM_VALUES && characters > MAX_LARGE_ENUM_CHARACTERS;
        }
        self.characters += schema.get("const").map_or(0, character_count);
        children(schema)
            .chain(definitions.into_iter().flat_map(Map::values))
            .for_each(|child| self.add(child));
    }
}

/// A computation of the maximum nesting of objects and arrays in a strict schema. A recursive
/// reference is followed once.
struct Depth<'s> {
    root: &'s Value,
    /// The nesting of each definition in `$defs`, by the name of the definition. The value is 0
    /// during its computation, so a recursive reference adds no levels.
    known: HashMap<&'s str, usize>,
}

impl<'s> Depth<'s> {
    fn of(&mut self, schema: &'s Value) -> usize {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.of_definition(name);
        }
        let is_level = schema.get("properties").is_some() || schema.get("items").is_some();
        children(schema).map(|child| self.of(child)).max().unwrap_or(0) + usize::from(is_level)
    }

    fn of_definition(&mut self, reference: &'s str) -> usize {
        let Some(name) = reference.strip_prefix("#/$defs/") else { return 0 };
        if let Some(depth) = self.known.get(name) {
            return *depth;
        }
        let Some(target) = members(self.root, "$defs").and_then(|defs| defs.get(name)) else { return 0 };
        self.known.insert(name, 0);
        let depth = self.of(target);
        self.known.insert(name, depth);
        depth
    }
}

fn character_count(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// Returns the direct subschemas of the strict schema `schema`, except those in `$defs`.
fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let properties = members(schema, "properties").into_iter().flat_map(Map::values);
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    properties.chain(alternatives.into_iter().flatten()).chain(schema.get("items"))
}

fn members<'s>(schema: &'s Value, keyword: &str) -> Option<&'s Map<String, Value>> {
    schema.get(keyword).and_then(Value::as_object)
}
