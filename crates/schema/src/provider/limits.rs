//! How large a strict schema may be.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::change::SchemaChange;

/// How many properties all objects may have together.
const PROPERTIES: usize = 5_000;

/// How many objects and arrays may be inside each other, the root included.
const LEVELS: usize = 10;

/// How many values all enums may have together.
const ENUM_VALUES: usize = 1_000;

/// How many characters the names of properties and definitions and the values of enums and constants may have.
const CHARACTERS: usize = 120_000;

/// From how many values on an enum of strings may have only [`LARGE_ENUM_CHARACTERS`].
const LARGE_ENUM: usize = 250;

/// How many characters the values of a [`LARGE_ENUM`] may have.
const LARGE_ENUM_CHARACTERS: usize = 15_000;

/// Refuses a strict schema that is too large to be taken.
pub(super) fn check(root: &Value) -> Result<(), SchemaChange> {
    let mut size = Size::default();
    size.add(root);
    let exceeded = |keyword, limit, what| {
        Err(SchemaChange::not_strict("", keyword, format!("there are more than {limit} {what}")))
    };
    if size.properties > PROPERTIES {
        return exceeded("properties", PROPERTIES, "properties");
    }
    if size.enum_values > ENUM_VALUES {
        return exceeded("enum", ENUM_VALUES, "values of enums");
    }
    if size.characters > CHARACTERS {
        return exceeded("properties", CHARACTERS, "characters of names and values");
    }
    if size.has_long_enum {
        return exceeded("enum", LARGE_ENUM_CHARACTERS, "characters in one enum");
    }
    let mut depth = Depth { root, known: HashMap::new() };
    if depth.of(root) > LEVELS {
        return exceeded("properties", LEVELS, "levels of objects and arrays");
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
            let characters: usize = values.iter().map(characters).sum();
            self.enum_values += values.len();
            self.characters += characters;
            self.has_long_enum |= values.len() > LARGE_ENUM && characters > LARGE_ENUM_CHARACTERS;
        }
        self.characters += schema.get("const").map_or(0, characters);
        children(schema)
            .chain(definitions.into_iter().flat_map(Map::values))
            .for_each(|child| self.add(child));
    }
}

/// How deep values are nested by a schema. Where it refers to itself, one round is counted.
struct Depth<'s> {
    root: &'s Value,
    /// By the names of definitions. Of one that is still open it is nothing.
    known: HashMap<&'s str, usize>,
}

impl<'s> Depth<'s> {
    fn of(&mut self, schema: &'s Value) -> usize {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.behind(name);
        }
        let is_level = schema.get("properties").is_some() || schema.get("items").is_some();
        children(schema).map(|child| self.of(child)).max().unwrap_or(0) + usize::from(is_level)
    }

    fn behind(&mut self, reference: &'s str) -> usize {
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

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// The subschemas of a strict schema, without its definitions.
fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let properties = members(schema, "properties").into_iter().flat_map(Map::values);
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    properties.chain(alternatives.into_iter().flatten()).chain(schema.get("items"))
}

fn members<'s>(schema: &'s Value, keyword: &str) -> Option<&'s Map<String, Value>> {
    schema.get(keyword).and_then(Value::as_object)
}
