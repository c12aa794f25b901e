//! Discriminators: the property of an object that names its schema (OpenAPI 3.1.1, section 4.8.25).

use serde_json::{Map, Value, json};

use super::values::{contains, unique_values};
use crate::document::Document;

/// The maximum nesting of the `allOf` in which a property is searched.
const MAX_DEPTH: usize = 8;

/// The discriminator of a schema.
pub(super) struct Discriminator<'s> {
    pub(super) property: &'s str,
    /// The names in the mapping, with the JSON pointers of their schemas.
    mapping: Vec<(&'s str, String)>,
    /// The pointer of the schema of values without a known name (`defaultMapping` of OpenAPI 3.2).
    default: Option<String>,
}

/// The property that selects an alternative, and its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tag {
    pub(super) property: String,
    pub(super) values: Vec<Value>,
    pub(super) is_required: bool,
}

impl<'s> Discriminator<'s> {
    /// Parses the discriminator of the schema `keywords`: an object, or in Swagger 2.0 the name of
    /// the property.
    pub(super) fn parse(document: &Document, keywords: &'s Map<String, Value>) -> Option<Self> {
        let discriminator = keywords.get("discriminator")?;
        let property = discriminator.as_str().or_else(|| discriminator.get("propertyName")?.as_str());
        let mapping = discriminator.get("mapping").and_then(Value::as_object).into_iter().flatten();
        let mapping =
            mapping.filter_map(|(name, target)| Some((&**name, document.mapped_pointer(target.as_str()?)?)));
        let default = discriminator.get("defaultMapping").and_then(Value::as_str);
        Some(Self {
            property: property.filter(|property| !property.is_empty())?,
            mapping: mapping.collect(),
            default: default.and_then(|target| document.mapped_pointer(target)),
        })
    }

    pub(super) fn has_mapping(&self) -> bool {
        !self.mapping.is_empty()
    }

    pub(super) fn is_mapped(&self, pointer: &str) -> bool {
        self.mapping.iter().any(|(_, mapped)| mapped == pointer)
    }

    pub(super) fn is_default(&self, pointer: &str) -> bool {
        self.default.as_deref() == Some(pointer)
    }

    /// Returns the values of the property that select the schema `target` at `pointer`. `None` if
    /// no value is known, or if none is permitted by `declared`, the schema of the property.
    pub(super) fn values(
        &self,
        document: &Document,
        pointer: &str,
        target: &Value,
        declared: &Value,
    ) -> Option<Vec<Value>> {
        let names = self.names(document, pointer, target);
        let declared = document.resolve(declared).ok()?;
        let declared = match declared.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => document.resolve(only).ok()?,
            _ => declared,
        };
        let permitted = match (declared.get("const"), declared.get("enum")) {
            (Some(only), _) => Some(std::slice::from_ref(only)),
            (_, Some(Value::Array(values))) => Some(values.as_slice()),
            _ => None,
        };
        let values = names.iter().filter_map(|name| to_value(name, declared.get("type")));
        let values = unique_values(values.filter(|value| permitted.is_none_or(|it| contains(it, value))));
        (!values.is_empty()).then_some(values)
    }

    /// Returns the names in the mapping, or the name of the schema. Azure's documents have the
    /// names in the schemas.
    fn names(&self, document: &Document, pointer: &str, target: &Value) -> Vec<String> {
        let mapped = self.mapping.iter().filter(|(_, mapped)| mapped == pointer);
        let mapped: Vec<_> = mapped.map(|(name, _)| (*name).to_owned()).collect();
        if !mapped.is_empty() {
            return mapped;
        }
        let extensions = ["x-ms-discriminator-value", "x-discriminator-value"];
        let own = extensions.iter().find_map(|key| target.get(*key)?.as_str()).map(str::to_owned);
        own.or_else(|| document.name_of(pointer)).into_iter().collect()
    }
}

/// Converts `name` to a value of the type `declared`. `None` if it has no such value.
fn to_value(name: &str, declared: Option<&Value>) -> Option<Value> {
    let has_type = |wanted: &str| match declared {
        Some(Value::Array(types)) => types.iter().any(|it| it == wanted),
        Some(only) => only == wanted,
        None => wanted == "string",
    };
    if has_type("string") {
        return Some(name.into());
    }
    let value: Value = serde_json::from_str(name).ok()?;
    let fits = match &value {
        Value::Bool(_) => has_type("boolean"),
        Value::Number(number) => has_type("number") || (has_type("integer") && !number.is_f64()),
        _ => false,
    };
    fits.then_some(value)
}

/// Returns the schema of the property `name` in `schema`, in the target of its `$ref`, or in its
/// `allOf`.
pub(super) fn find_property<'v>(
    document: &'v Document,
    schema: &'v Value,
    name: &str,
    depth: usize,
) -> Option<&'v Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let schema = document.spend(1).and_then(|()| document.resolve(schema)).ok()?;
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    let members = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    own.or_else(|| members.into_iter().find_map(|it| find_property(document, it, name, depth + 1)))
}

impl Tag {
    /// Adds the values of the property to the schema `keywords`.
    pub(super) fn add_to(&self, keywords: &mut Map<String, Value>) {
        let properties = keywords.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            let mut tag = Map::new();
            if let Some(Value::Object(declared)) = properties.get(&self.property) {
                let is_kept = |key: &str| matches!(key, "title" | "description");
                let kept = declared
                    .iter()
                    .filter(|(key, value)| is_kept(key) || (*key == "type" && value.is_string()));
                tag.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
            }
            match self.values.as_slice() {
                [only] => tag.insert("const".to_owned(), only.clone()),
                several => tag.insert("enum".to_owned(), several.into()),
            };
            properties.insert(self.property.clone(), tag.into());
        }
        let required = keywords.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required
            && self.is_required
            && !required.iter().any(|name| *name == self.property)
        {
            required.push(self.property.as_str().into());
        }
        if keywords.get("required") == Some(&json!([])) {
            keywords.shift_remove("required");
        }
    }
}
