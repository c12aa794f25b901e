//! [`SchemaTranslator`]: schemas of a document as self-contained JSON Schema 2020-12.

mod dialect;

use std::collections::{BTreeSet, HashMap, VecDeque};

use haft_core::text::{truncate, without_hidden_chars};
use serde_json::{Map, Value, json};

use crate::document::{Dialect, Document};

/// The maximum number of JSON values in the schemas of an operation. It is the default limit of
/// [`SchemaLimits::nodes`](haft_core::schema::SchemaLimits::nodes).
const MAX_NODES: usize = 10_000;
/// The maximum nesting of a schema.
const MAX_DEPTH: usize = 64;
/// The maximum number of references that are followed to find out if a property is read-only.
const MAX_FLAG_DEPTH: usize = 8;

/// The direction in which values of a schema are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Arguments. Properties with `readOnly` are omitted.
    Request,
    /// Results. Properties with `writeOnly` are not required.
    Response,
}

/// Translates schemas of one operation. References become references into `$defs`.
pub(crate) struct SchemaTranslator<'d> {
    document: &'d Document,
    direction: Direction,
    /// The names in `$defs`, by the JSON pointers of the targets.
    names: HashMap<String, String>,
    taken: BTreeSet<String>,
    /// The targets that are not translated yet.
    queue: VecDeque<(String, &'d Value)>,
    nodes: usize,
}

impl<'d> SchemaTranslator<'d> {
    pub(crate) fn new(document: &'d Document, direction: Direction) -> Self {
        let (names, taken, queue) = Default::default();
        Self { document, direction, names, taken, queue, nodes: 0 }
    }

    /// Translates `schema`.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault if `schema` is nested too deep, is too large, or has a
    /// reference that cannot be resolved.
    pub(crate) fn translate(&mut self, schema: &Value) -> Result<Value, String> {
        self.schema(schema, 0)
    }

    /// Translates the targets of all references, and returns them as `$defs`.
    pub(crate) fn into_definitions(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        while let Some((name, target)) = self.queue.pop_front() {
            let schema = self.schema(target, 0)?;
            definitions.insert(name, schema);
        }
        Ok(definitions)
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("a schema is nested more than {MAX_DEPTH} levels deep"));
        }
        self.count(1)?;
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            // Some generators write null for a schema without assertions.
            Value::Null => return Ok(Value::Bool(true)),
            other => return Ok(other.clone()),
        };
        let translated = match keywords.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference, keywords, depth)?,
            None => self.keywords(keywords, depth)?,
        };
        Ok(Value::Object(translated))
    }

    /// Translates a schema with a `$ref`. OpenAPI 3.0 ignores the keywords beside it (section
    /// 4.7.23). Annotations and `nullable` are kept, because many documents rely on them.
    fn reference(
        &mut self,
        reference: &str,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let name = self.define(reference)?;
        let beside = match self.document.dialect {
            Dialect::JsonSchema => {
                let others = keywords.iter().filter(|(key, _)| *key != "$ref");
                self.each_keyword(others, keywords, depth)?
            }
            Dialect::OpenApi30 => {
                let is_kept = |key: &str| matches!(key, "title" | "description" | "deprecated" | "default");
                let annotations = keywords.iter().filter(|(key, _)| is_kept(key));
                self.each_keyword(annotations, keywords, depth)?
            }
        };
        let mut translated = Map::from_iter([("$ref".to_owned(), format!("#/$defs/{name}").into())]);
        translated.extend(beside);
        Ok(dialect::with_nullable(translated, keywords))
    }

    fn keywords(
        &mut self,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let translated = self.each_keyword(keywords.iter(), keywords, depth)?;
        let translated = dialect::with_exclusive_bounds(translated, keywords);
        let translated = dialect::with_examples(translated, keywords);
        Ok(dialect::with_nullable(translated, keywords))
    }

    /// Translates `selected`, some of the `keywords` of a schema.
    fn each_keyword<'s>(
        &mut self,
        selected: impl Iterator<Item = (&'s String, &'s Value)>,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let mut translated = Map::new();
        for (key, value) in selected {
            if let Some(value) = self.keyword(key, value, keywords, depth)? {
                translated.insert(key.clone(), value);
            }
        }
        Ok(translated)
    }

    /// Translates the keyword `key` with `value`. Returns `None` for a keyword that is dropped.
    fn keyword(
        &mut self,
        key: &str,
        value: &Value,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Value>, String> {
        Ok(match (key, value) {
            _ if dialect::is_dropped(key) => None,
            ("properties", Value::Object(properties)) => {
                let is_kept = |schema: &Value| {
                    self.direction == Direction::Response || !self.is_flagged(schema, "readOnly", 0)
                };
                let kept: Vec<_> = properties.iter().filter(|(_, schema)| is_kept(schema)).collect();
                Some(self.schemas(kept.into_iter(), depth)?)
            }
            ("patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                Some(self.schemas(schemas.iter(), depth)?)
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                let schemas: Result<Vec<_>, _> =
                    schemas.iter().map(|it| self.schema(it, depth + 1)).collect();
                Some(schemas?.into())
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contentSchema",
                Value::Object(_) | Value::Bool(_),
            ) => Some(self.schema(value, depth + 1)?),
            ("required", Value::Array(names)) => self.required(names, keywords),
            // Swagger 1.2 and many documents write `required: true` inside of a property.
            ("required", _) => None,
            ("title" | "description", Value::String(text)) => Some(without_hidden_chars(text).into()),
            ("type", Value::String(name)) if name == "file" => Some("string".into()),
            _ => {
                self.count(count_nodes(value))?;
                Some(value.clone())
            }
        })
    }

    fn schemas<'s>(
        &mut self,
        schemas: impl Iterator<Item = (&'s String, &'s Value)>,
        depth: usize,
    ) -> Result<Value, String> {
        let mut translated = Map::new();
        for (name, schema) in schemas {
            translated.insert(name.clone(), self.schema(schema, depth + 1)?);
        }
        Ok(Value::Object(translated))
    }

    /// Returns the required names without those of properties that are sent in the other direction
    /// only. `None` if no name is left.
    fn required(&self, names: &[Value], keywords: &Map<String, Value>) -> Option<Value> {
        let flag = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        let properties = keywords.get("properties");
        let is_kept = |name: &&Value| {
            let schema = name.as_str().and_then(|name| properties?.get(name));
            schema.is_none_or(|schema| !self.is_flagged(schema, flag, 0))
        };
        let kept: Vec<_> = names.iter().filter(is_kept).cloned().collect();
        (!kept.is_empty()).then(|| kept.into())
    }

    /// Returns `true` if `schema`, the target of its `$ref` or a member of its `allOf` sets `flag`.
    fn is_flagged(&self, schema: &Value, flag: &str, depth: usize) -> bool {
        if depth > MAX_FLAG_DEPTH {
            return false;
        }
        if schema.get(flag) == Some(&Value::Bool(true)) {
            return true;
        }
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| self.document.target(it).ok());
        let members = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let nested = target.map(|(_, target)| target).into_iter().chain(members);
        nested.into_iter().any(|it| self.is_flagged(it, flag, depth + 1))
    }

    /// Returns the name in `$defs` for the target of `reference`.
    fn define(&mut self, reference: &str) -> Result<String, String> {
        let document: &'d Document = self.document;
        let (pointer, target) = document.target(reference)?;
        if let Some(name) = self.names.get(&pointer) {
            return Ok(name.clone());
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base: String = last.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let base = truncate(&base, 100);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let mut candidates = std::iter::once(base.to_owned()).chain(numbered);
        let name = candidates.find(|name| !name.is_empty() && !self.taken.contains(name));
        let name = name.unwrap_or_else(|| pointer.clone());
        self.taken.insert(name.clone());
        self.names.insert(pointer, name.clone());
        self.queue.push_back((name.clone(), target));
        Ok(name)
    }

    fn count(&mut self, nodes: usize) -> Result<(), String> {
        self.nodes += nodes;
        match self.nodes > MAX_NODES {
            true => Err(format!("the schemas of the operation have more than {MAX_NODES} values")),
            false => Ok(()),
        }
    }
}

/// Adds `definitions` to `schema` as `$defs`, unless there are none.
pub(crate) fn with_definitions(mut schema: Value, definitions: Map<String, Value>) -> Value {
    if definitions.is_empty() {
        return schema;
    }
    match &mut schema {
        Value::Object(keywords) => drop(keywords.insert("$defs".to_owned(), definitions.into())),
        // The schemas `true` and `false` have no references.
        _ => schema = json!({ "allOf": [schema], "$defs": definitions }),
    }
    schema
}

/// Returns the number of JSON values in `value`, including `value`.
fn count_nodes(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(count_nodes).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(count_nodes).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
