//! Adjustments of a schema below its root, so that servers with an own reader of schemas accept it.
//!
//! - Every array has `items`. OpenAI rejects a request with an array without `items`, also without
//!   strict mode.
//! - A property or alternative is never a boolean. Servers in Go, such as Ollama, read it into a
//!   struct.
//! - Moonshot's subset has the `type` in the alternatives of `anyOf`, and not beside `anyOf`. It
//!   has no `oneOf`, no list of types, and no keywords beside `$ref`.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::super::json_type;
use super::super::reference::join_pointer;
use super::change::{SchemaChange, SchemaChangeKind};
use super::flatten::is_assertion;
use super::inliner::any_value;
use super::json_types::constrained_type;

/// Keywords whose value is a schema.
pub(super) const SINGLE: [&str; 12] = [
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Keywords whose value is an object of schemas.
pub(super) const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a list of schemas.
pub(super) const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords that all servers accept with a boolean.
const BOOLEAN: [&str; 4] =
    ["additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems"];

/// The subset of JSON Schema below the root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subset {
    /// All of JSON Schema in a form that the readers of all servers accept.
    Any,
    /// Moonshot's subset.
    Moonshot,
}

/// Adjusts `root` for `subset`, and appends the changes to `changes`.
pub(super) fn adjust(root: &mut Value, subset: Subset, changes: &mut Vec<SchemaChange>) {
    Adjuster { subset, changes }.adjust("", root);
}

struct Adjuster<'c> {
    subset: Subset,
    changes: &'c mut Vec<SchemaChange>,
}

impl Adjuster<'_> {
    fn adjust(&mut self, at: &str, schema: &mut Value) {
        match schema {
            Value::Bool(true) => *schema = json!({}),
            Value::Bool(false) => *schema = json!({"not": {}}),
            Value::Object(keywords) => {
                self.adjust_array(at, keywords);
                self.drop_false(at, keywords);
                self.adjust_subschemas(at, keywords);
                if self.subset == Subset::Moonshot {
                    self.adjust_types(at, keywords);
                }
            }
            _ => {}
        }
    }

    fn adjust_subschemas(&mut self, at: &str, keywords: &mut Map<String, Value>) {
        for (keyword, value) in keywords {
            let name = keyword.as_str();
            let at = join_pointer(at, name);
            match value {
                Value::Array(parts) if LISTS.contains(&name) => {
                    for (index, part) in parts.iter_mut().enumerate() {
                        self.adjust(&format!("{at}/{index}"), part);
                    }
                }
                Value::Object(members) if MAPS.contains(&name) => {
                    for (member, schema) in members {
                        self.adjust(&join_pointer(&at, member), schema);
                    }
                }
                Value::Bool(_) if BOOLEAN.contains(&name) => {}
                value if SINGLE.contains(&name) => self.adjust(&at, value),
                _ => {}
            }
        }
    }

    /// Adds `items` to an array schema. The `items` of a tuple allow the items of each position.
    fn adjust_array(&mut self, at: &str, keywords: &mut Map<String, Value>) {
        let mut tuple = None;
        let mut rest = keywords.get("items").cloned();
        if let Some(Value::Array(parts)) = &rest {
            // The tuple of draft-07. Its other items are in `additionalItems`.
            tuple = Some(("items", parts.clone()));
            rest = keywords.shift_remove("additionalItems");
        } else if let Some(Value::Array(parts)) = keywords.get("prefixItems") {
            tuple = Some(("prefixItems", parts.clone()));
        }
        let is_array = |name: &Value| name == "array";
        let is_typed = match keywords.get("type") {
            Some(Value::Array(names)) => names.iter().any(is_array),
            Some(name) => is_array(name),
            None => false,
        };
        if tuple.is_none() && !(is_typed || rest.as_ref().is_some_and(Value::is_boolean)) {
            return;
        }
        let (keyword, parts) = tuple.unwrap_or(("items", Vec::new()));
        if rest == Some(Value::Bool(false)) {
            let length = json!(parts.len());
            let is_shorter = keywords.get("maxItems").and_then(Value::as_u64) < length.as_u64();
            if !(keywords.contains_key("maxItems") && is_shorter) {
                keywords.insert("maxItems".to_owned(), length);
            }
        }
        if parts.is_empty() {
            let items = rest.filter(Value::is_object).unwrap_or_else(|| json!({}));
            keywords.insert("items".to_owned(), items);
            return;
        }
        self.report_tuple(at, keyword, &parts, rest.as_ref(), keywords);
        let mut each: Vec<Value> = Vec::new();
        for part in parts.iter().chain(rest.as_ref().filter(|it| it.is_object())) {
            if *part != Value::Bool(false) && !each.contains(part) {
                each.push(part.clone());
            }
        }
        let items = if let [only] = each.as_slice() { only.clone() } else { json!({ "anyOf": each }) };
        keywords.insert("items".to_owned(), items);
        match self.subset {
            Subset::Any => drop(keywords.insert("prefixItems".to_owned(), Value::Array(parts))),
            Subset::Moonshot => drop(keywords.shift_remove("prefixItems")),
        }
    }

    /// Reports the loss in the form of a tuple. A tuple of fixed length keeps its meaning beside
    /// `prefixItems`.
    fn report_tuple(
        &mut self,
        at: &str,
        keyword: &str,
        parts: &[Value],
        rest: Option<&Value>,
        keywords: &Map<String, Value>,
    ) {
        let most = keywords.get("maxItems").and_then(Value::as_u64);
        let is_fixed = most.is_some_and(|most| most <= parts.len() as u64);
        let is_uniform = parts.iter().all(|part| Some(part) == parts.first());
        let kind = match rest {
            _ if is_fixed && is_uniform => return,
            _ if self.subset == Subset::Moonshot || keyword == "items" => SchemaChangeKind::AnyOf,
            _ if is_fixed => return,
            Some(Value::Object(_)) => SchemaChangeKind::AnyOf,
            _ => SchemaChangeKind::Narrowed,
        };
        self.changes.push(SchemaChange::new(at, keyword, kind));
    }

    /// Removes alternatives and optional properties that accept no value.
    fn drop_false(&mut self, at: &str, keywords: &mut Map<String, Value>) {
        for union in ["anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = keywords.get_mut(union)
                && parts.iter().any(|part| *part != Value::Bool(false))
            {
                parts.retain(|part| *part != Value::Bool(false));
            }
        }
        let required = keywords.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(Value::Object(properties)) = keywords.get_mut("properties") else { return };
        properties.retain(|name, schema| {
            let is_kept = *schema != Value::Bool(false) || required.iter().any(|it| it == name);
            if !is_kept {
                let at = join_pointer(&join_pointer(at, "properties"), name);
                self.changes.push(SchemaChange::new(&at, "type", SchemaChangeKind::Dropped));
            }
            is_kept
        });
    }

    /// Moves the types of a schema into the alternatives of `anyOf`.
    fn adjust_types(&mut self, at: &str, keywords: &mut Map<String, Value>) {
        if let (Some(alternatives), false) = (keywords.get("oneOf").cloned(), keywords.contains_key("anyOf"))
        {
            keywords.shift_remove("oneOf");
            keywords.insert("anyOf".to_owned(), alternatives);
            self.changes.push(SchemaChange::new(at, "oneOf", SchemaChangeKind::AnyOf));
        } else if keywords.shift_remove("oneOf").is_some() {
            self.changes.push(SchemaChange::new(at, "oneOf", SchemaChangeKind::Dropped));
        }
        if keywords.contains_key("$ref") && keywords.len() > 1 {
            let reference = keywords.shift_remove("$ref");
            if keywords.contains_key("anyOf") {
                self.changes.push(SchemaChange::new(at, "$ref", SchemaChangeKind::Dropped));
            } else {
                keywords.shift_remove("type");
                keywords.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
            }
        }
        split_types(keywords);
        let kind = keywords.get("anyOf").is_some().then(|| keywords.shift_remove("type")).flatten();
        let Some(Value::Array(alternatives)) = keywords.get_mut("anyOf") else { return };
        for alternative in alternatives.iter_mut().filter_map(Value::as_object_mut) {
            add_type(alternative, kind.as_ref());
        }
    }
}

/// Replaces a list of types in `keywords` with an `anyOf` with one alternative per type. Each
/// alternative has all assertions, because an assertion about another type has no effect.
fn split_types(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(names)) = keywords.get("type").cloned() else { return };
    if let [only] = names.as_slice() {
        keywords.insert("type".to_owned(), only.clone());
    } else if !keywords.contains_key("anyOf") {
        let moved: Vec<_> = keywords.keys().filter(|name| is_moved(name)).cloned().collect();
        let moved: Map<_, _> = moved.iter().filter_map(|name| keywords.shift_remove_entry(name)).collect();
        let alternative = |name: &Value| {
            let mut alternative = Map::from_iter([("type".to_owned(), name.clone())]);
            let own = moved.iter().filter(|(keyword, _)| *keyword != "type" && concerns(keyword, name));
            alternative.extend(own.map(|(keyword, value)| (keyword.clone(), value.clone())));
            restrict_constants(&mut alternative, name).then_some(Value::Object(alternative))
        };
        keywords.insert("anyOf".to_owned(), names.iter().filter_map(alternative).collect());
    }
}

/// Keeps the constants in `alternative` that have the type `name`. Returns `false` if the constants
/// exclude this type.
fn restrict_constants(alternative: &mut Map<String, Value>, name: &Value) -> bool {
    let fits = |value: &Value| {
        let kind = json_type(value);
        name == kind || (name == "number" && kind == "integer")
    };
    if let Some(Value::Array(values)) = alternative.get_mut("enum") {
        values.retain(fits);
        if values.is_empty() {
            return false;
        }
        // The type says the same.
        if name == "null" {
            alternative.remove("enum");
        }
    }
    alternative.get("const").is_none_or(fits)
}

fn is_moved(keyword: &str) -> bool {
    is_assertion(keyword) || matches!(keyword, "properties" | "required")
}

/// Returns `true` if `keyword` can apply to values of the type `name`.
fn concerns(keyword: &str, name: &Value) -> bool {
    match (keyword, constrained_type(keyword)) {
        ("enum" | "const", _) => true,
        ("properties" | "required", _) => name == "object",
        (_, Some(kind)) => name == kind || (kind == "number" && name == "integer"),
        _ => true,
    }
}

/// Adds a type to `alternative` unless it has one: `kind`, the type beside the alternatives, or the
/// type of its constants or properties, or all types.
fn add_type(alternative: &mut Map<String, Value>, kind: Option<&Value>) {
    if ["type", "$ref", "anyOf"].iter().any(|keyword| alternative.contains_key(*keyword)) {
        return;
    }
    let values = alternative.get("const").into_iter();
    let values = values.chain(alternative.get("enum").and_then(Value::as_array).into_iter().flatten());
    let mut constants: Vec<_> = values.map(json_type).collect();
    constants.dedup();
    let has = |names: &[&str]| names.iter().any(|name| alternative.contains_key(*name));
    let name = match (kind, constants.as_slice()) {
        (Some(Value::String(name)), _) => name.clone(),
        (_, [only]) => (*only).to_owned(),
        _ if has(&["properties", "required", "additionalProperties"]) => "object".to_owned(),
        _ if has(&["items", "minItems", "maxItems"]) => "array".to_owned(),
        _ if has(&["minLength", "maxLength", "pattern", "format"]) => "string".to_owned(),
        _ if has(&["minimum", "maximum", "multipleOf"]) => "number".to_owned(),
        _ => {
            if let Value::Object(any) = any_value() {
                alternative.extend(any);
            }
            return;
        }
    };
    alternative.insert("type".to_owned(), name.into());
}
