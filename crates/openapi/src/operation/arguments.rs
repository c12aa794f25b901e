//! The arguments of an operation: one object with the parameters and the body.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::{BodyFormat, Parameter, RequestBody};
use crate::{
    document::Document,
    schema::{Direction, SchemaTranslator, with_definitions},
};

/// The maximum number of nested `allOf` and `$ref` in a body whose properties become arguments.
const MAX_COMPOSITION_DEPTH: usize = 8;
/// The maximum length of the name of an argument, in bytes. Anthropic's API has the same limit.
const MAX_NAME_BYTES: usize = 64;

/// The arguments of an operation, and their places in the request.
pub(crate) struct Arguments {
    /// The schema of the argument object.
    pub(crate) schema: Value,
    /// The parameters with the names of their arguments.
    pub(crate) parameters: Vec<(String, Parameter)>,
    pub(crate) body: Option<(RequestBody, BodyArguments)>,
}

/// The arguments that form the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyArguments {
    /// All arguments that are not parameters are members of the body.
    Members,
    /// The argument of this name is the body.
    Single(String),
}

/// The properties of an object schema without other assertions.
#[derive(Default)]
struct PlainObject {
    properties: Map<String, Value>,
    required: Vec<Value>,
    additional: Option<Value>,
}

impl Arguments {
    /// Combines `parameters` and `body` in one object.
    ///
    /// The properties of an object body are arguments beside the parameters if the body is a plain
    /// object, no property has the name of a parameter, and the body is required or has no required
    /// property. Otherwise the body is one argument, `body`.
    pub(super) fn build(
        document: &Document,
        parameters: Vec<Parameter>,
        body: Option<RequestBody>,
    ) -> Result<Self, String> {
        let mut translator = SchemaTranslator::new(document, Direction::Request);
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let names = argument_names(&parameters);
        let mut root = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        for (name, parameter) in names.iter().zip(&parameters) {
            properties.insert(name.clone(), translator.translate(&parameter.schema)?);
            if parameter.is_required {
                required.push(Value::from(name.as_str()));
            }
        }
        let mut additional = None;
        let body = match body {
            None => None,
            Some(body) => Some(match members(document, &body, &names) {
                Some(object) => {
                    let schema = object.into_schema();
                    let Value::Object(mut members) = translator.translate(&schema)? else {
                        return Err("the body is not an object".to_owned());
                    };
                    properties.extend(take_object(&mut members, "properties"));
                    required.extend(take_array(&mut members, "required"));
                    additional = members.shift_remove("additionalProperties");
                    (body, BodyArguments::Members)
                }
                None => {
                    let name = free_name("body", &names.iter().cloned().collect());
                    let schema = translator.translate(&with_description(&body))?;
                    if body.is_required {
                        required.push(Value::from(name.as_str()));
                    }
                    properties.insert(name.clone(), schema);
                    (body, BodyArguments::Single(name))
                }
            }),
        };
        // An unknown argument would be dropped, unless it is a member of the body.
        if !matches!(body, Some((_, BodyArguments::Members))) {
            additional = Some(Value::Bool(false));
        }
        root.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            root.insert("required".to_owned(), required.into());
        }
        if let Some(additional) = additional {
            root.insert("additionalProperties".to_owned(), additional);
        }
        let schema = with_definitions(Value::Object(root), translator.into_definitions()?);
        Ok(Self { schema, parameters: names.into_iter().zip(parameters).collect(), body })
    }
}

/// Returns the object schema of `body` if its properties become arguments beside the arguments
/// `names`.
fn members(document: &Document, body: &RequestBody, names: &[String]) -> Option<PlainObject> {
    if matches!(body.format, BodyFormat::Text | BodyFormat::Binary) {
        return None;
    }
    let object = plain_object(document, &body.schema, None, 0)?;
    let is_free = !object.properties.keys().any(|name| names.contains(name));
    let is_always_sent = body.is_required || object.required.is_empty();
    (!object.properties.is_empty() && is_free && is_always_sent).then_some(object)
}

/// Returns the properties of `schema`, an object or an `allOf` of objects. `None` if it has other
/// assertions, or stands for its subtypes. `owner` is the JSON pointer of the named schema that has
/// `schema` in its `allOf`.
fn plain_object(
    document: &Document,
    schema: &Value,
    owner: Option<&str>,
    depth: usize,
) -> Option<PlainObject> {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let target = reference.map(|reference| document.follow(reference)).transpose().ok()?;
    let schema = target.as_ref().map_or(schema, |(_, target)| *target);
    let pointer = target.as_ref().map(|(pointer, _)| pointer.as_str());
    let is_base = |pointer| owner.is_some_and(|owner| document.extends(owner, pointer));
    if pointer.is_some_and(|pointer| document.is_supertype(pointer, schema) && !is_base(pointer)) {
        return None;
    }
    let schema = schema.as_object().filter(|_| depth < MAX_COMPOSITION_DEPTH)?;
    document.spend(schema.len()).ok()?;
    let is_object = match schema.get("type") {
        None => schema.contains_key("properties") || schema.contains_key("allOf"),
        Some(name) => name == "object",
    };
    let is_plain = |key: &str| {
        key.starts_with("x-")
            || matches!(
                key,
                "type"
                    | "properties"
                    | "required"
                    | "additionalProperties"
                    | "allOf"
                    | "title"
                    | "description"
                    | "example"
                    | "examples"
                    | "externalDocs"
                    | "xml"
                    | "deprecated"
                    | "discriminator"
                    | "default"
                    | "readOnly"
                    | "writeOnly"
                    | "$schema"
                    | "$comment"
                    | "$id"
            )
    };
    if !is_object || !schema.keys().all(|key| is_plain(key)) {
        return None;
    }
    let list = |key: &str| schema.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut object = PlainObject {
        properties: schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default(),
        required: list("required"),
        additional: schema.get("additionalProperties").cloned(),
    };
    let composed = list("allOf");
    for member in &composed {
        object.merge(plain_object(document, member, pointer, depth + 1)?)?;
    }
    // `additionalProperties` of a member would not permit the properties of the others.
    (composed.is_empty() || object.additional.as_ref().is_none_or(|it| *it == Value::Bool(true)))
        .then_some(object)
}

impl PlainObject {
    /// Adds the properties of `other`. Returns `None` if both objects have a property, or if
    /// `other` restricts additional properties.
    fn merge(&mut self, other: Self) -> Option<()> {
        if other.additional.is_some_and(|it| it != Value::Bool(true)) {
            return None;
        }
        for (name, schema) in other.properties {
            if self.properties.insert(name, schema).is_some() {
                return None;
            }
        }
        self.required.extend(other.required);
        Some(())
    }

    fn into_schema(self) -> Value {
        let Self { properties, mut required, additional } = self;
        let mut seen = BTreeSet::new();
        required.retain(|name| name.as_str().is_some_and(|name| seen.insert(name.to_owned())));
        let mut schema = Map::from_iter([
            ("type".to_owned(), Value::from("object")),
            ("properties".to_owned(), properties.into()),
            ("required".to_owned(), required.into()),
        ]);
        schema.extend(additional.map(|it| ("additionalProperties".to_owned(), it)));
        Value::Object(schema)
    }
}

fn take_object(keywords: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match keywords.shift_remove(key) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn take_array(keywords: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match keywords.shift_remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Returns the schema of the body with the description of the body.
fn with_description(body: &RequestBody) -> Value {
    let mut schema = body.schema.clone();
    let Some(description) = body.description.as_ref().filter(|it| !it.is_empty()) else { return schema };
    if schema == Value::Bool(true) {
        schema = Value::Object(Map::new());
    }
    if let Value::Object(keywords) = &mut schema {
        keywords.entry("description").or_insert_with(|| description.as_str().into());
    }
    schema
}

/// Returns the names of the arguments for `parameters`: unique, and valid for every model API.
///
/// Other characters than letters, digits, `_`, `.` and `-` are replaced. If two locations have a
/// parameter of the same name, the location is appended: `id_path` and `id_query`.
fn argument_names(parameters: &[Parameter]) -> Vec<String> {
    let bases: Vec<_> = parameters.iter().map(|it| base_name(&it.name)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for base in &bases {
        *uses.entry(base).or_default() += 1;
    }
    // Without the names of later parameters, an appended location could take one of them.
    let mut taken: HashSet<String> =
        bases.iter().filter(|base| uses.get(&***base) == Some(&1)).cloned().collect();
    let mut names: Vec<String> = Vec::new();
    for (parameter, base) in parameters.iter().zip(&bases) {
        let name = match uses.get(&**base) {
            Some(1) => base.clone(),
            _ => free_name(&format!("{base}_{}", parameter.location.name()), &taken),
        };
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

fn base_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut mapped = String::new();
    for character in name.chars() {
        match is_allowed(character) {
            true => mapped.push(character),
            false if mapped.is_empty() || mapped.ends_with('_') => {}
            false => mapped.push('_'),
        }
    }
    mapped.truncate(MAX_NAME_BYTES - 12);
    let trimmed =
        if is_allowed(name.chars().last().unwrap_or('_')) { &*mapped } else { mapped.trim_end_matches('_') };
    if trimmed.is_empty() { "parameter".to_owned() } else { trimmed.to_owned() }
}

/// Returns `name`, or `name` with the first number that makes it different from `taken`.
fn free_name(name: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..=taken.len() + 2).map(|number| format!("{name}_{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|it| !taken.contains(it)).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests;
