//! [`SchemaTranslator`]: schemas of a document as self-contained JSON Schema 2020-12.

mod dialect;
mod discriminator;
mod values;

use std::collections::{BTreeSet, HashMap, VecDeque};

use haft_core::text::{truncate, without_hidden_chars};
use serde_json::{Map, Value, json};

use self::discriminator::{Discriminator, Tag, find_property};
use crate::document::{Dialect, Document, count_values};

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
    /// The names in `$defs`, by the [keys](Component::key) of the components.
    names: HashMap<String, String>,
    taken: BTreeSet<String>,
    /// The components that are not translated yet.
    queue: VecDeque<(String, Component<'d>)>,
    /// The JSON pointer of the component that is translated. `None` for a schema of the operation.
    owner: Option<String>,
    nodes: usize,
}

/// The target of a reference, in one of its forms.
struct Component<'d> {
    pointer: String,
    target: &'d Value,
    form: Form,
}

/// The meaning of a reference. Each form of a target is a definition of its own.
enum Form {
    /// Any value of the schema. A supertype stands for its subtypes.
    Whole,
    /// The part of a supertype that its subtypes have in their `allOf`.
    Base,
    /// An alternative that a discriminator selects.
    Tagged(Tag),
}

impl<'d> SchemaTranslator<'d> {
    pub(crate) fn new(document: &'d Document, direction: Direction) -> Self {
        let (names, taken, queue) = Default::default();
        Self { document, direction, names, taken, queue, owner: None, nodes: 0 }
    }

    /// Translates `schema`.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault if `schema` is nested too deep, is too large, or has a
    /// reference that cannot be resolved.
    pub(crate) fn translate(&mut self, schema: &Value) -> Result<Value, String> {
        self.owner = None;
        self.schema(schema, 0)
    }

    /// Translates `schema`, or the target of its `$ref`, so that the result has no `$ref` at its
    /// root.
    ///
    /// # Errors
    ///
    /// Fails for the reasons of [`translate`](Self::translate).
    pub(crate) fn translate_target(&mut self, schema: &Value) -> Result<Value, String> {
        match schema.get("$ref").and_then(Value::as_str) {
            None => self.translate(schema),
            Some(reference) => {
                let (pointer, target) = self.document.follow(reference)?;
                self.component(Component { pointer, target, form: Form::Whole })
            }
        }
    }

    /// Translates the targets of all references, and returns them as `$defs`.
    pub(crate) fn into_definitions(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        while let Some((name, component)) = self.queue.pop_front() {
            let schema = self.component(component)?;
            definitions.insert(name, schema);
        }
        Ok(definitions)
    }

    fn component(&mut self, component: Component<'d>) -> Result<Value, String> {
        let Component { pointer, target, form } = component;
        self.owner = Some(pointer.clone());
        match (form, target) {
            (Form::Whole, Value::Object(keywords))
                if self.document.is_supertype(&pointer, target) && !has_alternatives(keywords) =>
            {
                self.supertype(&pointer, target, keywords)
            }
            (Form::Base, Value::Object(keywords)) if has_alternatives(keywords) => {
                self.count(1)?;
                let others = keywords.iter().filter(|(key, _)| !matches!(&***key, "anyOf" | "oneOf"));
                Ok(Value::Object(self.selected_keywords(others, keywords, 0)?))
            }
            (Form::Whole | Form::Base, _) => self.schema(target, 0),
            (Form::Tagged(tag), _) => {
                let mut schema = self.schema(target, 0)?;
                if let Value::Object(keywords) = &mut schema {
                    tag.add_to(keywords);
                }
                Ok(schema)
            }
        }
    }

    /// Translates a schema with a discriminator that named schemas extend. It stands for those, and
    /// for itself unless the discriminator has a mapping without it.
    fn supertype(
        &mut self,
        pointer: &str,
        target: &'d Value,
        keywords: &Map<String, Value>,
    ) -> Result<Value, String> {
        let document: &'d Document = self.document;
        self.count(1)?;
        let Some(discriminator) = Discriminator::parse(document, keywords) else {
            return self.schema(target, 0);
        };
        let is_own_value = !discriminator.has_mapping() || discriminator.is_mapped(pointer);
        let own = is_own_value.then_some(pointer);
        let mut alternatives = Vec::new();
        for pointer in own.into_iter().chain(document.subtypes(pointer)) {
            let (pointer, target) = document.target(&fragment(pointer))?;
            let declared = find_property(document, target, discriminator.property, 0);
            match declared.and_then(|declared| self.tag(&discriminator, &pointer, target, declared)) {
                Some(tag) => alternatives.push(Component { pointer, target, form: Form::Tagged(tag) }),
                // The values of the property exclude the parent itself: it is abstract.
                None if own == Some(&*pointer) => {}
                // Without a value for each subtype, none can be selected.
                None => return self.schema(target, 0),
            }
        }
        let is_note = |key: &str| matches!(key, "title" | "description" | "deprecated" | "type");
        let notes = keywords.iter().filter(|(key, _)| is_note(key));
        let mut translated = self.each_keyword(notes, keywords, 0)?;
        let alternatives: Vec<_> =
            alternatives.into_iter().map(|it| json!({ "$ref": self.define(it) })).collect();
        translated.insert("anyOf".to_owned(), alternatives.into());
        Ok(Value::Object(dialect::with_nullable(translated, keywords)))
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
        let (pointer, target) = self.document.target(reference)?;
        self.reference_to(Component { pointer, target, form: Form::Whole }, keywords, depth)
    }

    /// Returns a reference to `component` with the keywords beside it.
    fn reference_to(
        &mut self,
        component: Component<'d>,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let reference = self.define(component);
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
        let mut translated = Map::from_iter([("$ref".to_owned(), reference.into())]);
        translated.extend(beside);
        Ok(dialect::with_nullable(translated, keywords))
    }

    fn keywords(
        &mut self,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        self.selected_keywords(keywords.iter(), keywords, depth)
    }

    /// Translates `selected`, some of the `keywords` of a schema, and the keywords of OpenAPI 3.0.
    fn selected_keywords<'s>(
        &mut self,
        selected: impl Iterator<Item = (&'s String, &'s Value)>,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let translated = self.each_keyword(selected, keywords, depth)?;
        let translated = dialect::with_exclusive_bounds(translated, keywords);
        let translated = dialect::with_examples(translated, keywords);
        let translated = dialect::with_default_alternative(translated, keywords);
        let translated = dialect::with_tuple(translated);
        let translated = dialect::with_null_in_enum(translated);
        if self.permits_null_twice(keywords) && translated.contains_key("oneOf") {
            return Ok(dialect::or_null(translated));
        }
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
            // Some generators write null for an absent keyword.
            (_, Value::Null) if !matches!(key, "const" | "default" | "type") => None,
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
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) if schemas.is_empty() => {
                None
            }
            ("allOf", Value::Array(members)) => Some(self.members(members, depth)?),
            ("anyOf" | "oneOf", Value::Array(schemas)) => Some(self.alternatives(schemas, keywords, depth)?),
            ("prefixItems" | "items", Value::Array(schemas)) => {
                let schemas: Result<Vec<_>, _> =
                    schemas.iter().map(|it| self.schema(it, depth + 1)).collect();
                Some(schemas?.into())
            }
            (
                "items"
                | "additionalItems"
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
            // In YAML, a title such as `1.0` is a number.
            ("title" | "description", Value::Number(_) | Value::Bool(_)) => Some(value.to_string().into()),
            ("title" | "description", _) => None,
            ("deprecated" | "writeOnly", other) if !other.is_boolean() => None,
            ("type", _) => values::types(value).filter(|_| !(value.is_null() && keywords.len() > 1)),
            ("enum", Value::Array(permitted)) => {
                self.count(count_values(value))?;
                let permitted = values::unique_values(permitted.iter().cloned());
                // No value is in an empty list. The author means another thing.
                (!permitted.is_empty()).then(|| permitted.into())
            }
            ("dependentRequired", Value::Object(names)) => {
                self.count(count_values(value))?;
                Some(names.iter().map(|(name, required)| (name.clone(), unique_names(required))).collect())
            }
            _ => {
                self.count(count_values(value))?;
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
        let kept = names.iter().filter(|name| name.is_string()).filter(is_kept).cloned();
        let kept = values::unique_values(kept);
        (!kept.is_empty()).then(|| kept.into())
    }

    /// Returns `true` if `schema`, the target of its `$ref` or a member of its `allOf` sets `flag`.
    fn is_flagged(&self, schema: &Value, flag: &str, depth: usize) -> bool {
        if depth > MAX_FLAG_DEPTH || self.document.spend(1).is_err() {
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

    /// Translates the `members` of an `allOf`. In a subtype, a supertype stands for its own
    /// keywords and not for its subtypes.
    fn members(&mut self, members: &[Value], depth: usize) -> Result<Value, String> {
        let mut translated = Vec::new();
        for member in members {
            let reference = member.get("$ref").and_then(Value::as_str);
            let target = reference.map(|reference| self.document.target(reference)).transpose()?;
            let owner = self.owner.as_deref().filter(|_| depth == 0);
            let is_base = |(pointer, target): &(String, &'d Value)| {
                self.document.is_supertype(pointer, target)
                    && owner.is_some_and(|owner| self.document.extends(owner, pointer))
            };
            translated.push(match (target.filter(is_base), member) {
                (Some((pointer, target)), Value::Object(keywords)) => {
                    self.count(1)?;
                    let base = Component { pointer, target, form: Form::Base };
                    Value::Object(self.reference_to(base, keywords, depth + 1)?)
                }
                _ => self.schema(member, depth + 1)?,
            });
        }
        Ok(translated.into())
    }

    /// Translates `schemas`, the `anyOf` or `oneOf` of the schema `keywords`. With a discriminator,
    /// each alternative has the values of the property that select it.
    fn alternatives(
        &mut self,
        schemas: &[Value],
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        let tagged = self.tagged(schemas, keywords);
        let mut translated = Vec::new();
        for (index, schema) in schemas.iter().enumerate() {
            let tagged = tagged.get(index).and_then(Option::as_ref);
            translated.push(match (tagged, schema) {
                (Some((pointer, tag)), Value::Object(keywords)) => {
                    self.count(1)?;
                    let (pointer, target) = self.document.target(&fragment(pointer))?;
                    let component = Component { pointer, target, form: Form::Tagged(tag.clone()) };
                    let beside = keywords.iter().filter(|(key, _)| *key != "allOf");
                    let beside = beside.map(|(key, value)| (key.clone(), value.clone())).collect();
                    Value::Object(self.reference_to(component, &beside, depth + 1)?)
                }
                _ if dialect::is_only_null(schema) => json!({"type": "null"}),
                _ => self.schema(schema, depth + 1)?,
            });
        }
        Ok(translated.into())
    }

    /// Returns the JSON pointers and the tags of `schemas`, alternatives of the schema `keywords`.
    /// Empty if no discriminator can select one of them.
    fn tagged(&self, schemas: &[Value], keywords: &Map<String, Value>) -> Vec<Option<(String, Tag)>> {
        let document = self.document;
        let Some(discriminator) = Discriminator::parse(document, keywords) else { return Vec::new() };
        let beside = keywords.get("properties").and_then(|it| it.get(discriminator.property));
        let mut tagged = Vec::new();
        for schema in schemas {
            let reference = only_reference(schema);
            let Some(found) =
                reference.and_then(|it| Some((document.target(it).ok()?.0, document.follow(it).ok()?)))
            else {
                tagged.push(None);
                continue;
            };
            let (named, (pointer, target)) = found;
            let is_object = match target.get("type") {
                Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
                Some(only) => only == "object",
                None => true,
            };
            let nested = target.as_object().and_then(|it| Discriminator::parse(document, it));
            let is_union =
                target.as_object().is_some_and(has_alternatives) || document.is_supertype(&pointer, target);
            let is_nested = is_union && nested.is_some_and(|it| it.property == discriminator.property);
            // The alternatives of a nested union have values of their own.
            if !is_object || is_nested || discriminator.is_default(&named) {
                tagged.push(None);
                continue;
            }
            let Some(declared) = find_property(document, target, discriminator.property, 0).or(beside) else {
                return Vec::new();
            };
            // The mapping may have the reference of the alternative, or the reference behind it.
            let name = if discriminator.is_mapped(&pointer) { &pointer } else { &named };
            let tag = self.tag(&discriminator, name, target, declared);
            tagged.push(tag.map(|tag| (pointer.clone(), tag)));
        }
        tagged
    }

    /// Returns the tag of the schema `target` at `pointer`. `declared` is the schema of the
    /// property.
    fn tag(
        &self,
        discriminator: &Discriminator<'_>,
        pointer: &str,
        target: &Value,
        declared: &Value,
    ) -> Option<Tag> {
        let is_request = self.direction == Direction::Request;
        if is_request && self.is_flagged(declared, "readOnly", 0) {
            return None;
        }
        let values = discriminator.values(self.document, pointer, target, declared)?;
        Some(Tag { property: discriminator.property.to_owned(), values, is_required: is_request })
    }

    /// Returns `true` if two alternatives of `oneOf` permit null, which then matches neither alone.
    fn permits_null_twice(&self, keywords: &Map<String, Value>) -> bool {
        let alternatives = keywords.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        alternatives.filter(|it| dialect::permits_null(self.document, it, 0)).nth(1).is_some()
    }

    /// Returns a reference to the definition of `component`, which is translated later.
    fn define(&mut self, component: Component<'d>) -> String {
        let key = component.key();
        if let Some(name) = self.names.get(&key) {
            return format!("#/$defs/{name}");
        }
        let last = component.pointer.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base: String = last.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let base = truncate(&base, 100);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let mut candidates = std::iter::once(base.to_owned()).chain(numbered);
        let name = candidates.find(|name| !name.is_empty() && !self.taken.contains(name));
        let name = name.unwrap_or_else(|| component.pointer.clone());
        self.taken.insert(name.clone());
        self.names.insert(key, name.clone());
        self.queue.push_back((name.clone(), component));
        format!("#/$defs/{name}")
    }

    fn count(&mut self, nodes: usize) -> Result<(), String> {
        self.document.spend(nodes)?;
        self.nodes += nodes;
        match self.nodes > MAX_NODES {
            true => Err(format!("the schemas of the operation have more than {MAX_NODES} values")),
            false => Ok(()),
        }
    }
}

impl Component<'_> {
    /// Returns a text that is the same for equal components.
    fn key(&self) -> String {
        match &self.form {
            Form::Whole => self.pointer.clone(),
            Form::Base => format!("{}\nbase", self.pointer),
            Form::Tagged(tag) => format!("{}\n{tag:?}", self.pointer),
        }
    }
}

fn has_alternatives(keywords: &Map<String, Value>) -> bool {
    ["anyOf", "oneOf"].iter().any(|key| keywords.get(*key).is_some_and(Value::is_array))
}

/// Returns the reference of `schema`, also of an `allOf` around one reference. OpenAPI 3.0
/// documents have it for the keywords beside a reference.
fn only_reference(schema: &Value) -> Option<&str> {
    let is_note = |key: &str| matches!(key, "allOf" | "title" | "description");
    let only = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) if schema.as_object()?.keys().all(|key| is_note(key)) => only,
        _ => schema,
    };
    only.get("$ref")?.as_str()
}

/// Returns the reference to `pointer`.
fn fragment(pointer: &str) -> String {
    format!("#{}", pointer.replace('%', "%25"))
}

/// Returns the strings in the list `names`, each once.
fn unique_names(names: &Value) -> Value {
    let names = names.as_array().into_iter().flatten().filter(|name| name.is_string()).cloned();
    values::unique_values(names).into()
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

#[cfg(test)]
mod tests;
